#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Python's binding of LMDB, unchanged, on the library; then LMDB's own tools on what it left.
# (Debian's python3-lmdb does not carry the binding's test suite.)
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
python=/usr/bin/python3
$python -c 'import lmdb' 2>/dev/null || skip "$python has no module lmdb (Debian: python3-lmdb)"
need mdb_stat mdb_dump mdb_load mdb_copy

run() {
    LD_PRELOAD=$PGW_STORE PAGEWISE_STATS=$tmp/stats $python "$@"
}

script=$(dirname "$0")/exercise.py
run "$script" "$tmp/envs" || fail "exercise.py under the preload"
$python - "$tmp/stats" <<'END' || fail "the library was not in use"
import json, sys
store = json.loads(open(sys.argv[1]).readline())["parts"]["store"]
print({k: store[k] for k in ("commits", "dirty_bytes", "synced_bytes", "barriers", "full_syncs")})
assert store["commits"] > 100 and store["full_syncs"]["untracked"] == 0
END

# The same without the preload must leave the same records.
$python "$script" "$tmp/plain" || fail "exercise.py without the preload"
for db in "$tmp"/envs/*/; do
    name=$(basename "$db")
    mdb_stat -a "$db" >/dev/null || fail "mdb_stat $name"
    mdb_dump -a "$db" | grep -v '^mapsize\|^maxreaders' >"$tmp/dump" || fail "mdb_dump $name"
    mdb_dump -a "$tmp/plain/$name" | grep -v '^mapsize\|^maxreaders' >"$tmp/dump.plain"
    cmp "$tmp/dump" "$tmp/dump.plain" || fail "$name: other records than with liblmdb"
    mkdir "$tmp/copy" "$tmp/loaded"
    mdb_copy -c "$db" "$tmp/copy" || fail "mdb_copy $name"
    mdb_dump -a "$tmp/copy" | grep -v '^mapsize\|^maxreaders' | cmp - "$tmp/dump" || fail "mdb_copy $name differs"
    mdb_dump -a "$db" | mdb_load "$tmp/loaded" 2>"$tmp/err" || fail "mdb_load $name: $(cat "$tmp/err")"
    # mdb_load of 0.9.35 does not know what mdb_dump of 0.9.35 writes, and loses MDB_DUPSORT.
    grep -q 'unrecognized keyword ignored: duplicates' "$tmp/err" ||
        mdb_dump -a "$tmp/loaded" | grep -v '^mapsize\|^maxreaders' | cmp - "$tmp/dump" || fail "mdb_load $name differs"
    # And the other way round: what LMDB's tools made is good for the library.
    run -c 'import lmdb, sys
e = lmdb.open(sys.argv[1], max_dbs=8)
with e.begin(write=True) as t: t.put(b"~after", b"x")
with e.begin() as t: assert t.get(b"~after") == b"x"
e.close()' "$tmp/loaded" || fail "writing to what mdb_load made of $name"
    mdb_stat "$tmp/loaded" >/dev/null || fail "mdb_stat of it"
    rm -rf "$tmp/copy" "$tmp/loaded"
done
