#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A program under gdb: it stops at a breakpoint, the debugger calls malloc and free in it, it goes on and ends well.
# packages: gdb
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need gdb sort

seq 1 20000 | sort -r >"$tmp/in"
sort -n "$tmp/in" >"$tmp/expected" || fail "sort"

# Where a process may not be traced, that says nothing of the library.
gdb -q -nx -batch -ex run --args true >"$tmp/plain" 2>&1
grep -q "exited normally" "$tmp/plain" || skip "gdb cannot run a program here: $(tail -n 1 "$tmp/plain")"

gdb -q -nx -batch -ex "set exec-wrapper env LD_PRELOAD=$preload" -ex "set breakpoint pending on" \
    -ex "break exit" -ex run \
    -ex "set \$p = ((void *(*)(unsigned long))malloc)(100000)" -ex "print \$p != 0" \
    -ex "call ((void (*)(void *))free)(\$p)" -ex "info sharedlibrary" -ex continue \
    --args sort -n -o "$tmp/got" "$tmp/in" >"$tmp/log" 2>&1 || fail "gdb: $(tail -n 3 "$tmp/log")"
grep -qF "$(readlink -f "$preload")" "$tmp/log" || grep -qF "$preload" "$tmp/log" || fail "gdb does not see the library"
grep -q '^[$]1 = 1' "$tmp/log" || fail "malloc, called by gdb: $(tail -n 5 "$tmp/log")"
grep -q "exited normally" "$tmp/log" || fail "it does not end: $(tail -n 3 "$tmp/log")"
cmp "$tmp/expected" "$tmp/got" >&2 || fail "another output under gdb"
