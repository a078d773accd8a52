#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compare mallocs at growing blocks by realloc: grow.c, and stress-ng's bigheap where it is there.

Runs of the peers are interleaved; medians are printed, and wall time relative to glibc's.

usage: grow.py [options] GROW LIBPAGEWISE-ALLOC.SO
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

LIBS = "/usr/lib/*-linux-gnu/"
PEERS = {
    "glibc": None,
    "jemalloc": LIBS + "libjemalloc.so.2",
    "mimalloc": LIBS + "libmimalloc.so.2*",
    "tcmalloc": LIBS + "libtcmalloc_minimal.so.4",
}


def run(command, library):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PAGEWISE_", "MALLOC_"))}
    if library:
        env["LD_PRELOAD"] = library
    begin = time.monotonic()
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - begin
    if status:
        sys.exit(f"{' '.join(command)} with {library}: wait status {status}")
    return {
        "wall_s": wall,
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "faults": usage.ru_minflt,
        "rss_peak_mib": usage.ru_maxrss / 1024,
        "moves": int(out) if out.strip().isdigit() else None,
    }


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("grow")
    p.add_argument("library")
    p.add_argument("--mib", type=int, default=1024, help="size of the one block")
    p.add_argument("--bigheap-ops", type=int, default=8192, help="0: leave stress-ng out")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--peers", default=",".join(PEERS))
    p.add_argument("--json", metavar="FILE", help="write all runs there")
    args = p.parse_args()

    sides = [("pagewise", os.path.abspath(args.library))]
    for name in filter(None, args.peers.split(",")):
        found = sorted(glob.glob(PEERS[name])) if PEERS[name] else [None]
        if found:
            sides.append((name, found[-1]))
        else:
            print(f"{name} is not installed: left out", file=sys.stderr)
    work = {
        "one block": [args.grow, str(args.mib)],
        "eight blocks": [args.grow, "-n8", str(max(args.mib // 8, 1))],
    }
    if args.bigheap_ops and shutil.which("stress-ng"):
        work["bigheap"] = ["stress-ng", "--bigheap", "1", "--bigheap-ops", str(args.bigheap_ops)]

    runs = []
    for what, command in work.items():
        for r in range(args.rounds):
            for name, lib in sides if r % 2 == 0 else sides[::-1]:
                runs.append({"work": what, "malloc": name, **run(command, lib)})
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"mib": args.mib, "rounds": args.rounds, "runs": runs}, f, indent=1)

    columns = ["wall_s", "user_s", "system_s", "faults", "rss_peak_mib", "moves"]
    print(f"{'work':<14}{'malloc':<10}" + "".join(f"{c:>14}" for c in columns) + f"{'wall/glibc':>14}")
    for what in work:
        def median(name, column):
            values = [r[column] for r in runs if r["work"] == what and r["malloc"] == name]
            return statistics.median(values) if None not in values else None

        for name, _ in sides:
            row = [median(name, c) for c in columns]
            glibc = median("glibc", "wall_s") if "glibc" in dict(sides) else None
            row.append(row[0] / glibc if glibc else None)
            print(f"{what:<14}{name:<10}" + "".join(
                f"{'-':>14}" if v is None else f"{v:>14.0f}" if v >= 1000 else f"{v:>14.3f}" for v in row))


if __name__ == "__main__":
    main()
