#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Postfix's lmdb: tables. postmap opens them with MDB_NOLOCK, under a lock of Postfix's own, and grows
# the map when it is full; group and relaxed need LMDB's locks and are refused. Postfix is not started:
# postmap uses its dictionary code, with a configuration of ours.
# packages: postfix postfix-lmdb
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need postmap
program postfix-lmdb /usr/lib/postfix/postfix-lmdb.so
records=800

mkdir "$tmp/etc"
cat >"$tmp/etc/main.cf" <<END
compatibility_level = 3.6
queue_directory = $tmp
data_directory = $tmp
import_environment = LD_PRELOAD PAGEWISE_STATS PAGEWISE_STORE
lmdb_map_size = 65536
END
cp /etc/postfix/dynamicmaps.cf "$tmp/etc/" && mkdir "$tmp/etc/dynamicmaps.cf.d" &&
    cp /etc/postfix/dynamicmaps.cf.d/* "$tmp/etc/dynamicmaps.cf.d/" 2>/dev/null

lines() {
    awk -v from="$1" -v to="$2" 'BEGIN { for (i = from; i <= to; i++) printf "user%d %d:%0*d\n", i, i, i % 300, 0 }'
}

# put FILE COMMAND...: each line of standard input is put in by itself.
put() {
    local file=$1
    shift
    "$@" postmap -c "$tmp/etc" -i "lmdb:$file"
}

contents() {
    "${with[@]}" postmap -c "$tmp/etc" -s "lmdb:$1" | sort
}

# postmap says nothing of what it has done: what a reader sees is what counts as acknowledged.
watch() {
    local n
    while kill -0 "$1" 2>/dev/null; do
        n=$(mdb_stat -n "$tmp/with.lmdb" 2>/dev/null | sed -n 's/^ *Entries: //p')
        [ -z "$n" ] || ack "$n"
        sleep 0.02
    done
}

lines 1 $records | put "$tmp/plain" env || fail "postmap, without the library"
lines 1 $records >"$tmp/lines"
# shellcheck disable=SC2016 # for the shell inside
background "${with[@]}" bash -c 'exec postmap -c "$1" -i "lmdb:$2" <"$3"' - "$tmp/etc" "$tmp/with" "$tmp/lines"
crash_at 200 "$pid" watch "$pid"
contents "$tmp/with" >"$tmp/found" || fail "postmap after the kill"
sed -n 's/^user\([0-9]*\)[^0-9].*/\1/p' "$tmp/found" >"$tmp/there"
survived <"$tmp/there"
lines $((last + 1)) $records | put "$tmp/with" "${with[@]}" || fail "postmap after the kill"
contents "$tmp/plain" >"$tmp/expected"
contents "$tmp/with" >"$tmp/got"
same "$tmp/expected" "$tmp/got" "what postmap reads"
dump "$tmp/plain.lmdb" >"$tmp/expected"
dump "$tmp/with.lmdb" >"$tmp/got"
same "$tmp/expected" "$tmp/got" dump
judge "$tmp/with.lmdb"
fact ran "$records records by postmap, killed after $last; the map grew from 64 KiB"
used 200
