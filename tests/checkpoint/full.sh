#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# full.sh: small file systems are filled through LMDB, in every durability (full.c). They are mounted
# in a mount namespace of their own and go with it.
set -u
if [ "${1-}" != inside ]; then
    unshare -m true 2>/dev/null || {
        echo "full.sh: no mount namespace can be made here (it needs root)" >&2
        exit 77
    }
    exec unshare -m "$0" inside
fi
work=$(mktemp -d /dev/shm/pagewise-full-XXXXXX 2>/dev/null || mktemp -d "$PWD/full-XXXXXX") || exit 1
at=$work/at
mkdir "$at"
trap 'umount "$at" 2>/dev/null; rm -rf "$work"' EXIT
mount --make-rprivate / 2>/dev/null

# KIND: an empty small file system at $at. Says why it cannot be had.
up() {
    case $1 in
    tmpfs) mount -t tmpfs -o size=16m tmpfs "$at" ;;
    ext4)
        truncate -s 24M "$work/disk" && mkfs.ext4 -q -F -b 4096 "$work/disk" &&
            mount -o loop "$work/disk" "$at"
        ;;
    esac 2>"$work/why"
}

# KIND DURABILITY MAP
fill() {
    printf '%-6s' "$1"
    "$PGW_FULL" "$at" "$2" "$3" || exit 1
    "$PGW_AUDIT" "$at/data.mdb" >"$work/audit" || {
        cat "$work/audit" >&2
        exit 1
    }
    umount "$at" || exit 1
}

# On tmpfs all of them; on ext4, where barriers take time, those that differ there.
for durability in strict group relaxed; do
    for map in plain writemap; do
        up tmpfs || {
            echo "full.sh: no tmpfs can be mounted: $(tail -n 1 "$work/why")" >&2
            exit 77
        }
        fill tmpfs $durability $map
    done
done
for run in "strict plain" "strict writemap" "relaxed writemap"; do
    up ext4 || {
        echo "full.sh: ext4 is left out: $(tail -n 1 "$work/why")" >&2
        break
    }
    # shellcheck disable=SC2086 # two words
    fill ext4 $run
done
