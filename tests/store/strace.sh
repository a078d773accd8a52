#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a commit passes to the kernel, seen from outside: 20 one-record commits on a sparse map of
# 32 GiB. The same program with the system's liblmdb is the control.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
need strace

strace -o "$tmp/probe" true 2>"$tmp/why" || skip "strace does not work here: $(head -n 1 "$tmp/why")"
cd "$(dirname "$PGW_WRITER")" || exit 1
db=$(mktemp -d ./strace-XXXXXX)
trap 'rm -rf "$db"; cleanup' EXIT
case $(stat -f -c %T "$db") in
tmpfs | ramfs) skip "the build folder is on a tmpfs: there is no device to sync to" ;;
esac

# count PROGRAM ARGUMENTS...: "barriers bytes" of 20 commits.
count() {
    local program=$1
    shift
    rm -f "$db"/*
    strace -f -o "$tmp/trace" -e trace=openat,write,msync,fsync,fdatasync,sync_file_range,pwrite64,pwritev \
        "$program" "$db" 20 map=32 "$@" >"$tmp/out" || fail "$program $*: $(cat "$tmp/out")"
    awk '
        { sub(/^[0-9]+ +/, "") }
        /^openat.*O_(DSYNC|SYNC)/ { dsync[$NF] = 1 }
        /^write\(1, "begin/ { on = 1 }
        /^write\(1, "end/ { on = 0 }
        !on { next }
        # The length is the second argument of msync and the third of sync_file_range.
        { split($0, call, "("); n = split(call[2], arg, ", *") }
        /^msync/ { if (/MS_SYNC/) barriers++; bytes += arg[2] }
        /^sync_file_range/ { bytes += arg[3] }
        /^f(data)?sync/ { barriers++ }
        /^pwrite(64|v)\(/ { if (arg[1] in dsync) barriers++ }
        END { printf "%.0f %.0f\n", barriers, bytes }' "$tmp/trace"
}

for mode in "" writemap; do
    # shellcheck disable=SC2086 # mode may be nothing
    read -r barriers bytes <<<"$(count "$PGW_WRITER" $mode)"
    echo "store ${mode:-write}: $barriers barriers, $bytes bytes in 20 commits"
    [ "$barriers" = 40 ] || fail "$barriers barriers, not two a commit"
    [ "$bytes" -le $((20 * 65536)) ] || fail "$bytes bytes: more than 64 KiB a commit"
done

read -r barriers bytes <<<"$(count "$PGW_PLAIN_WRITER" writemap)"
echo "liblmdb writemap: $barriers barriers, $bytes bytes in 20 commits"
[ "$barriers" = 40 ] || fail "control: $barriers barriers, not 40"
[ "$bytes" -ge $((20 << 35)) ] || fail "control: only $bytes bytes: this test measures nothing"
