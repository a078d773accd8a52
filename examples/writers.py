#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""An ordinary LMDB program, which knows nothing of pagewise: threads that commit a record at a time.

    pagewise run --no-alloc --stats -- examples/writers.py DIRECTORY [THREADS [COMMITS]]

Needs python3-lmdb, Debian's: one that brings an LMDB of its own inside is not reached by a preload.
"""
import sys
import threading

import lmdb


def write(env, thread, commits):
    for i in range(commits):
        with env.begin(write=True) as txn:
            txn.put(b"%d/%d" % (thread, i), b"x" * 200)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    commits = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    env = lmdb.open(sys.argv[1], map_size=1 << 28)
    workers = [threading.Thread(target=write, args=(env, t, commits)) for t in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    print(env.stat()["entries"], "records")
    env.close()


main()
