#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# python3 with malloc in place of its own pools: JSON, threads, child processes.
# packages: python3
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
[ -x $python ] || skip "$python is not installed"

cat >"$tmp/script.py" <<'END'
import hashlib
import json
import random
import subprocess
import sys
import threading

random.seed(7)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def tree(depth, rng):
    if depth == 0:
        return rng.choice([rng.random(), "x" * rng.randrange(400), None, rng.randrange(1 << 80)])
    return {f"k{i}": tree(depth - 1, rng) for i in range(rng.randrange(2, 9))}


text = json.dumps([tree(5, random) for _ in range(12)], sort_keys=True)
print("json", digest(text), digest(json.dumps(json.loads(text), sort_keys=True)))

results = [None] * 8


def work(slot):
    rng = random.Random(slot)
    kept = {}
    for step in range(20000):
        kept[rng.randrange(500)] = bytes([step % 251]) * rng.randrange(1, 20000)
    results[slot] = hashlib.sha256(b"".join(kept[k] for k in sorted(kept))).hexdigest()


threads = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("threads", *results)

for i in range(20):
    out = subprocess.run([sys.executable, "-c", f"print(sum(range({i} * 1000)))"],
                         stdout=subprocess.PIPE, check=True).stdout
    print("child", out.decode().strip())
print("pipe", subprocess.run("seq 1 20000 | sort | cksum", shell=True, stdout=subprocess.PIPE,
                             check=True).stdout.decode().strip())
END
# PYTHONMALLOC: python's own pools would keep most objects away from malloc.
export PYTHONHASHSEED=0 PYTHONMALLOC=malloc
same $python "$tmp/script.py"
