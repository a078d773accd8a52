#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The writer is killed at a random moment, again and again: what it acknowledged is there for LMDB's
# own tools, and the next writer goes on.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
need mdb_stat mdb_dump

for mode in "" writemap nometasync "writemap nometasync"; do
    db=$tmp/db
    rm -rf "$db"
    mkdir "$db"
    last=0
    for round in $(seq 8); do
        # shellcheck disable=SC2086 # mode is a list
        background "$PGW_WRITER" "$db" 0 acks $mode >"$tmp/acks"
        wait_for 20 grep -q '^[0-9]' "$tmp/acks" || fail "$mode: no commit in round $round"
        sleep "0.0$((RANDOM % 90 + 10))"
        kill -9 "$pid"
        wait "$pid" 2>/dev/null
        acked=$(grep '^[0-9]*$' "$tmp/acks" | tail -n 1)
        entries=$(mdb_stat "$db" | awk '/Entries:/ { print $2 }')
        # The last line may have been cut; one commit more may have been made.
        [ "$entries" -ge "$acked" ] || fail "$mode: $entries entries, $acked acknowledged"
        [ "$entries" -gt "$last" ] || fail "$mode: round $round did not go on"
        [ "$(mdb_dump "$db" | grep -c '^ ')" = $((2 * entries)) ] || fail "$mode: mdb_dump differs"
        last=$entries
    done
    echo "${mode:-strict}: $last commits, killed 8 times"
done
