#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Another process with the system's liblmdb writes to the same environment, between and beside our
# commits. It is noticed, counted, and nothing is lost.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
need python3 mdb_dump

entries() {
    mdb_stat "$1" | awk '/Entries:/ { print $2 }'
}

for mode in "" writemap; do
    db=$tmp/db$mode
    mkdir "$db"
    # Ours stays attached, and commits when it is told to: standard output is a pipe that is read
    # here line by line.
    # shellcheck disable=SC2086 # mode may be nothing
    PAGEWISE_STATS=$tmp/stats$mode "$PGW_WRITER" "$db" 400 acks $mode >"$tmp/acks" &
    ours=$!
    # shellcheck disable=SC2086
    for round in 1 2 3 4 5; do
        "$PGW_PLAIN_WRITER" "$db" 20 $mode >/dev/null || fail "plain writer, round $round"
    done
    wait $ours || fail "the store's writer failed"
    # 401 by ours, 5 times 21 by theirs: every number once.
    [ "$(entries "$db")" = $((401 + 5 * 21)) ] || fail "$(entries "$db") entries"
    mdb_dump "$db" >/dev/null || fail "mdb_dump"
    python3 - "$tmp/stats$mode" "$tmp/acks" <<'END' || fail "statistics"
import json, sys
store = json.load(open(sys.argv[1]))["parts"]["store"]
full = store["full_syncs"]
print("commits", store["commits"], "full syncs", full)
assert store["commits"] == 401
assert full["first"] == 1
assert 1 <= full["other-writer"] <= 105, full
assert full["untracked"] == 0
# An acknowledged number was not given to the other writer as well.
acks = [l for l in open(sys.argv[2]).read().split() if l.isdigit()]
assert len(acks) == len(set(acks)) == 400
END
done
