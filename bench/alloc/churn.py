#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare mallocs under a churn of 4 to 96 KiB blocks by two threads.

Runs of the peers are interleaved, so that a noisy neighbour meets all of them; medians are printed.
System time and faults come from the kernel's accounting of the process (wait4). Resident memory is
sampled from /proc every 5 ms and averaged over the middle half of the run: at its ends the program
only fills or empties its table of blocks.

usage: churn.py [options] CHURN LIBPAGEWISE-ALLOC.SO
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
LIBS = "/usr/lib/*-linux-gnu/"
PEERS = {
    "jemalloc": LIBS + "libjemalloc.so.2",
    "mimalloc": LIBS + "libmimalloc.so.2*",
    "tcmalloc": LIBS + "libtcmalloc_minimal.so.4",
}


def sample(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * PAGE


def run(args, library, decay, extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PAGEWISE_", "MALLOC_"))}
    env["MALLOC_CONF"] = f"dirty_decay_ms:{decay}"
    env.update(extra)
    if library:
        env["LD_PRELOAD"] = library
    command = [args.churn, "-q", "-t", str(args.threads), "-n", str(args.operations), "-b", str(args.blocks)]
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    rss = []
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        rss.append(sample(child.pid))
        time.sleep(0.005)
    if status:
        sys.exit(f"{' '.join(command)} with {library}: wait status {status}")
    rss = rss[len(rss) // 4:len(rss) - len(rss) // 4]
    return {
        "ops_per_s": float(child.stdout.read()),
        "system_s": usage.ru_stime,
        "user_s": usage.ru_utime,
        "faults": usage.ru_minflt,
        "rss_mean_mib": statistics.fmean(rss) / 2**20 if rss else 0,
        "rss_peak_mib": usage.ru_maxrss / 1024,
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("churn")
    p.add_argument("library")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--operations", type=int, default=60000, help="for each thread")
    p.add_argument("--blocks", type=int, default=1000, help="live, for each thread")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--decay", default="0,100,1000", help="dirty_decay_ms, several with commas")
    p.add_argument("--peers", default=",".join(PEERS) + ",glibc")
    p.add_argument("--settings", action="append", default=[],
                   help="a value of PAGEWISE_ALLOC to compare as well; may be given several times")
    p.add_argument("--json", metavar="FILE", help="write all runs there")
    args = p.parse_args()

    library = os.path.abspath(args.library)
    sides = [("pagewise", library, {})]
    sides += [(f"pagewise {s}", library, {"PAGEWISE_ALLOC": s}) for s in args.settings]
    for name in filter(None, args.peers.split(",")):
        found = sorted(glob.glob(PEERS[name])) if name in PEERS else [None]
        if found:
            sides.append((name, found[-1], {}))
        else:
            print(f"{name} is not installed: left out", file=sys.stderr)

    runs = []
    for decay in args.decay.split(","):
        # Only jemalloc and we know the setting: the others run once for all.
        now = [s for s in sides if s[0].startswith(("pagewise", "jemalloc")) or decay == args.decay.split(",")[0]]
        for r in range(args.rounds):
            for name, lib, extra in now if r % 2 == 0 else now[::-1]:
                runs.append({"malloc": name, "decay_ms": int(decay), **run(args, lib, decay, extra)})
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"threads": args.threads, "operations": args.operations, "blocks": args.blocks,
                       "rounds": args.rounds, "runs": runs}, f, indent=1)

    columns = ["ops_per_s", "system_s", "user_s", "faults", "rss_mean_mib", "rss_peak_mib"]
    print(f"{'decay':>6} {'malloc':<32}" + "".join(f"{c:>14}" for c in columns))
    for decay in sorted({r["decay_ms"] for r in runs}):
        for name in dict.fromkeys(s[0] for s in sides):
            mine = [r for r in runs if r["malloc"] == name and r["decay_ms"] == decay]
            if mine:
                row = [statistics.median(r[c] for r in mine) for c in columns]
                print(f"{decay:>6} {name:<32}" + "".join(
                    f"{v:>14.0f}" if v >= 1000 else f"{v:>14.3f}" for v in row))


if __name__ == "__main__":
    main()
