#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What a program is told that was given PAGEWISE_STORE and cannot have it: each mistake once, and once for
# each environment why it is not group or relaxed. Nothing of that ends up in a file of the program's.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"

# said TIMES PATTERN: in $tmp/err.
said() {
    local n
    n=$(grep -c -- "$2" "$tmp/err")
    [ "$n" = "$1" ] || {
        cat "$tmp/err" >&2
        fail "'$2': $n times and not $1"
    }
}

# write SETTING DIR [FLAG...]: two commits.
write() {
    local setting=$1 dir=$2
    shift 2
    mkdir -p "$dir"
    PAGEWISE_STORE=$setting "$PGW_WRITER" "$dir" 1 "$@" >/dev/null 2>"$tmp/err" || fail "$setting: $(cat "$tmp/err")"
}

# Mistakes.
write durability:strict,checkpoint_ms:5 "$tmp/good"
said 0 .
write durability:gruop,checkpoint_ms:5,speed:11,warm "$tmp/bad"
said 1 'durability:gruop: not understood in PAGEWISE_STORE and ignored: durability takes strict, group or relaxed'
said 1 'speed:11: not understood'
said 1 'warm: not understood'
said 3 .
if [ -n "${PGW_COMMAND-}" ]; then
    PAGEWISE_STORE=speed:11 "$PGW_COMMAND" run --no-alloc true 2>"$tmp/err" || fail "pagewise run"
    said 1 'speed:11: not understood'
    PAGEWISE_STORE=speed:11 "$PGW_COMMAND" recover "$tmp/good" >/dev/null 2>"$tmp/err" || fail "pagewise recover"
    said 0 .
fi

# What can be had says nothing.
write durability:group "$tmp/good"
said 0 .
write nosync:relaxed "$tmp/good" nosync
said 0 .

# Another process has the file open.
mkfifo "$tmp/acks"
"$PGW_WRITER" "$tmp/good" 0 acks >"$tmp/acks" &
pid=$!
background_pids+=("$pid")
exec 3<"$tmp/acks"
read -r line <&3
[ "$line" = begin ] || fail "the other writer says $line"
write durability:group "$tmp/good"
said 1 "$tmp/good: durability group was asked for and is not possible: another process has it open"
said 1 .
write durability:relaxed "$tmp/good" again again
said 1 "durability relaxed was asked for and is not possible: another process has it open"
said 1 .
write nosync:relaxed "$tmp/good"
said 0 .
write nosync:relaxed "$tmp/good" nosync
said 1 "durability nosync:relaxed was asked for and is not possible: another process has it open"
exec 3<&-
finish "$pid" 2>/dev/null

# No locks.
write durability:group "$tmp/good" nolock
said 1 'durability group was asked for and is not possible: it is opened with MDB_NOLOCK'
said 1 .

# Standard error is no more what it was: a file of the program's.
write durability:group "$tmp/good" nolock "error=$tmp/mine"
said 0 .
[ -e "$tmp/mine" ] || fail "the program's file is not there"
[ ! -s "$tmp/mine" ] || fail "something was written to a file of the program's"

# Or a pipe that nobody reads: no reason to end.
{
    sleep 0.2
    PAGEWISE_STORE=durability:group exec "$PGW_WRITER" "$tmp/good" 1 nolock
} 2>&1 >"$tmp/out" | true
[ "${PIPESTATUS[0]}" = 0 ] || fail "it ended: ${PIPESTATUS[0]}"
grep -q end "$tmp/out" || fail "it did not come to its end"
