#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pagewise recover and stat, on environments of a program that was made relaxed by PAGEWISE_STORE.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
pagewise=$1
store=$2

python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip 'python3-lmdb is not installed'
command -v mdb_stat >/dev/null || skip 'mdb_stat is not there (Debian: lmdb-utils)'

cat >"$tmp/writer.py" <<'EOF'
import lmdb, sys, time
env = lmdb.open(sys.argv[1], map_size=1 << 24)
for i in range(20):
    with env.begin(write=True) as txn:
        txn.put(b'key', b'%d' % i)
print('ready', flush=True)
if sys.argv[2] == 'close':
    env.close()
else:
    time.sleep(600)
EOF

writer() {
    PAGEWISE_STORE=durability:relaxed,checkpoint_ms:3600000 LD_PRELOAD=$store \
        "$python" "$tmp/writer.py" "$1" "$2"
}

# Closed: a plain file.
mkdir "$tmp/closed"
writer "$tmp/closed" close >/dev/null || fail 'the program fails under the preload'
mdb_stat "$tmp/closed" >/dev/null || fail 'plain LMDB does not open what was closed'
expect_code 0 "$pagewise" recover "$tmp/closed" >"$tmp/out"
grep -q '^state: *plain' "$tmp/out" || fail 'recover: not plain'
expect_code 0 "$pagewise" stat "$tmp/closed/data.mdb" >"$tmp/out"
grep -q 'last transaction 20$' "$tmp/out" || fail 'stat: last transaction'

# In use: seen, and left alone.
mkdir "$tmp/killed"
mkfifo "$tmp/fifo"
PAGEWISE_STORE=durability:relaxed,checkpoint_ms:3600000 LD_PRELOAD=$store \
    "$python" "$tmp/writer.py" "$tmp/killed" stay >"$tmp/fifo" &
pid=$!
background_pids+=("$pid")
read -r line <"$tmp/fifo"
[ "$line" = ready ] || fail 'the program does not start'
mdb_stat "$tmp/killed" >/dev/null 2>&1 && fail 'plain LMDB opens what is in use'
expect_code 0 "$pagewise" stat "$tmp/killed" >"$tmp/out"
grep -q '^state: *fenced: in use' "$tmp/out" || fail 'stat: not in use'
grep -q "^ *$pid " "$tmp/out" || fail 'stat: the pins of the writer are not there'
expect_code 0 "$pagewise" recover "$tmp/killed" >"$tmp/out"
grep -q '^state: *fenced: in use' "$tmp/out" || fail 'recover: not in use'

# Killed.
kill -9 "$pid"
wait "$pid" 2>/dev/null
cp "$tmp/killed/data.mdb" "$tmp/before"
expect_code 0 "$pagewise" recover --check "$tmp/killed" >"$tmp/out"
grep -Eq '^result: *would be (kept|restored)' "$tmp/out" || fail 'recover --check'
expect_code 0 "$pagewise" stat "$tmp/killed" >"$tmp/out"
grep -Eq '^result: *would be (kept|restored)' "$tmp/out" || fail 'stat of what was not closed'
cmp -s "$tmp/killed/data.mdb" "$tmp/before" || fail '--check or stat changed the file'

# A raw copy is refused, as it is.
mkdir "$tmp/copy"
cp "$tmp/before" "$tmp/copy/data.mdb"
expect_code 1 "$pagewise" recover "$tmp/copy" >"$tmp/out"
expect_message 'PGW_COPIED'
cmp -s "$tmp/copy/data.mdb" "$tmp/before" || fail 'a refused file was changed'

# Unless somebody vouches for it. The cache of the original says nothing about the copy.
expect_code 0 "$pagewise" recover --check --copy "$tmp/copy" >"$tmp/out"
grep -Eq '^result: *would be restored' "$tmp/out" || fail 'recover --check --copy'
cmp -s "$tmp/copy/data.mdb" "$tmp/before" || fail '--check --copy changed the file'
expect_code 0 "$pagewise" recover --copy "$tmp/copy" >"$tmp/out"
grep -Eq '^result: *restored' "$tmp/out" || fail 'recover --copy'
mdb_stat "$tmp/copy" >/dev/null || fail 'plain LMDB does not open the copy that was recovered'

expect_code 0 "$pagewise" recover --json "$tmp/killed" >"$tmp/out"
"$python" - "$tmp/out" <<'EOF' || fail 'recover --json'
import json, sys
r = json.load(open(sys.argv[1]))
assert r['fenced'] and not r['failed'] and r['error'] is None
assert r['action'] == ('kept' if r['same_cache'] else 'restored')
assert r['txnid'] == (20 if r['same_cache'] else 0)
assert r['lost_txnids'] == r['newest_txnid'] - r['txnid']
assert [x['number'] for x in r['records']].count(1) == 1
EOF
mdb_stat "$tmp/killed" >/dev/null || fail 'plain LMDB does not open what was recovered'

# Standard input and output closed: the lock file, which gets the number 1 then, is not what the
# readers are listed in. So many that they fill the buffer while it is open.
mkdir "$tmp/read"
"$python" - "$tmp/read" "$pagewise" <<'EOF' || fail 'stat wrote into the lock file'
import lmdb, os, subprocess, sys
env = lmdb.open(sys.argv[1], map_size=1 << 20, max_readers=600)
with env.begin(write=True) as txn:
    txn.put(b'key', b'value')
readers = [env.begin() for i in range(500)]
for txn in readers:
    txn.get(b'key')
size = os.stat(sys.argv[1] + '/lock.mdb').st_size
command = 'exec "$1" stat "$2" <&- >&-'
run = subprocess.run(['sh', '-c', command, 'sh', sys.argv[2], sys.argv[1]], stderr=subprocess.PIPE)
assert run.returncode == 1 and b'cannot write the output' in run.stderr, run
assert os.stat(sys.argv[1] + '/lock.mdb').st_size == size
EOF

# Wrong use.
expect_code 2 "$pagewise" recover
expect_message 'one environment'
expect_code 2 "$pagewise" stat a b
expect_code 1 "$pagewise" recover "$tmp/nothing"
expect_message 'No such file'
[ ! -e "$tmp/nothing" ] || fail 'an environment was made'
