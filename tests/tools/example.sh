#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What the README shows: an LMDB program under pagewise run, without a change and in group durability.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
pagewise=$1
program=$2
python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip 'python3-lmdb is not installed'
unset PAGEWISE_STORE PAGEWISE_STATS PAGEWISE_SYNC

# counter NAME: of the store, in the report.
counter() {
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["parts"]["store"][sys.argv[2]])' \
        "$tmp/stats" "$1"
}

# writers DURABILITY: 3 threads, 20 commits each.
writers() {
    mkdir "$tmp/$1"
    rm -f "$tmp/stats"
    PAGEWISE_STORE=durability:$1 expect_code 0 "$pagewise" run --no-alloc --stats="$tmp/stats" -- \
        "$python" "$program" "$tmp/$1" 3 20 >"$tmp/out"
    [ "$(cat "$tmp/out")" = "60 records" ] || fail "$1: $(cat "$tmp/out" "$tmp/err")"
    [ "$(counter commits)" = 60 ] || fail "$1: $(cat "$tmp/stats")"
    expect_code 0 "$pagewise" stat "$tmp/$1" >"$tmp/out"
    grep -q '^state: *plain' "$tmp/out" || fail "$1: it was not closed: $(cat "$tmp/out")"
    grep -q 'last transaction 60$' "$tmp/out" || fail "$1: $(cat "$tmp/out")"
}

writers strict
[ "$(counter dirty_ranges)" -ge 60 ] || fail "strict: the commits had no ranges"
writers group
[ "$(counter barriers)" -gt 0 ] || [ "$(stat -f -c %T "$tmp")" = tmpfs ] ||
    fail "group: durable without a barrier"
