#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# node.py CHAIN DATA: what a node does all its life, by the command: an initial download in one
# durability and durable commits from then on, a file that grows while it is read, a pipe, blocks
# taken off again.
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

chain, data = sys.argv[1:]
a_raw, c_raw = os.path.join(data, "a.raw"), os.path.join(data, "c.raw")
failures = []


def check(good, what):
    if not good:
        failures.append(what)


def same(got, want, what):
    check(got == want, f"{what}: {got!r} where {want!r} is due")


def run(*args, code=0, **more):
    p = subprocess.run([chain, *args], capture_output=True, text=True, **more)
    check(p.returncode == code, f"{args}: left with {p.returncode} for {code}: {p.stderr}")
    return p.stdout, p.stderr


def ask(*args, **more):
    return json.loads(run(*args, "--json", **more)[0])


def verified(db, blocks):
    same(ask("verify", db)["verified"]["blocks"], blocks, f"{db}: blocks that verify")


def on_plain_lmdb(tmp):
    """It has strict and nosync only, and says so."""
    p = subprocess.run([chain, "import", c_raw, os.path.join(tmp, "probe"), "--durability=group"],
                       capture_output=True, text=True)
    check(p.returncode == 0 or "plain LMDB" in p.stderr, f"--durability=group: {p.stderr}")
    return p.returncode != 0


def durabilities(tmp, modes):
    for mode in modes:
        db = os.path.join(tmp, mode)
        got = ask("import", a_raw, db, f"--durability={mode}", "--live=100", "--batch=250")
        same(got["durability"], mode, "durability")
        same((got["bulk"]["commits"], got["live"]["commits"]), (5, 100), f"{mode}: commits")
        if mode in ("strict", "group"):
            same(got["at_risk"]["blocks_max"], 0, f"{mode}: blocks at risk")
        if mode == "nosync":
            same(got["at_risk"]["blocks_max"], 1100, "nosync: blocks at risk")
        if got.get("synced", {}).get("file_system") not in (None, "tmpfs", "ramfs"):
            # Of the live commits: one each, and two in LMDB's own order.
            each = 1 if mode in ("group", "relaxed") else 2
            least = 100 * each
            check(got["synced"]["barriers"] >= least,
                  f"{mode}: {got['synced']['barriers']} barriers, not {least}")
        verified(db, 1200)
        same(ask("import", a_raw, db, f"--durability={mode}")["blocks"], 0, f"{mode}: once more")
    run("import", a_raw, os.path.join(tmp, "x"), "--durability=fast", code=2)


def live_beyond_the_file(tmp):
    """More live blocks than there are: all are."""
    db = os.path.join(tmp, "live")
    got = ask("import", c_raw, db, "--durability=nosync", "--live=1000")
    same((got["bulk"]["commits"], got["live"]["commits"]), (0, 150), "live from the start")
    same(got["at_risk"]["blocks_max"], 0, "live from the start: at risk")


def pipes(tmp):
    db = os.path.join(tmp, "pipe")
    with open(a_raw, "rb") as f:
        raw = f.read()

    def pipe(content, *more, code=0):
        p = subprocess.run([chain, "import", "-", db, "--json", *more], input=content,
                           capture_output=True)
        check(p.returncode == code, f"pipe: left with {p.returncode} for {code}: {p.stderr}")
        return json.loads(p.stdout) if p.stdout else {}, p.stderr.decode()

    got, _ = pipe(raw[:400000], code=1)
    check(0 < got["height"] < 1200, "part of a pipe")
    half = got["height"]
    got, _ = pipe(raw, "--live=20")
    same((got["from_height"], got["height"]), (half, 1200), "the rest of a pipe")
    same(got["live"]["commits"], 20, "live commits from a pipe")
    same(pipe(raw)[0]["blocks"], 0, "a pipe once more")
    with open(c_raw, "rb") as f:
        _, err = pipe(f.read(), code=1)
    check("the pipe ends" in err, f"a short pipe: {err}")
    _, err = pipe(raw, "--follow", code=1)
    check("a pipe is read to its end" in err, f"--follow of a pipe: {err}")
    verified(db, 1200)


def wait_for_height(db, enough):
    for _ in range(600):
        info = subprocess.run([chain, "info", db, "--json"], capture_output=True, text=True)
        if info.returncode == 0 and enough(json.loads(info.stdout)["height"]):
            return
        time.sleep(0.1)
    check(False, "an import that follows does not come on")


def follow(tmp):
    """A file that grows while it is read, by pieces that end anywhere."""
    db, path = os.path.join(tmp, "follow"), os.path.join(tmp, "growing.raw")
    with open(c_raw, "rb") as f:
        raw = f.read()
    with open(path, "wb") as f:
        f.write(raw[:50000])
        f.flush()
        p = subprocess.Popen([chain, "import", path, db, "--follow", "--durability=nosync", "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # A batch, and what comes before the end of the file as it is now: from here on it is live.
        wait_for_height(db, lambda height: height > 100)
        for at in range(50000, len(raw), 1777):
            f.write(raw[at:at + 1777])
            f.flush()
            time.sleep(0.02)
        wait_for_height(db, lambda height: height == 150)
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate()
    same(p.returncode, 3, f"exit code of an import that follows: {err}")
    got = json.loads(out)
    same((got["height"], got["bulk"]["commits"] + got["live"]["commits"]),
         (150, got["commits"]), "what was followed")
    check(got["live"]["commits"] > 0, "nothing was live")
    verified(db, 150)


def pop(tmp):
    db = os.path.join(tmp, "pop")
    ask("import", a_raw, db)
    got = ask("pop", "200", db, "--verify")
    same((got["height"], got["blocks"], got["verified"]["blocks"]), (1000, 200, 1000), "pop")
    _, err = run("pop", "1001", db, code=1)
    check("the chain has 1000" in err, f"pop too many: {err}")
    run("pop", "-1", db, code=2)
    run("pop", "some", db, code=2)
    _, err = run("pop", "1", os.path.join(tmp, "nowhere"), code=1)
    check("nowhere" in err and not os.path.exists(os.path.join(tmp, "nowhere")), f"pop: {err}")
    same(ask("import", a_raw, db)["blocks"], 200, "blocks after pop")
    verified(db, 1200)


def prune(tmp):
    """All of it is among the last blocks, which stay; tests/chain/prune.c has what goes."""
    db = os.path.join(tmp, "pop")
    got = ask("prune", db, "--stripe=3", "--verify")
    same((got["stripe"], got["pruned"], got["whole"]), (3, 0, 1600), "prune")
    same(ask("prune", db)["stripe"], 3, "the stripe that was chosen")
    same(ask("info", db)["rows"]["txs_prunable_tip"], 1600, "listed as whole")
    _, err = run("prune", db, "--stripe=4", code=1)
    check("stripe 3" in err, f"another stripe: {err}")
    run("prune", db, "--stripe=9", code=2)


def export(tmp):
    """The bytes that Monero's own tool wrote, from a store of ours and from monerod's."""
    part = os.path.join(tmp, "part.raw")
    for name in ("a", "c"):
        db, out = os.path.join(tmp, "export-" + name), os.path.join(tmp, name + ".raw")
        ask("import", os.path.join(data, name + ".raw"), db, "--durability=nosync")
        ask("export", db, out)
        with open(os.path.join(data, name + ".raw"), "rb") as f, open(out, "rb") as g:
            check(f.read() == g.read(), f"{name}.raw exported is not {name}.raw")
    theirs = os.path.join(tmp, "monerod.mdb")
    shutil.copyfile(os.path.join(data, "c.monerod.mdb"), theirs)
    p = subprocess.run([chain, "export", theirs, "-"], capture_output=True)
    with open(c_raw, "rb") as f:
        whole = f.read()
    check(p.stdout == whole, "monerod's store exported is not c.raw")
    # A part: its own header, and its chunks are those of the whole file.
    same(ask("export", db, part, "--from=100", "--count=30")["blocks"], 30, "part of a chain")
    with open(part, "rb") as f:
        piece = f.read()
    same(piece[12:20].hex(), "0400000064810100", "header of a part")
    check(piece[1028:] in whole, "chunks of a part")
    half = os.path.join(tmp, "half")
    ask("import", c_raw, half)
    ask("pop", "40", half)
    same(ask("import", part, half)["height"], 130, "import of a part")
    _, err = run("export", db, part, "--from=150", code=1)
    check("the chain has 150" in err, f"export beyond the end: {err}")
    _, err = run("export", db, os.path.join(tmp, "no", "such"), code=1)
    check("cannot create" in err, f"export to nowhere: {err}")
    check(not [n for n in os.listdir(tmp) if n.endswith(".part")], "a partial file was left")
    if os.path.exists("/dev/full"):
        p = subprocess.run([chain, "export", db, "-"], stdout=open("/dev/full", "w"),
                           stderr=subprocess.PIPE, text=True)
        check(p.returncode == 1 and "cannot write" in p.stderr, f"/dev/full: {p.stderr}")


def synth(tmp):
    """A synthetic chain through a pipe; killed half-way, it goes on."""
    db, path = os.path.join(tmp, "synth"), os.path.join(tmp, "synth.raw")
    made = ask("synth", path, "--outputs=4000", "--txs=8", "--seed=1")
    ask("import", path, db)
    ask("pop", "50", db)
    p = subprocess.Popen([chain, "synth", "-", "--outputs=4000", "--txs=8", "--seed=1"],
                         stdout=subprocess.PIPE)
    got = ask("import", "-", db, "--verify", "--live=3", stdin=p.stdout)
    p.stdout.close()
    same(p.wait(), 0, "synth into a pipe")
    same((got["blocks"], got["live"]["commits"]), (50, 3), "import of a synthetic pipe")
    same(got["verified"]["outputs"], made["outputs"], "outputs of a synthetic chain")
    run("synth", path, code=2)
    run("synth", path, "--blocks=1", "--outputs=1", code=2)
    _, err = run("synth", os.path.join(tmp, "no", "such"), "--blocks=5", code=1)
    check("cannot create" in err, f"synth to nowhere: {err}")


def outputs(tmp):
    db = os.path.join(tmp, "export-c")
    with open(os.path.join(data, "c.json")) as f:
        facts = json.load(f)
    same([(a["amount"], a["outputs"]) for a in ask("outputs", db)["amounts"]],
         [(a["amount"], a["total_instances"]) for a in facts["output_histogram_by_amount"]], "amounts")
    seen = []
    while len(seen) < 257:
        got = ask("outputs", db, "--amount=0", f"--from={len(seen)}", "--count=50")["outputs"]
        seen += got
    same([o["index"] for o in seen], list(range(257)), "indices")
    for tx in facts["transactions"]:
        mine = [o for o in seen if o["tx_hash"] == tx["hash"]]
        same([o["index"] for o in mine], tx["output_indices"], f"outputs of {tx['hash']}")
        same({o["height"] for o in mine}, {tx["height"]}, f"height of outputs of {tx['hash']}")
    genesis = ask("outputs", db, "--amount=17592186044415")["outputs"]
    same((len(genesis), genesis[0]["height"], "commitment" in genesis[0]), (1, 0, False), "genesis")
    _, err = run("outputs", db, "--amount=5", code=1)
    check("no output 0 of amount 5" in err, f"no such amount: {err}")
    _, err = run("outputs", db, "--amount=0", "--from=257", code=1)
    check("no output 257" in err, f"no such index: {err}")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        modes = ["strict", "nosync"]
        if not on_plain_lmdb(tmp):
            modes += ["group", "relaxed"]
        durabilities(tmp, modes)
        live_beyond_the_file(tmp)
        pipes(tmp)
        follow(tmp)
        pop(tmp)
        prune(tmp)
        export(tmp)
        outputs(tmp)
        synth(tmp)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


sys.exit(main())
