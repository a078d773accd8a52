#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The same import of a chain in every durability, and killed in every one.

usage: bench/chain.py [--dir=DIR] [--large] [--file=FILE | --outputs=N [--stream]] [--batch=N] [--live=N]
                      [--rounds=N] [--modes=LIST] [--memory=MIB] [--no-kill] [--verify]
                      [--at-once] [--json] [--report=FILE] BUILD

BUILD is a build folder: its examples/chain/chain (on the store) and chain-lmdb (on liblmdb). FILE is a
bootstrap file; --outputs makes a synthetic one of so many outputs, --stream without a file, through a
pipe. --memory puts the import into a memory cgroup of its own (needs root). Modes are ENGINE:DURABILITY, ENGINE
being store or lmdb. Rounds are interleaved; of times the median is printed, of what could be lost the
worst. Then each mode is killed (SIGKILL) half-way, verified, gone on with, and verified again. --verify also
verifies what the last round's imports left. --at-once runs all modes at the same time instead of one after another,
each in its own cgroup, and compares how far each is when the first one ends: for a machine that is never
quiet, where what disturbs one disturbs the others. --json prints JSON instead, --report puts it into a file
as well.

--large is short for --outputs=10900000 --batch=1000 --rounds=2 --memory=2048 --modes=store:relaxed,lmdb:nosync
--no-kill --verify: a file of 10 GB, more than memory holds. It needs 30 GB of disk, and half an hour; options
after it say otherwise, and so does --file: one that was made before.

written is what the program handed to the kernel (wchar of /proc/self/io). Barriers, and what was synced, that is,
had to reach the disk before a commit or a checkpoint was done, are the store's own counts; liblmdb has none."""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MODES = "lmdb:strict,store:strict,store:group,store:relaxed,lmdb:nosync"
LARGE = ["--outputs=10900000", "--batch=1000", "--rounds=2", "--memory=2048", "--modes=store:relaxed,lmdb:nosync",
         "--no-kill", "--verify"]


def fail(text):
    sys.exit(f"chain.py: {text}")


def arguments():
    """Those given, with what --large stands for in its place."""
    out = []
    for arg in sys.argv[1:]:
        out += LARGE if arg == "--large" else [arg]
    return out


def parse():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("build")
    p.add_argument("--dir", default=".")
    p.add_argument("--file")
    p.add_argument("--outputs", type=int)
    p.add_argument("--batch", type=int, default=100)
    p.add_argument("--live", type=int, default=0)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--modes", default=MODES)
    p.add_argument("--stream", action="store_true")
    p.add_argument("--memory", type=int)
    p.add_argument("--no-kill", action="store_true")
    p.add_argument("--verify", action="store_true")
    p.add_argument("--at-once", action="store_true")
    p.add_argument("--json", action="store_true")
    p.add_argument("--report")
    a = p.parse_args(arguments())
    a.programs = {"store": os.path.join(a.build, "examples/chain/chain"),
                  "lmdb": os.path.join(a.build, "examples/chain/chain-lmdb")}
    a.modes = [m for m in a.modes.split(",") if m.split(":")[0] in a.programs]
    a.modes = [m for m in a.modes if os.path.exists(a.programs[m.split(":")[0]])]
    if a.stream and not a.outputs:
        fail("--stream is for --outputs")
    if not a.modes:
        fail(f"no program for any mode under {a.build}")
    return a


def command(a, mode, db):
    engine, durability = mode.split(":")
    c = [a.programs[engine], "import", a.file, db, f"--durability={durability}", f"--batch={a.batch}",
         "--no-progress", "--json"]
    return c + [f"--live={a.live}"] if a.live else c


def run(*args):
    p = subprocess.run(args, capture_output=True, text=True)
    if p.returncode != 0:
        fail(f"{' '.join(args)}: {p.stderr.strip()}")
    return json.loads(p.stdout)


class Cgroup:
    """A memory cgroup for one import; version 1 and 2. Version 1 has no limit on dirty pages of its own:
    a program that leaves them to the kernel waits for them when memory is short."""

    def __init__(self, mib, mode):
        self.v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        self.path = f"/sys/fs/cgroup/{'' if self.v2 else 'memory/'}pagewise-chain-{os.getpid()}-{mode.replace(':', '-')}"
        try:
            os.mkdir(self.path)
            self.write("memory.max" if self.v2 else "memory.limit_in_bytes", mib << 20)
        except OSError as e:
            fail(f"no memory cgroup: {e}")

    def counts(self):
        """What the limit did: memory at its most, and pages that had to be read again."""
        with open(os.path.join(self.path, "memory.stat")) as f:
            stat = dict(line.split() for line in f)
        peak = os.path.join(self.path, "memory.peak" if self.v2 else "memory.max_usage_in_bytes")
        most = int(open(peak).read()) if os.path.exists(peak) else None
        return {"version": 2 if self.v2 else 1, "peak_bytes": most, "major_faults": int(stat["pgmajfault"])}

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def remove(self):
        for _ in range(100):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.1)


def start_import(a, mode, db, group):
    """The import, and what makes its input, if that is a pipe: which is not in the cgroup."""
    source = None
    if a.stream:
        source = subprocess.Popen([a.programs["store"], "synth", "-", f"--outputs={a.outputs}"],
                                  stdout=subprocess.PIPE)
    p = subprocess.Popen(command(a, mode, db), stdin=source.stdout if source else subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         preexec_fn=group.enter if group else None)
    if source:
        source.stdout.close()
    return p, source


def settle(a):
    """What others left dirty is not to be waited for; and the file is to be read from the disk, by this import."""
    os.sync()
    if not a.stream:
        with open(a.file, "rb") as f:
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Import:
    """One import, in a cgroup of its own if memory is to be short."""

    def __init__(self, a, mode, tmp):
        self.a, self.mode, self.db = a, mode, os.path.join(tmp, mode.replace(":", "-"))
        self.group = Cgroup(a.memory, mode) if a.memory else None
        self.process, self.source = start_import(a, mode, self.db, self.group)

    def read_bytes(self):
        with open(f"/proc/{self.process.pid}/io") as f:
            return int(f.readline().split()[1])  # rchar

    def report(self):
        out, err = self.process.communicate()
        if self.process.returncode != 0 or (self.source and self.source.wait() != 0):
            fail(f"{self.mode}: left with {self.process.returncode}: {err.strip()}")
        got = json.loads(out)
        got["file_bytes"] = os.stat(os.path.join(self.db, "data.mdb")).st_blocks * 512
        if self.group:
            got["cgroup"] = self.group.counts()
        return got

    def verified(self):
        return run(self.a.programs[self.mode.split(":")[0]], "verify", self.db, "--json")

    def remove(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.db, ignore_errors=True)
        if self.group:
            self.group.remove()


def one_import(a, mode, tmp, verify):
    settle(a)
    i = Import(a, mode, tmp)
    try:
        got = i.report()
        return {**got, **i.verified()} if verify else got
    finally:
        i.remove()


def at_once(a, tmp):
    """All modes side by side. When the first has ended, how much each has read by then is its rate."""
    settle(a)
    imports = [Import(a, mode, tmp) for mode in a.modes]
    try:
        read = {}
        while all(i.process.poll() is None for i in imports):
            try:
                read = {i.mode: i.read_bytes() for i in imports}
            except (OSError, IndexError):
                break  # one has just ended
            time.sleep(0.2)
        print("chain.py: read when the first had ended: "
              + ", ".join(f"{m} {n / 1e6:.0f} MB" for m, n in read.items()), file=sys.stderr)
        got = {i.mode: {**i.report(), "read_by_then": read[i.mode]} for i in imports}
        return {i.mode: [{**got[i.mode], **(i.verified() if a.verify else {})}] for i in imports}
    finally:
        for i in imports:
            i.remove()


def measure(a, tmp):
    results = {m: [] for m in a.modes}
    for n in range(a.rounds):
        for mode in a.modes:
            got = one_import(a, mode, tmp, a.verify and n == a.rounds - 1)
            results[mode].append(got)
            print(f"chain.py: round {n + 1}, {mode}: {got['seconds']:.1f} s", file=sys.stderr)
    return results


def median(runs, *path):
    def get(r):
        for name in path:
            r = r.get(name, {})
        return r
    values = [get(r) for r in runs]
    return statistics.median(values) if all(isinstance(v, (int, float)) for v in values) else None


def row_of(mode, runs):
    engine, durability = mode.split(":")
    commits = median(runs, "commits")
    spent = [sum(r[k]["commits"] * r[k]["ms_mean"] for k in ("bulk", "live")) for r in runs]
    return {
        "engine": "liblmdb" if engine == "lmdb" else engine,
        "durability": durability,
        "seconds": median(runs, "seconds"),
        "mb_per_s": median(runs, "mb_per_s"),
        "commits": commits,
        "commit_ms": statistics.median(spent) / commits if commits else 0,
        "live_ms": median(runs, "live", "ms_mean"),
        "barriers": median(runs, "synced", "barriers"),
        "written_mb": median(runs, "written_bytes") / 1e6,
        "synced_mb": (median(runs, "synced", "dirty_bytes") or 0) / 1e6,
        "risk_blocks": max(r["at_risk"]["blocks_max"] for r in runs),
        "risk_ms": max(r["at_risk"]["ms_max"] for r in runs),
        "outputs": runs[-1]["outputs"],
        "read_mb": runs[-1]["bytes"] / 1e6,
        "file_mb": max(r["file_bytes"] for r in runs) / 1e6,
        "all_seconds": [r["seconds"] for r in runs],
        "cgroup": runs[-1].get("cgroup"),
        "read_by_then": runs[-1].get("read_by_then"),
        "verified": runs[-1].get("verified"),
    }


def killed(a, mode, tmp, seconds):
    """Kill an import in its middle; what is there verifies, and the rest follows."""
    db = os.path.join(tmp, "killed")
    chain = a.programs[mode.split(":")[0]]
    for attempt in range(1, 20):
        p = subprocess.Popen(command(a, mode, db), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds / 2 / attempt)
        p.send_signal(signal.SIGKILL)
        if p.wait() == -signal.SIGKILL and os.path.exists(os.path.join(db, "data.mdb")):
            first = subprocess.run([chain, "verify", db, "--json"], capture_output=True, text=True)
            if first.returncode == 0:
                at = json.loads(first.stdout)["verified"]["blocks"]
                break
            if "no chain is stored" not in first.stderr and "no table" not in first.stderr:
                fail(f"{mode}: after a kill: {first.stderr.strip()}")
        shutil.rmtree(db, ignore_errors=True)
    else:
        fail(f"{mode}: no kill came in the middle of an import")
    rest = run(*command(a, mode, db))
    blocks = run(chain, "verify", db, "--json")["verified"]["blocks"]
    if rest["from_height"] != at or blocks != rest["height"]:
        fail(f"{mode}: killed at {at}, gone on at {rest['from_height']}, {blocks} blocks verified")
    shutil.rmtree(db)
    return {"mode": mode, "verified_after_kill": at, "went_on_to": blocks}


def print_rows(rows):
    print(f"{'engine':8} {'durability':10} {'s':>7} {'MB/s':>7} {'commits':>7} {'ms each':>8} {'live ms':>8} "
          f"{'barriers':>8} {'MB written':>10} {'synced':>8}  at risk: blocks, ms")
    for r in rows:
        counted = r["barriers"] is not None
        barriers = f"{r['barriers']:.0f}" if counted else "-"
        synced = f"{r['synced_mb']:.1f}" if counted else "-"
        print(f"{r['engine']:8} {r['durability']:10} {r['seconds']:7.2f} {r['mb_per_s']:7.2f} "
              f"{r['commits']:7.0f} {r['commit_ms']:8.2f} {r['live_ms']:8.2f} {barriers:>8} "
              f"{r['written_mb']:10.1f} {synced:>8}  {r['risk_blocks']:7}, {r['risk_ms']:.0f}")


def ratio(rows):
    """relaxed promises what nosync does not, at nearly its speed."""
    rate = {(r["engine"], r["durability"]): r["read_by_then"] or r["mb_per_s"] for r in rows}
    relaxed, nosync = rate.get(("store", "relaxed")), rate.get(("liblmdb", "nosync"))
    return relaxed / nosync if relaxed and nosync else None


def print_notes(rows, quotient):
    last = rows[-1]
    print(f"{last['outputs']} outputs, {last['read_mb']:.0f} MB; the store is {max(r['file_mb'] for r in rows):.0f} MB")
    for r in rows:
        name = f"{r['engine']} {r['durability']}"
        if len(r["all_seconds"]) > 1:
            print(f"{name}: " + ", ".join(f"{s:.1f}" for s in r["all_seconds"]) + " s")
        if r["cgroup"] and r["cgroup"]["peak_bytes"]:
            print(f"{name}: {r['cgroup']['peak_bytes'] / 2**20:.0f} MiB at most in the cgroup (version "
                  f"{r['cgroup']['version']}), {r['cgroup']['major_faults']} major faults")
        if r["verified"]:
            print(f"{name}: {r['verified']['blocks']} blocks and {r['verified']['outputs']} outputs verify")
    if quotient:
        print(f"relaxed / nosync of liblmdb: {quotient:.2f}")


def main():
    a = parse()
    tmp = tempfile.mkdtemp(prefix="pagewise-chain.", dir=a.dir)
    try:
        if a.stream:
            a.file = "-"
            a.no_kill = True
        elif a.outputs and not a.file:
            a.file = os.path.join(tmp, "synth.raw")
            run(a.programs["store"] if os.path.exists(a.programs["store"]) else a.programs["lmdb"],
                "synth", a.file, f"--outputs={a.outputs}", "--json")
        if not a.file:
            fail("needs --file or --outputs")
        results = at_once(a, tmp) if a.at_once else measure(a, tmp)
        rows = [row_of(m, results[m]) for m in a.modes]
        kills = [] if a.no_kill else [
            killed(a, m, tmp, row["seconds"]) for m, row in zip(a.modes, rows)]
    finally:
        shutil.rmtree(tmp)
    quotient = ratio(rows)
    report = json.dumps({"rows": rows, "kills": kills, "relaxed_by_nosync": quotient})
    if a.report:
        with open(a.report, "w", encoding="utf-8") as f:
            f.write(report + "\n")
    if a.json:
        print(report)
        return
    print_rows(rows)
    print_notes(rows, quotient)
    for k in kills:
        print(f"{k['mode']:14} killed (SIGKILL): {k['verified_after_kill']} blocks are there and verify; "
              f"went on to {k['went_on_to']}, which verify")


main()
