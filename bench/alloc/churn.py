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
import json
import statistics

import mallocs


def run(args, side, decay):
    command = [args.churn, "-q", "-t", str(args.threads), "-n", str(args.operations), "-b", str(args.blocks)]
    r = mallocs.run(side, command, f"dirty_decay_ms:{decay}", sample=True)
    r["ops_per_s"] = float(r.pop("output"))
    return r


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("churn")
    p.add_argument("library")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--operations", type=int, default=60000, help="for each thread")
    p.add_argument("--blocks", type=int, default=1000, help="live, for each thread")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--decay", default="0,100,1000", help="dirty_decay_ms, several with commas")
    p.add_argument("--peers", default="jemalloc,mimalloc,tcmalloc,glibc")
    p.add_argument("--settings", action="append", default=[],
                   help="a value of PAGEWISE_ALLOC to compare as well; may be given several times")
    p.add_argument("--json", metavar="FILE", help="write all runs there")
    args = p.parse_args()

    sides = mallocs.sides(args.library, args.settings, peers=list(filter(None, args.peers.split(","))))

    runs = []
    for decay in args.decay.split(","):
        # Only jemalloc and we know the setting: the others run once for all.
        now = [m for m in sides if m.name.startswith(("pagewise", "jemalloc")) or decay == args.decay.split(",")[0]]
        for r in range(args.rounds):
            for m in now if r % 2 == 0 else now[::-1]:
                runs.append({"malloc": m.name, "decay_ms": int(decay), **run(args, m, decay)})
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"threads": args.threads, "operations": args.operations, "blocks": args.blocks,
                       "rounds": args.rounds, "runs": runs}, f, indent=1)

    columns = ["ops_per_s", "system_s", "user_s", "faults", "rss_mean_mib", "rss_peak_mib"]
    print(f"{'decay':>6} {'malloc':<32}" + "".join(f"{c:>14}" for c in columns))
    for decay in sorted({r["decay_ms"] for r in runs}):
        for name in dict.fromkeys(m.name for m in sides):
            mine = [r for r in runs if r["malloc"] == name and r["decay_ms"] == decay]
            if mine:
                row = [statistics.median(r[c] for r in mine) for c in columns]
                print(f"{decay:>6} {name:<32}" + "".join(
                    f"{v:>14.0f}" if v >= 1000 else f"{v:>14.3f}" for v in row))


if __name__ == "__main__":
    main()
