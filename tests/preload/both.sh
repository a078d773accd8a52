#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pagewise run with both libraries: python3-lmdb in threads and child processes, in both write
# modes. The data, judged by Debian's own mdb_dump, is that of a run without; the report has a part
# for each library.
# packages: python3-lmdb lmdb-utils
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
pagewise=$(readlink -f "$1")
python=/usr/bin/python3
[ -x $python ] || skip "$python is not installed"
$python -c 'import lmdb' 2>/dev/null || skip "python3-lmdb is not installed"
need mdb_dump mdb_stat mdb_copy

cat >"$tmp/script.py" <<'END'
import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import lmdb

path, mode = sys.argv[1:3]
writers = 4
env = lmdb.open(path, map_size=1 << 32, max_dbs=writers, writemap=mode == "writemap")
tables = [env.open_db(b"table%d" % n, dupsort=n == 3) for n in range(writers)]


def value(n, i):
    seed = hashlib.sha256(b"%d/%d" % (n, i)).digest()
    return seed * (i % 11) if n != 3 else seed


def write(n):
    for i in range(120):
        with env.begin(write=True) as txn:
            for k in range(8):
                txn.put(b"key%05d" % (i * 7919 % 500 + k), value(n, i + k), db=tables[n])
            if i % 5 == 0:
                txn.delete(b"key%05d" % (i * 31 % 500), db=tables[n])
        if i % 17 == 0:
            try:
                with env.begin(write=True) as txn:
                    txn.put(b"aborted", b"x" * (100000 if n != 3 else 100), db=tables[n])
                    raise KeyError
            except KeyError:
                pass
        churn = [bytearray(1 << (4 + j % 14)) for j in range(60)]
        del churn


def read():
    for _ in range(60):
        with env.begin() as txn:
            for t in tables:
                sum(len(v) for _, v in txn.cursor(db=t))


with ThreadPoolExecutor(writers + 2) as pool:
    done = [pool.submit(write, n) for n in range(writers)] + [pool.submit(read) for _ in range(2)]
for future in done:
    future.result()
child = """
import lmdb, sys
env = lmdb.open(sys.argv[1], max_dbs=4, readonly=True)
table = env.open_db(b"table0", create=False)
with env.begin() as txn:
    print(txn.stat(table)["entries"])
"""
subprocess.run([sys.executable, "-c", child, path], check=True)
env.close()
END

dump() {
    local n
    mdb_stat -e "$1" >/dev/null || fail "mdb_stat does not take $1"
    for n in 0 1 2 3; do
        # The map size is in the header; it is the same. What follows are keys and values.
        mdb_dump -s table$n "$1" || fail "mdb_dump of table$n in $1"
    done
}

# Purge at once: an allocator that has given nothing back has nothing to report.
export MALLOC_CONF=dirty_decay_ms:0
for mode in writemap write; do
    $python "$tmp/script.py" "$tmp/plain.$mode" $mode >"$tmp/expected" || fail "plain run, $mode"
    "$pagewise" run --stats="$tmp/stats.$mode" $python "$tmp/script.py" "$tmp/with.$mode" $mode \
        >"$tmp/got" || fail "pagewise run, $mode"
    cmp "$tmp/expected" "$tmp/got" >&2 || fail "another output, $mode"
    dump "$tmp/plain.$mode" >"$tmp/plain.dump"
    dump "$tmp/with.$mode" >"$tmp/with.dump"
    cmp "$tmp/plain.dump" "$tmp/with.dump" >&2 || fail "other data, $mode"
    mkdir "$tmp/copy.$mode"
    mdb_copy "$tmp/with.$mode" "$tmp/copy.$mode" || fail "mdb_copy, $mode"
    dump "$tmp/copy.$mode" | cmp "$tmp/with.dump" - >&2 || fail "the copy differs, $mode"

    # Two lines: the process and its child, which only read.
    $python - "$tmp/stats.$mode" <<'END' || fail "the report, $mode: $(cat "$tmp/stats.$mode")"
import json
import sys

lines = [json.loads(line) for line in open(sys.argv[1])]
lines.sort(key=lambda line: line["parts"]["store"]["commits"])
parts = lines[-1]["parts"]
assert len(lines) == 2, "two processes"
assert sorted(parts) == ["alloc", "store"], sorted(parts)
assert parts["store"]["commits"] >= 4 * 120, "commits"
assert parts["store"]["barriers"] >= parts["store"]["commits"], "barriers"
assert lines[0]["parts"]["store"]["commits"] == 0, "the child only reads"
END
done

# A wrong setting is told once, whatever carries the shim.
told_once() {
    local setting
    for setting in PAGEWISE_KERNEL PAGEWISE_SYNC; do
        [ "$(grep -c "^pagewise: fast: $setting is " "$tmp/err")" = 1 ] || fail "$setting=fast: $(cat "$tmp/err")"
    done
}
# shellcheck disable=SC2016 # the command's variable
libraries=$("$pagewise" run sh -c 'echo "$LD_PRELOAD"')
PAGEWISE_KERNEL=fast PAGEWISE_SYNC=fast "$pagewise" run true 2>"$tmp/err" || fail "run with wrong settings"
told_once
PAGEWISE_KERNEL=fast PAGEWISE_SYNC=fast LD_PRELOAD=$libraries /bin/true 2>"$tmp/err" || fail "wrong settings"
told_once
