#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A program under valgrind, once with valgrind's malloc in place of ours, once with ours.
# packages: valgrind
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need valgrind sort

seq 1 20000 | sort -r >"$tmp/in"
sort -n "$tmp/in" >"$tmp/expected" || fail "sort"

# memcheck OPTION...
memcheck() {
    with "" valgrind -q --error-exitcode=9 "$@" sort -n "$tmp/in" >"$tmp/got" 2>"$tmp/err" ||
        { cat "$tmp/err" >&2 && fail "valgrind $* sort: exit code $?"; }
    cmp "$tmp/expected" "$tmp/got" >&2 || fail "another output under valgrind $*"
}

memcheck --leak-check=no
PAGEWISE_STATS=$tmp/stats memcheck --soname-synonyms=somalloc=nouserintercepts
grep -Eq '"held_bytes":[1-9][0-9]{6}' "$tmp/stats" || fail "the library's malloc was not used: $(cat "$tmp/stats")"
