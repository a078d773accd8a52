#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# python3-lmdb: with and without MDB_WRITEMAP, two named databases, one of them with sorted values.
# (tests/store/python.sh runs more of the binding; here it is the kill.)
# packages: python3-lmdb
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
$python -c 'import lmdb' 2>/dev/null || skip "$python has no module lmdb (Debian package python3-lmdb)"
program python3-lmdb "$($python -c 'import lmdb.cpython; print(lmdb.cpython.__file__)')"
records=500

cat >"$tmp/load.py" <<'END'
"""load.py PATH write|writemap LAST [ACKED]: go on after the newest record."""
import os
import sys

import lmdb

path, how, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
env = lmdb.open(path, map_size=1 << 30, max_dbs=2, writemap=how == "writemap")
table, sets = env.open_db(b"table"), env.open_db(b"sets", dupsort=True)
with env.begin() as txn:
    first = txn.stat(table)["entries"] + 1
for i in range(first, last + 1):
    with env.begin(write=True) as txn:
        txn.put(b"%08d" % i, b"%d " % i * (i % 700), db=table)
        txn.put(b"newest", b"%d" % i, db=sets)
        if i > 1:
            txn.delete(b"newest", b"%d" % (i - 1), db=sets)
        txn.put(b"%02d" % (i % 20), b"%d" % i, db=sets)
    if len(sys.argv) > 4:
        with open(sys.argv[4] + ".new", "w") as f:
            f.write("%d\n" % i)
        os.rename(sys.argv[4] + ".new", sys.argv[4])
env.close()
END
cat >"$tmp/keys.py" <<'END'
import sys

import lmdb

env = lmdb.open(sys.argv[1], max_dbs=2)
with env.begin() as txn:
    table, sets = env.open_db(b"table", txn), env.open_db(b"sets", txn, dupsort=True)
    for key, value in txn.cursor(table):
        i = int(key)
        assert value == b"%d " % i * (i % 700), "value of %d" % i
        print(i)
    newest = [int(v) for k, v in txn.cursor(sets) if k == b"newest"]
    assert newest == [i], "newest is %s, not %d" % (newest, i)
env.close()
END

for how in write writemap; do
    rm -f "$tmp/acked"
    $python "$tmp/load.py" "$tmp/plain.$how" $how $records || fail "load, without the library, $how"
    background "${with[@]}" $python "$tmp/load.py" "$tmp/with.$how" $how $records "$tmp/acked"
    crash_at 150 "$pid"
    "${with[@]}" $python "$tmp/keys.py" "$tmp/with.$how" >"$tmp/there" || fail "after the kill, $how"
    survived <"$tmp/there"
    "${with[@]}" $python "$tmp/load.py" "$tmp/with.$how" $how $records || fail "load, after the kill, $how"
    dump "$tmp/plain.$how" >"$tmp/expected"
    dump "$tmp/with.$how" >"$tmp/got"
    same "$tmp/expected" "$tmp/got" "dump of $how"
    judge "$tmp/with.$how"
done
fact ran "$records transactions each with and without MDB_WRITEMAP, killed after $last"
used 200
