#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# monero.py CHAIN DATA: Debian's own programs as the judge. monero-blockchain-import takes what the
# command has exported; monerod starts on a directory that the command has written, agrees about the
# chain, and mines on; what it leaves is read again, also its pool and its branches. Loopback only.
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

chain, data = sys.argv[1:]
c_raw = os.path.join(data, "c.raw")
# Of Monero's functional tests; nobody is paid on a network of one.
ADDRESS = ("42ey1afDFnn4886T7196doS9GPMzexD9gXpsZJDwVjeRVdFCSoHnv7KPbBeGpzJBzHRCAs9UxqeoyFQMYbqSWYT"
           "fJJQAWDm")
MINED = 3
POPPED = 41  # with all transactions of c.raw
BRANCH = 2
NETWORK = ["--regtest", "--keep-fakechain", "--offline", "--fixed-difficulty", "1"]
failures = []


def same(got, want, what):
    if got != want:
        failures.append(f"{what}: {got!r} where {want!r} is due")


def run(*args):
    p = subprocess.run([chain, *args], capture_output=True)
    if p.returncode != 0:
        raise SystemExit(f"{args}: left with {p.returncode}: {p.stderr.decode()}")
    return p.stdout


def ask(*args):
    return json.loads(run(*args, "--json"))


def tail(path):
    with open(path, errors="replace") as f:
        return "".join(f.readlines()[-15:])


def their_import(tmp, facts):
    raw, ours, theirs = (os.path.join(tmp, n) for n in ("ours.raw", "ours", "theirs"))
    run("import", c_raw, ours, "--durability=nosync")
    run("export", ours, raw)
    log = os.path.join(tmp, "import.log")
    with open(log, "w") as f:
        p = subprocess.run(["monero-blockchain-import", *NETWORK, "--data-dir", theirs, "--input-file", raw],
                           stdin=subprocess.DEVNULL, stdout=f, stderr=f, timeout=400)
    if p.returncode != 0:
        raise SystemExit(f"monero-blockchain-import left with {p.returncode}: {tail(log)}")
    db = os.path.join(theirs, "fake", "lmdb")
    info = ask("info", db)
    same(info["height"], facts["height"], "blocks that monero-blockchain-import took")
    same(info["top_hash"], facts["top_block_hash"], "their top hash")
    same(ask("verify", db)["verified"]["key_images"], facts["key_images_total"], "their key images")
    with open(raw, "rb") as f:
        same(run("export", db, "-") == f.read(), True, "what is exported of theirs is what they took")


class Monerod:
    def __init__(self, tmp, directory):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = os.path.join(tmp, "monerod.log")
        self.out = open(self.log, "w")
        self.process = subprocess.Popen(
            ["monerod", *NETWORK, "--data-dir", directory, "--non-interactive", "--no-zmq",
             "--rpc-bind-ip", "127.0.0.1", "--rpc-bind-port", str(self.port), "--check-updates", "disabled",
             "--log-file", os.path.join(tmp, "bitmonero.log")],
            stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out)

    def post(self, path, body):
        # Not urllib, which asks monerod to close the connection: it does so before a long answer is out.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", f"/{path}", json.dumps(body), {"Content-Type": "application/json"})
            return json.load(connection.getresponse())
        finally:
            connection.close()

    def call(self, method, **params):
        got = self.post("json_rpc", {"jsonrpc": "2.0", "id": "0", "method": method, "params": params})
        if "error" in got:
            raise SystemExit(f"monerod: {method}: {got['error']}")
        return got["result"]

    def wait(self):
        for _ in range(1200):
            if self.process.poll() is not None:
                raise SystemExit(f"monerod left with {self.process.returncode}: {tail(self.log)}")
            try:
                return self.call("get_info")
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"monerod does not answer: {tail(self.log)}")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()


def their_node(tmp, facts):
    directory = os.path.join(tmp, "node")
    db = os.path.join(directory, "fake", "lmdb")
    os.makedirs(os.path.dirname(db))
    run("import", c_raw, db)
    node = Monerod(tmp, directory)
    try:
        info = node.wait()
        same(info["height"], facts["height"], "monerod's height")
        same(info["top_block_hash"], facts["top_block_hash"], "monerod's top hash")
        same(info["cumulative_difficulty"], facts["cumulative_difficulty"], "monerod's difficulty")
        for b in facts["blocks"]:
            header = node.call("get_block_header_by_height", height=b["height"])["block_header"]
            for field in ("hash", "reward", "block_weight", "long_term_weight", "miner_tx_hash", "num_txes"):
                same(header[field], b[field], f"monerod's block {b['height']}: {field}")
        mined = node.call("generateblocks", amount_of_blocks=MINED, wallet_address=ADDRESS)["blocks"]
        node.post("stop_daemon", {})
        node.process.wait(120)
    finally:
        node.stop()
    height = facts["height"] + MINED
    same(ask("verify", db)["verified"]["blocks"], height, "blocks after mining")
    same(ask("info", db)["top_hash"], mined[-1], "top hash after mining")
    # Back to where it came from.
    same(ask("pop", str(MINED), db, "--verify")["verified"]["blocks"], facts["height"], "blocks after pop")
    with open(c_raw, "rb") as f:
        same(run("export", db, "-") == f.read(), True, "what is left is the chain of c.raw")


def same_pool(node, db):
    """What waits, as monerod says it while it runs, and as its tables say it afterwards."""
    theirs = {t["id_hash"]: t for t in node.post("get_transaction_pool", {})["transactions"]}
    branches = node.call("get_alternate_chains")["chains"]
    node.post("stop_daemon", {})
    node.process.wait(120)
    pool = ask("pool", db)
    same(sorted(t["hash"] for t in pool["transactions"]), sorted(theirs), "transactions in the pool")
    for t in pool["transactions"]:
        for field in ("blob_size", "weight", "fee", "receive_time", "max_used_block_height", "last_failed_height",
                      "kept_by_block", "do_not_relay", "double_spend_seen"):
            same(t[field], int(theirs[t["hash"]][field]), f"pool, {t['hash']}: {field}")
    same(sorted(b["hash"] for b in pool["alternative_blocks"]),
         sorted(h for c in branches for h in c["block_hashes"]), "blocks of branches")
    top = {b["hash"]: b for b in pool["alternative_blocks"]}
    for c in branches:
        same(top[c["block_hash"]]["height"], c["height"], "a branch's height")
        same(top[c["block_hash"]]["cumulative_difficulty"], c["difficulty"], "a branch's difficulty")
    return len(theirs), len(pool["alternative_blocks"])


def their_pool(tmp, facts):
    """Blocks that monerod takes off leave their transactions in its pool; others go on from below its top."""
    directory = os.path.join(tmp, "pool")
    db = os.path.join(directory, "fake", "lmdb")
    os.makedirs(os.path.dirname(db))
    run("import", c_raw, db)
    node = Monerod(tmp, directory)
    try:
        node.wait()
        low = node.post("pop_blocks", {"nblocks": POPPED})["height"]
        node.call("generateblocks", amount_of_blocks=MINED, wallet_address=ADDRESS)
        below = node.call("get_block_header_by_height", height=low - 1)["block_header"]["hash"]
        node.call("generateblocks", amount_of_blocks=BRANCH, wallet_address=ADDRESS, prev_block=below,
                  starting_nonce=1)
        waiting, others = same_pool(node, db)
    finally:
        node.stop()
    same((waiting > 0, others), (True, BRANCH), "there is something in the pool, and a branch")
    found = ask("verify", db)["verified"]
    same((found["blocks"], found["pool_transactions"], found["alternative_blocks"]), (low + MINED, waiting, others),
         "what verifies beside the chain")
    raw, copy = os.path.join(tmp, "pool.raw"), os.path.join(tmp, "copy")
    run("export", db, raw)
    run("import", raw, copy)
    same(ask("info", copy)["top_hash"], ask("info", db)["top_hash"], "the chain, exported and imported")
    # Back, and on as it was: the transactions come into the chain again.
    found = ask("pop", str(MINED), db, "--verify")["verified"]
    same((found["blocks"], found["pool_transactions"]), (low, waiting), "after pop")
    found = ask("import", c_raw, db, "--verify")["verified"]
    same((found["blocks"], found["alternative_blocks"]), (facts["height"], others), "after another import")
    same(found["pool_transactions"], 0, "transactions in the pool that are all in the chain again")


def main():
    for program in ("monerod", "monero-blockchain-import"):
        if not shutil.which(program):
            print(f"{program} is not installed (Debian's package monero)", file=sys.stderr)
            return 77
    with open(os.path.join(data, "c.json")) as f:
        facts = json.load(f)
    with tempfile.TemporaryDirectory() as tmp:
        their_import(tmp, facts)
        their_node(tmp, facts)
        their_pool(tmp, facts)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


sys.exit(main())
