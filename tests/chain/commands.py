#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
#
# commands.py CHAIN DATA: the command as a user runs it, on a database that monerod wrote and on one
# that it wrote itself; both must say what monerod said of the chain (c.json, c.hashes.json).
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

chain, data = sys.argv[1:]
failures = []
skipped = []


def run(*args, code=0):
    p = subprocess.run([chain, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    check(p.returncode == code, f"{args}: left with {p.returncode} for {code}: {p.stderr}")
    return p.stdout, p.stderr


def ask(*args):
    return json.loads(run(*args, "--json")[0])


def check(good, what):
    if not good:
        failures.append(what)


def same(got, want, what):
    check(got == want, f"{what}: {got!r} where {want!r} is due")


def agrees(db, facts, hashes):
    info = ask("info", db)
    same(info["height"], facts["height"], "height")
    same(info["top_hash"], facts["top_block_hash"], "top hash")
    same(info["cumulative_difficulty"], facts["cumulative_difficulty"], "difficulty")
    for table, rows in info["rows"].items():
        # monerod keeps a statistic of its own there.
        if table == "properties":
            check(rows in (1, 2), f"rows of properties: {rows}")
            continue
        same(rows, facts["mdb_stat"]["entries"][table], f"rows of {table}")
    for block in facts["blocks"]:
        for which in (str(block["height"]), block["hash"]):
            got = ask("block", which, db)
            for name in ("height", "hash", "prev_hash", "timestamp", "nonce", "num_txes", "reward",
                         "miner_tx_hash", "block_weight", "long_term_weight",
                         "cumulative_difficulty"):
                same(got[name], block[name], f"block {which}: {name}")
    for tx in facts["transactions"]:
        got = ask("tx", tx["hash"], db)
        for name in ("hash", "height", "version", "inputs", "ring_size", "outputs", "rct_type",
                     "unlock_time", "fee", "blob_size", "output_indices"):
            same(got[name], tx[name], f"transaction {tx['hash']}: {name}")
        same(got["key_images"][0], tx["first_key_image"], "key image")
    heights = dict(map(tuple, hashes["txs"]))
    listed = {}
    for height, block_hash in enumerate(hashes["block_hashes"]):
        got = ask("block", str(height), db)
        same(got["hash"], block_hash, f"hash of block {height}")
        listed.update((h, height) for h in got["tx_hashes"])
    same(listed, heights, "all transactions")
    verified = ask("verify", db)["verified"]
    same(verified["blocks"], facts["height"], "verified blocks")
    same(verified["transactions"], facts["tx_count_including_coinbase"], "verified transactions")
    same(verified["key_images"], facts["key_images_total"], "verified key images")


def refusals(tmp, db):
    _, err = run("info", os.path.join(tmp, "nowhere"), code=1)
    check("nowhere" in err, f"no directory: {err}")
    _, err = run("block", "150", db, code=1)
    check("no block 150: the chain has 150 blocks" in err, f"beyond the top: {err}")
    out, err = run("tx", "0" * 64, db, "--json", code=1)
    check("no transaction has the hash" in err and out == "", f"unknown transaction: {out}{err}")
    _, err = run("block", "1x", db, code=1)
    check("neither a height nor a hash" in err, f"1x: {err}")
    _, err = run("import", os.path.join(data, "a.raw"), db, code=1)
    check("another chain" in err, f"another chain: {err}")
    _, err = run("import", os.path.join(data, "c.json"), db, code=1)
    check("offset 0 (0x0): magic number" in err and "c.json" in err, f"no chain file: {err}")
    for wrong in ((), ("info",), ("info", db, "more"), ("dance", db), ("import", "x", "y", "--batch=0"),
                  ("import", "x", "y", "--batch=many"), ("info", db, "--fast")):
        run(*wrong, code=2)
    check("usage" in run("--help")[0], "--help")


def truncated(tmp):
    """A damaged file: an error with its offset, and what was good stays."""
    with open(os.path.join(data, "c.raw"), "rb") as f:
        raw = f.read()
    path, db = os.path.join(tmp, "cut.raw"), os.path.join(tmp, "cut")
    with open(path, "wb") as f:
        f.write(raw[:60000])
    out, err = run("import", path, db, "--json", code=1)
    height = json.loads(out)["height"]
    check("cut short" in err and f"the store holds the blocks below {height}" in err, err)
    same(ask("info", db)["height"], height, "height after damage")
    got = ask("import", os.path.join(data, "c.raw"), db, "--verify")
    same((got["from_height"], got["height"]), (height, 150), "resumed")
    same(got["verified"]["blocks"], 150, "verified after resuming")


def cut_store(tmp, db):
    """The store's file was cut short: an error that says so, not a signal."""
    cut = os.path.join(tmp, "cut-store")
    for size in (8192, 20000, 500000):
        shutil.copytree(db, cut)
        os.truncate(os.path.join(cut, "data.mdb"), size)
        for command in (["info", cut], ["verify", cut], ["pop", "1", cut],
                        ["import", os.path.join(data, "c.raw"), cut]):
            p = subprocess.run([chain, *command], capture_output=True, text=True)
            check(p.returncode in (0, 1), f"{size} bytes: {command[0]} left with {p.returncode}")
            check(p.returncode == 0 or p.stderr.startswith("chain: "), f"{size} bytes: {command[0]}: {p.stderr}")
        # Which page is missed first, and so the text, depends on the size; that all is there nobody says.
        run("verify", cut, code=1)
        shutil.rmtree(cut)


def outputs_that_are_no_files(tmp, db):
    """A pipe is written to, and stays one; so does a link."""
    plain, pipe, link = (os.path.join(tmp, n) for n in ("plain.raw", "pipe", "link"))
    ask("export", db, plain)
    with open(plain, "rb") as f:
        raw = f.read()
    os.mkfifo(pipe)
    p = subprocess.Popen([chain, "export", db, pipe], stdout=subprocess.DEVNULL)
    with open(pipe, "rb") as f:
        same(f.read() == raw, True, "what came through the pipe")
    same(p.wait(), 0, "export to a pipe")
    check(stat.S_ISFIFO(os.stat(pipe).st_mode), "the pipe is no pipe any more")
    os.symlink("elsewhere.raw", link)
    with open(os.path.join(tmp, "elsewhere.raw"), "wb"):
        pass
    ask("export", db, link)
    check(os.path.islink(link), "the link is no link any more")
    with open(link, "rb") as f:
        same(f.read() == raw, True, "what the link leads to")
    os.mkdir(os.path.join(tmp, "folder"))
    _, err = run("export", db, os.path.join(tmp, "folder"), code=1)
    check("folder" in err, f"export to a folder: {err}")
    check(not os.path.exists(os.path.join(tmp, "folder.part")), "something was left behind")


def closed_descriptors(tmp):
    """What is printed does not go into the store where descriptors 0 to 2 were closed."""
    db, raw = os.path.join(tmp, "closed"), os.path.join(data, "c.raw")
    command = [chain, "import", raw, db, "--batch=10", "--json", "--verify"]
    subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], check=False)
    for name in ("data.mdb", "lock.mdb"):
        with open(os.path.join(db, name), "rb") as f:
            check(b'"from_height"' not in f.read(), f"{name} got what was to be printed")
    same(ask("verify", db)["verified"]["blocks"], 150, "blocks of an import without descriptors")


def nobody_reads(tmp):
    """What is printed meets a closed pipe: the store was closed before, and plain LMDB may open it."""
    db = os.path.join(tmp, "unread")
    mode = [] if "lmdb" in os.path.basename(chain) else ["--durability=relaxed"]
    r, w = os.pipe()
    os.close(r)
    p = subprocess.run([chain, "import", os.path.join(data, "c.raw"), db, *mode], stdout=w, stderr=subprocess.PIPE)
    os.close(w)
    check(p.returncode != 0, "printed into a closed pipe, and did not notice")
    with open(os.path.join(db, "data.mdb"), "rb") as f:
        versions = [f.seek(at + 20) and int.from_bytes(f.read(4), sys.byteorder) for at in (0, 4096)]
    same(versions, [1, 1], "LMDB's version in the meta pages of a closed store")


def limit_of_files(tmp):
    """ulimit -f: an error that names it; what was committed stays, and the rest comes later."""
    db, raw = os.path.join(tmp, "limit"), os.path.join(data, "a.raw")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    p = subprocess.run([chain, "import", raw, db, "--batch=20", "--json"], preexec_fn=limit, capture_output=True, text=True)
    same(p.returncode, 1, f"ulimit -f: {p.stderr}")
    check("File too large" in p.stderr, f"ulimit -f: {p.stderr}")
    height = json.loads(p.stdout)["height"]
    same(ask("info", db)["height"], height, "height after ulimit -f")
    got = ask("import", raw, db, "--verify")
    same((got["from_height"], got["verified"]["blocks"]), (height, 1200), "resumed after ulimit -f")


def wait_for_height(db, height):
    for _ in range(1000):
        p = subprocess.run([chain, "info", db, "--json"], capture_output=True, text=True)
        if p.returncode == 0 and json.loads(p.stdout)["height"] == height:
            return
        time.sleep(0.05)
    check(False, f"{db} never had {height} blocks")


def changed_meanwhile(tmp):
    """Blocks are taken off under an import that waits: it stops, and puts nothing in the wrong place."""
    db, raw = os.path.join(tmp, "changed"), os.path.join(tmp, "growing.raw")
    with open(os.path.join(data, "c.raw"), "rb") as f:
        whole = f.read()
    with open(raw, "wb") as f:
        f.write(whole[:40000])
    # How many of the blocks are whole there; none after them names the last one.
    height = json.loads(run("import", raw, os.path.join(tmp, "part"), "--json", code=1)[0])["height"]
    p = subprocess.Popen([chain, "import", raw, db, "--follow"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for_height(db, height)
    run("pop", "3", db)
    with open(raw, "ab") as f:
        f.write(whole[40000:])
    err = p.communicate()[1]
    same(p.returncode, 1, "an import under which blocks were taken off")
    check(f"has {height - 3} blocks where this import was at {height}" in err, err)
    same(ask("verify", db)["verified"]["blocks"], height - 3, "blocks after that")
    same(ask("import", raw, db, "--verify")["verified"]["blocks"], 150, "blocks in the end")


def durable_names(tmp, db):
    """A file that was exported has its name on the disk, and a folder that was made."""
    if not shutil.which("strace"):
        skipped.append("strace is not installed: syncs of folders were not looked at")
        return
    log, raw, new = (os.path.join(tmp, n) for n in ("calls", "named.raw", "newdb"))
    traced = os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # not under strace

    def calls(*args):
        subprocess.run(["strace", "-f", "-y", "-e", "trace=rename,mkdir,fsync", "-o", log, chain, *args],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, env=traced)
        with open(log) as f:
            return [line for line in f if tmp in line]

    synced = f"<{os.path.realpath(tmp)}>)"
    lines = calls("export", db, raw)
    at = next(i for i, line in enumerate(lines) if "rename(" in line)
    check(any("fsync" in line and synced in line for line in lines[at:]), f"the name of an export: {lines}")
    lines = calls("import", raw, new, "--no-progress")
    at = next(i for i, line in enumerate(lines) if "mkdir(" in line)
    check(any("fsync" in line and synced in line for line in lines[at:]), f"the name of a folder: {lines}")


def stopped_export(tmp, db):
    """SIGTERM while a file is written: nothing is left of it."""
    raw, pipe = os.path.join(tmp, "stopped.raw"), os.path.join(tmp, "full")
    os.mkfifo(pipe)
    os.symlink(pipe, raw + ".part")
    p = subprocess.Popen([chain, "export", db, raw], stderr=subprocess.PIPE, text=True)
    # Once it is open for reading too, the handler is there; the pipe holds less than the file, so it cannot end
    # before it is read. (If it is past its last look by then, that a pipe cannot be synced is the error.)
    with open(pipe, "rb") as f:
        p.send_signal(signal.SIGTERM)
        f.read()
    err = p.communicate()[1]
    same(p.returncode, 1, f"a stopped export: {err}")
    check(not os.path.lexists(raw + ".part") and not os.path.exists(raw), "a stopped export left something behind")


def two_exports(tmp, db):
    """Two to one file: the second is told so, and the first is whole."""
    raw, pipe = os.path.join(tmp, "twice.raw"), os.path.join(tmp, "slow")
    os.mkfifo(pipe)
    os.symlink(pipe, raw + ".part")
    first = subprocess.Popen([chain, "export", db, raw], stderr=subprocess.PIPE, text=True)
    with open(pipe, "rb") as f:
        f.read(1)  # it has begun, and cannot end
        _, err = run("export", db, raw, code=1)
        check("another process is writing it" in err, f"a second export: {err}")
        check(os.path.lexists(raw + ".part"), "the second export took the first one's file")
        first.kill()
        f.read()
    first.communicate()
    # What a killed one has left is no obstacle.
    os.unlink(raw + ".part")
    with open(raw + ".part", "wb") as f:
        f.write(b"x" * 10000000)
    run("export", db, raw)
    check(os.path.getsize(raw) < 10000000 and not os.path.exists(raw + ".part"), "after a killed export")


def unreadable_folder(tmp, db):
    """A folder that may be written, and not read: root may read it all the same."""
    folder = os.path.join(tmp, "drop")
    os.mkdir(folder)
    os.chmod(folder, 0o333)
    command = [chain, "export", db, os.path.join(folder, "out.raw")]
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            skipped.append("setpriv is not installed: no folder that may not be read")
            return
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search",
                   "--inh-caps=-dac_override,-dac_read_search", *command]
    p = subprocess.run(command, capture_output=True, text=True)
    same(p.returncode, 0, f"export to a folder that may not be read: {p.stderr}")
    check(os.path.exists(os.path.join(folder, "out.raw")), "nothing was exported there")


def stopped(tmp):
    """SIGTERM: a commit, exit code 3, and the rest later."""
    db, raw = os.path.join(tmp, "stopped"), os.path.join(data, "a.raw")
    p = subprocess.Popen([chain, "import", raw, db, "--batch=1", "--json"], stdout=subprocess.PIPE,
                         text=True)
    while p.poll() is None and not os.path.exists(os.path.join(db, "data.mdb")):
        time.sleep(0.001)
    p.send_signal(signal.SIGTERM)
    out = p.communicate()[0]
    # Very early, before the handler is there, it simply kills; very late, it is too late.
    check(p.returncode in (0, 3, -signal.SIGTERM), f"SIGTERM: left with {p.returncode}")
    height = json.loads(out)["height"] if p.returncode == 3 else 0
    got = ask("import", raw, db, "--verify", "--writemap", "--map-size=1")
    check(got["from_height"] >= height, "a stopped import lost blocks")
    same(got["verified"]["blocks"], 1200, "blocks after SIGTERM")


def main():
    with open(os.path.join(data, "c.json")) as f:
        facts = json.load(f)
    with open(os.path.join(data, "c.hashes.json")) as f:
        hashes = json.load(f)
    with tempfile.TemporaryDirectory() as tmp:
        db = os.path.join(tmp, "db")
        got = ask("import", os.path.join(data, "c.raw"), db, "--batch=40", "--no-progress")
        same((got["blocks"], got["transactions"], got["commits"]), (150, 24, 4), "import")
        same(got["outputs"], facts["mdb_stat"]["entries"]["output_txs"], "outputs")
        agrees(db, facts, hashes)
        theirs = os.path.join(tmp, "monerod.mdb")
        shutil.copyfile(os.path.join(data, "c.monerod.mdb"), theirs)
        agrees(theirs, facts, hashes)
        refusals(tmp, db)
        truncated(tmp)
        cut_store(tmp, db)
        outputs_that_are_no_files(tmp, db)
        closed_descriptors(tmp)
        nobody_reads(tmp)
        limit_of_files(tmp)
        changed_meanwhile(tmp)
        durable_names(tmp, db)
        stopped_export(tmp, db)
        two_exports(tmp, db)
        unreadable_folder(tmp, db)
        stopped(tmp)
    for line in failures + skipped:
        print(line, file=sys.stderr)
    return 1 if failures else 77 if skipped else 0


sys.exit(main())
