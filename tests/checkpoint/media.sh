#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# media.sh PAGEWISE MEDIA - recovery where it cannot write, or finds no room; and names: links, "..", files that
# are moved away. File systems are mounted in a mount namespace of their own and go with it.
set -u
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
if [ "${PGW_MEDIA_INSIDE-}" != 1 ]; then
    unshare -m true 2>/dev/null || skip 'no mount namespace can be made here (it needs root)'
    PGW_MEDIA_INSIDE=1 exec unshare -m "$0" "$@"
fi
pagewise=$1
media=$2
work=$tmp
at=$work/at
mkdir "$at"
trap 'umount "$at" 2>/dev/null; cleanup' EXIT
mount --make-rprivate / 2>/dev/null

# An ext4 with an environment that was not closed. Its page cache is gone with the mount, and so is trust in it.
unclean() {
    umount "$at" 2>/dev/null
    rm -f "$work/disk"
    truncate -s 16M "$work/disk"
    if ! { mkfs.ext4 -q -F -b 4096 "$work/disk" && mount -o loop "$work/disk" "$at"; }; then
        skip 'ext4 cannot be mounted from a file here'
    fi
    mkdir "$at/env"
    "$media" leave "$at/env" || fail 'leave'
}

remount() {
    umount "$at" || fail 'umount'
    mount -o "loop$1" "$work/disk" "$at" || fail "mount -o loop$1"
}

# has PATTERN: in the last output
has() {
    grep -Eq "$1" "$work/out" "$work/err" || {
        cat "$work/out" "$work/err" >&2
        fail "there is no /$1/ in that"
    }
}

# recover EXPECTED-CODE ARGUMENT...
recover() {
    local code=0 expected=$1
    shift
    "$pagewise" recover "$@" >"$work/out" 2>"$work/err" || code=$?
    [ $code = "$expected" ] || {
        cat "$work/out" "$work/err" >&2
        fail "recover $*: exit code $code, not $expected"
    }
}

sum() {
    cksum <"$at/env/data.mdb"
}

# --- read-only ---
unclean
remount ,ro
before=$(sum)
recover 1 "$at/env"
has 'state: *fenced'
has 'newest: *transaction 2$'
has 'refused; nothing was changed'
has 'because: .*cannot be opened for writing'
has 'Read-only file system'
recover 0 --check "$at/env"
has 'result: *would be restored: transaction 1 '
has 'lost: .*at least 1$'
recover 1 --json "$at/env"
has '"action": ?"refused"'
has '"error": ?"Read-only file system"'
expect_code 1 "$media" expect "$at/env" 1
has 'Read-only file system'
[ "$(sum)" = "$before" ] || fail 'a file on a read-only file system has changed'
remount ''
recover 0 "$at/env"
has 'result: *restored: transaction 1 '
"$media" expect "$at/env" 1 || fail 'after a read-only mount'

# --- no room ---
unclean
remount ''
rm "$at/env/lock.mdb" # a new one takes a block
dd if=/dev/zero of="$at/rest" bs=4k 2>/dev/null
before=$(sum)
recover 1 "$at/env"
has 'No space left on device'
[ "$(sum)" = "$before" ] || fail 'a recovery that found no room has changed the file'
rm "$at/rest"
recover 0 "$at/env"
"$media" expect "$at/env" 1 || fail 'after a full disk'

# Where the lock file is there no block is needed.
unclean
remount ''
dd if=/dev/zero of="$at/rest" bs=4k 2>/dev/null
recover 0 "$at/env"
has 'result: *restored: transaction 1 '
rm "$at/rest"
"$media" expect "$at/env" 1 || fail 'after a recovery on a full disk'

# --- names ---
unclean
ln -s env "$at/link"
mkdir "$at/other"
ln -s ../env/data.mdb "$at/other/data.mdb"
recover 0 --check "$at/other/../link/"
has 'state: *fenced: it was not closed'
recover 0 --check "$at/link/data.mdb"
has 'state: *fenced: it was not closed'
recover 0 "$at/other/../link/."
"$media" expect "$at/link" 1 || fail 'through a link'

# start_owner PATH: a process that has it open, and writes when finish_owner lets it.
start_owner() {
    coproc OWNER { exec "$media" own "$1"; }
    owner=$OWNER_PID
    exec 8<&"${OWNER[0]}" 9>&"${OWNER[1]}"
    read -r -n 1 -u 8 || fail 'the owner did not start'
}

finish_owner() {
    local in=${OWNER[1]-}
    exec 9>&-
    [ -z "$in" ] || eval "exec $in>&-"
    wait "$owner" || fail 'the owner failed'
    exec 8<&-
}

# The environment is one, whatever it is called; its lock file may be gone.
start_owner "$at/link"
recover 0 "$at/env"
has 'fenced: in use'
rm "$at/env/lock.mdb"
recover 1 "$at/other/../env"
has 'writing process has it open'
finish_owner
recover 0 "$at/env"
has 'state: *plain LMDB'
"$media" expect "$at/env" 3 || fail 'behind a lock file that was removed'

# Another file takes the name while one is in use. Each stays what it is.
cp "$at/env/data.mdb" "$at/new.mdb"
start_owner "$at/env"
mv "$at/env/data.mdb" "$at/env/old.mdb"
mv "$at/new.mdb" "$at/env/data.mdb"
recover 1 "$at/env/old.mdb"
has 'writing process has it open'
recover 0 "$at/env"
has 'state: *plain LMDB'
finish_owner
rm -f "$at/env/lock.mdb" "$at"/env/*-lock
recover 0 "$at/env/old.mdb"
has 'state: *plain LMDB'
"$media" expect "$at/env" 4 || fail 'the file that took the name'
mv "$at/env/old.mdb" "$at/env/data.mdb"
rm -f "$at/env/lock.mdb"
"$media" expect "$at/env" 6 || fail 'the file that lost its name'
