#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# serve.py CHAIN DATA: several processes answer while another one imports, blocks are taken off and come
# again. Every answer is of one snapshot: it agrees with itself, and with what monerod said of the chain.
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

chain, data = sys.argv[1:]
a_raw = os.path.join(data, "a.raw")
CLIENTS = 4
failures = []


def check(good, what):
    if not good and len(failures) < 20:
        failures.append(what)


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(100)
        self.socket.connect(path)
        self.file = self.socket.makefile("rwb")

    def ask(self, question):
        self.file.write(question.encode() + b"\n")
        self.file.flush()
        return json.loads(self.file.readline())

    def close(self):
        self.file.close()
        self.socket.close()


def consistent(info, hashes):
    """What info says hangs together, and is a state that the chain had."""
    rows, height = info["rows"], info["height"]
    check(info["top_hash"] == hashes["block_hashes"][height - 1], f"top hash at height {height}")
    for table in ("blocks", "block_info", "block_heights", "hf_versions"):
        check(rows[table] == height, f"{table} has {rows[table]} rows at height {height}")
    for table in ("txs_pruned", "txs_prunable", "tx_outputs"):
        check(rows[table] == rows["tx_indices"], f"{table} has {rows[table]} rows, tx_indices {rows['tx_indices']}")
    check(rows["output_txs"] == rows["output_amounts"], "output tables differ")
    check(info["rct_outputs"] + 1 == rows["output_txs"], "the last block counts other outputs than there are")
    known = sum(1 for _, h in hashes["txs"] if h < height)
    check(rows["tx_indices"] == height + known, f"{rows['tx_indices']} transactions at height {height}")


def client(path, hashes, seen, done):
    c = Client(path)
    while not done.is_set():
        info = c.ask("info")
        consistent(info, hashes)
        seen.append(info["height"])
        top = info["height"] - 1
        block = c.ask(f"block {top}")
        # It may have been taken off since.
        check(block.get("hash") == hashes["block_hashes"][top] or "no block" in block.get("error", ""),
              f"block {top}: {block}")
        check(c.ask(f"block {hashes['block_hashes'][0]}")["height"] == 0, "genesis")
    c.close()


def run(*args):
    p = subprocess.run([chain, *args, "--json"], capture_output=True, text=True)
    check(p.returncode == 0, f"{args}: left with {p.returncode}: {p.stderr}")
    return json.loads(p.stdout) if p.returncode == 0 else {}


def wait_for(what, predicate):
    for _ in range(1000):
        if predicate():
            return
        time.sleep(0.1)
    raise SystemExit(f"{what}: not within 100 s")


def listening(path):
    try:
        Client(path).close()
        return True
    except OSError:
        return False


def start(db, path):
    server = subprocess.Popen([chain, "serve", db, path, f"--workers={CLIENTS}"], stderr=subprocess.PIPE,
                              text=True)

    def answers():
        if server.poll() is not None:
            raise SystemExit(f"serve left with {server.returncode}: {server.stderr.read()}")
        return listening(path)
    wait_for("serve", answers)
    return server


def questions(path, hashes):
    c = Client(path)
    tx, height = hashes["txs"][0]
    got = c.ask(f"tx {tx}")
    check((got["hash"], got["height"]) == (tx, height), "tx")
    check(c.ask("outputs")["amounts"][0]["amount"] == 0, "outputs")
    check([o["index"] for o in c.ask("outputs 0 7 3")["outputs"]] == [7, 8, 9], "outputs of an amount")
    for wrong, part in (("dance", "ask info"), ("block", "ask info"), ("block 99999", "no block 99999"),
                        ("tx 12", "not a hash"), ("outputs x", "not a number"), ("a b c d e f", "more than")):
        check(part in c.ask(wrong).get("error", ""), f"answer to '{wrong}'")
    # Several at once, and what is no line at all.
    c.file.write(b"info\nblock 0\r\n")
    c.file.flush()
    check("height" in json.loads(c.file.readline()) and json.loads(c.file.readline())["height"] == 0, "two questions")
    c.file.write(b"x" * 4000)
    c.file.flush()
    try:
        check(c.file.readline() == b"", "an endless line was answered")
    except ConnectionResetError:
        pass
    c.close()


def height_of(db):
    p = subprocess.run([chain, "info", db, "--json"], capture_output=True, text=True)
    return json.loads(p.stdout)["height"] if p.returncode == 0 else 0


def while_it_changes(tmp, hashes, durability):
    db, path = os.path.join(tmp, durability), os.path.join(tmp, durability + ".sock")
    growing = os.path.join(tmp, "growing.raw")
    with open(a_raw, "rb") as f:
        raw = f.read()
    with open(growing, "wb") as f:
        f.write(raw[:300000])
    importer = subprocess.Popen([chain, "import", growing, db, f"--durability={durability}", "--batch=20",
                                 "--follow", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for("the first blocks", lambda: height_of(db) > 0)
    server = start(db, path)
    done, seen = threading.Event(), [[] for _ in range(CLIENTS)]
    threads = [threading.Thread(target=client, args=(path, hashes, s, done)) for s in seen]
    try:
        for t in threads:
            t.start()
        wait_for("the first answers", lambda: all(seen))
        for at in range(300000, len(raw), 40000):
            with open(growing, "ab") as f:
                f.write(raw[at:at + 40000])
            time.sleep(0.02)
        wait_for("all blocks", lambda: all(s and s[-1] == 1200 for s in seen))
        importer.send_signal(signal.SIGTERM)
        check(importer.wait() == 3, f"the import: {importer.stderr.read()}")
        if durability != "relaxed":
            # Readers do not mind another writer. A relaxed one could not attach while they are there.
            run("pop", "300", db, f"--durability={durability}")
            wait_for("fewer blocks", lambda: all(s[-1] == 900 for s in seen))
            run("import", a_raw, db, f"--durability={durability}")
            wait_for("all blocks again", lambda: all(s[-1] == 1200 for s in seen))
    finally:
        done.set()
        for t in threads:
            t.join()
        if importer.poll() is None:
            importer.kill()
            importer.wait()
    questions(path, hashes)
    check(len(set(seen[0])) > 1, "the chain did not change while it was looked at")
    c = Client(path)
    check(c.ask("verify").get("blocks") == 1200, "verify")
    c.close()
    server.terminate()
    check(server.wait() == 0 and not os.path.exists(path), "serve did not end well")
    check(run("verify", db)["verified"]["blocks"] == 1200, "verify afterwards")


def children(parent):
    """Process ids, from the fourth field of each process's stat; its name may have spaces."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(entry)}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(int(entry))
        except (ValueError, OSError):
            pass
    return found


def workers_and_sockets(tmp, hashes, db):
    path = os.path.join(tmp, "again.sock")
    server = start(db, path)
    p = subprocess.run([chain, "serve", db, path], stderr=subprocess.PIPE, text=True)
    check(p.returncode == 1 and "listen there" in p.stderr, f"two servers: {p.stderr}")
    # Workers that are killed, or told to end, are replaced.
    for sig in (signal.SIGKILL, signal.SIGTERM):
        first = set(children(server.pid))
        for pid in first:
            os.kill(pid, sig)
        wait_for("new workers", lambda: len(set(children(server.pid)) - first) == CLIENTS)
    c = Client(path)
    consistent(c.ask("info"), hashes)
    c.close()
    # Workers do not outlive a server that was killed, and its socket is no obstacle.
    server.kill()
    said = server.communicate()[1]
    check(said.count("starting another") == 2 * CLIENTS, f"what the server said of its workers: {said}")
    wait_for("the end of the workers", lambda: not listening(path))
    server = start(db, path)
    server.terminate()
    check(server.wait() == 0, "serve after a killed one")
    plain = os.path.join(tmp, "plain")
    with open(plain, "w"):
        pass
    p = subprocess.run([chain, "serve", db, plain], stderr=subprocess.PIPE, text=True)
    check(p.returncode == 1 and os.path.exists(plain), "a plain file was taken for a socket")
    p = subprocess.run([chain, "serve", os.path.join(tmp, "nowhere"), path], stderr=subprocess.PIPE, text=True)
    check(p.returncode == 1 and "nowhere" in p.stderr, f"serve nothing: {p.stderr}")


def on_plain_lmdb(tmp):
    p = subprocess.run([chain, "import", os.path.join(data, "c.raw"), os.path.join(tmp, "probe"),
                        "--durability=relaxed"], capture_output=True, text=True)
    return "plain LMDB" in p.stderr


def main():
    with open(os.path.join(data, "a.hashes.json")) as f:
        hashes = json.load(f)
    with tempfile.TemporaryDirectory() as tmp:
        for durability in ["strict"] if on_plain_lmdb(tmp) else ["strict", "relaxed"]:
            while_it_changes(tmp, hashes, durability)
        workers_and_sockets(tmp, hashes, os.path.join(tmp, "strict"))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


sys.exit(main())
