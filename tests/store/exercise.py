#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Use most of what the lmdb module offers, in an environment for each set of flags."""
import os
import random
import sys
import threading

import lmdb

MODES = {
    "plain": {},
    "writemap": {"writemap": True},
    "nometasync": {"metasync": False},
    "nosync": {"sync": False},
    "mapasync": {"writemap": True, "map_async": True},
    "nolock": {"lock": False},
}


def fill(env, rng):
    small = env.open_db(b"small")
    dups = env.open_db(b"dups", dupsort=True)
    ints = env.open_db(b"ints", integerkey=True)
    for i in range(40):
        with env.begin(write=True) as txn:
            for _ in range(rng.randrange(1, 30)):
                key = b"%05d" % rng.randrange(2000)
                if rng.random() < 0.2:
                    txn.delete(key, db=small)
                else:
                    txn.put(key, rng.randbytes(rng.randrange(1, 400)), db=small)
            txn.put(b"big%d" % rng.randrange(6), rng.randbytes(rng.randrange(5000, 80000)))
            txn.put(b"dup%d" % (i % 3), b"%06d" % rng.randrange(500), db=dups)
            txn.put(i.to_bytes(8, sys.byteorder), b"%d" % i, db=ints, append=True)
    return small, dups, ints


def aborts_and_nesting(env, small, nested):
    with env.begin(write=True) as txn:
        txn.put(b"outer", b"1", db=small)
        if nested:
            with env.begin(write=True, parent=txn) as child:
                child.put(b"inner", b"2", db=small)
            try:
                with env.begin(write=True, parent=txn) as child:
                    child.put(b"gone", b"3", db=small)
                    raise KeyError
            except KeyError:
                pass
        else:
            txn.put(b"inner", b"2", db=small)
    with env.begin() as txn:
        assert txn.get(b"inner", db=small) == b"2"
        assert txn.get(b"gone", db=small) is None
    txn = env.begin(write=True)
    txn.put(b"gone", b"4", db=small)
    txn.abort()


def cursors(env, dups, ints):
    with env.begin(write=True) as txn:
        with txn.cursor(db=dups) as cur:
            cur.putmulti([(b"multi", b"%03d" % i) for i in range(100)])
            assert cur.set_key(b"multi") and cur.count() == 100
            assert cur.delete(dupdata=True)
        with txn.cursor(db=ints) as cur:
            assert cur.last() and cur.delete()
            assert sum(1 for _ in cur.iternext()) >= 0
        assert txn.stat(ints)["entries"] == 39


def from_threads(env, small):
    def work(me):
        for i in range(10):
            with env.begin(write=True) as txn:
                txn.put(b"thread%d-%d" % (me, i), b"x" * 100, db=small)
            with env.begin() as txn:
                assert txn.get(b"thread%d-%d" % (me, i), db=small)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def exercise(path, flags, seed):
    os.makedirs(path)
    # Times and thread scheduling must not show in the records: keys and values are the same always.
    rng = random.Random(seed)
    env = lmdb.open(path, map_size=16 << 20, max_dbs=8, **flags)
    small, dups, ints = fill(env, rng)
    aborts_and_nesting(env, small, nested=not flags.get("writemap"))
    cursors(env, dups, ints)
    if flags.get("lock", True):
        from_threads(env, small)
    env.set_mapsize(32 << 20)
    fill_more = env.open_db(b"more")
    with env.begin(write=True) as txn:
        for i in range(3000):
            txn.put(b"%06d" % i, b"y" * 500, db=fill_more)
        txn.drop(fill_more, delete=False)
        txn.put(b"left", b"over", db=fill_more)
    env.sync(True)
    env.copy(path_of_copy(path), compact=True)
    env.reader_check()
    env.close()
    # Open again, and once more read-only.
    env = lmdb.open(path, map_size=32 << 20, max_dbs=8, **flags)
    with env.begin(write=True) as txn:
        txn.put(b"second", b"time")
    env.close()
    env = lmdb.open(path, max_dbs=8, readonly=True, lock=flags.get("lock", True))
    with env.begin() as txn:
        assert txn.get(b"second") == b"time"
    env.close()


def path_of_copy(path):
    copy = path + "-copy"
    os.makedirs(copy)
    return copy


def main():
    for n, (name, flags) in enumerate(MODES.items()):
        exercise(os.path.join(sys.argv[1], name), flags, n)


main()
