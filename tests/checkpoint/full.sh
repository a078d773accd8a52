#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# full.sh [FILE-SYSTEM...] - small file systems are filled through LMDB (full.c), and the auditor looks at
# what is left. They are mounted in a mount namespace of their own and go with it.
#
# Without arguments: tmpfs in every durability, and ext4, where barriers take time, in those that differ
# there. With arguments, of tmpfs, ext4, xfs, btrfs (exempt from copying on write), btrfs-cow: these, in every
# durability, with a writable map (not btrfs-cow) and without. PGW_FULL and PGW_AUDIT are the two programs.
set -u
if [ "${PGW_FULL_INSIDE-}" != 1 ]; then
    unshare -m true 2>/dev/null || {
        echo "full.sh: no mount namespace can be made here (it needs root)" >&2
        exit 77
    }
    PGW_FULL_INSIDE=1 exec unshare -m "$0" "$@"
fi
work=$(mktemp -d /dev/shm/pagewise-full-XXXXXX 2>/dev/null || mktemp -d "$PWD/full-XXXXXX") || exit 1
at=$work/at
mkdir "$at"
trap 'umount "$at" 2>/dev/null; rm -rf "$work"' EXIT
mount --make-rprivate / 2>/dev/null

# These cannot be made small: leave 20 MiB of one.
take_rest() {
    local free
    free=$(df --output=avail -k "$at" | tail -n 1)
    fallocate -l $((free - 20480))K "$at/taken"
}

# KIND: an empty small file system at $at. Says why it cannot be had.
up() {
    case $1 in
    tmpfs) mount -t tmpfs -o size=16m tmpfs "$at" ;;
    ext4)
        truncate -s 24M "$work/disk" && mkfs.ext4 -q -F -b 4096 "$work/disk" &&
            mount -o loop "$work/disk" "$at"
        ;;
    xfs)
        truncate -s 320M "$work/disk" && mkfs.xfs -q -f "$work/disk" && mount -o loop "$work/disk" "$at" && take_rest
        ;;
    btrfs | btrfs-cow)
        truncate -s 160M "$work/disk" && mkfs.btrfs -q -f "$work/disk" >/dev/null && mount -o loop "$work/disk" "$at" &&
            take_rest || return
        # Else a full disk can be SIGBUS in a writable map, and the end of the environment (store/space.c).
        [ "$1" = btrfs-cow ] || chattr +C "$at"
        ;;
    *) echo "the test knows no such file system" >&2 && false ;;
    esac 2>"$work/why"
}

# KIND DURABILITY MAP
fill() {
    printf '%-10s' "$1"
    "$PGW_FULL" "$at" "$2" "$3" "${1#*-}" || exit 1
    "$PGW_AUDIT" "$at/data.mdb" >"$work/audit" || {
        cat "$work/audit" >&2
        exit 1
    }
    umount "$at" || exit 1
}

# KIND: in every mode.
fill_all() {
    local durability map
    for durability in strict group relaxed; do
        for map in plain writemap; do
            case "$1 $durability $map" in
            # SIGBUS is as it should be there.
            "btrfs-cow "*writemap) continue ;;
            esac
            up "$1" || {
                echo "full.sh: no $1 can be mounted: $(tail -n 1 "$work/why")" >&2
                exit 77
            }
            fill "$1" $durability $map
        done
    done
}

if [ $# -gt 0 ]; then
    for kind; do
        fill_all "$kind"
    done
    exit 0
fi
fill_all tmpfs
for run in "strict plain" "strict writemap" "relaxed writemap"; do
    up ext4 || {
        echo "full.sh: ext4 is left out: $(tail -n 1 "$work/why")" >&2
        break
    }
    # shellcheck disable=SC2086 # two words
    fill ext4 $run
done
