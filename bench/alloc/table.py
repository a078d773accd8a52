#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""One table of what bench/alloc/run has written with --json: a line for each target. usage: table.py JSON..."""
import json
import statistics
import sys

MALLOCS = ["pagewise", "jemalloc", "jemalloc 5.3.1", "glibc", "mimalloc", "tcmalloc"]


def number(v):
    return f"{v:.0f}" if abs(v) >= 1000 else f"{v:.1f}" if abs(v) >= 100 else f"{v:.3g}"


def median(runs, malloc, metric):
    values = [r[metric] for r in runs.get(malloc, []) if metric in r]
    return number(statistics.median(values)) if values else "-"


def main():
    print("| scenario | metric | " + " | ".join(MALLOCS) + " | target | measured (quartiles) | |")
    print("|" + " --- |" * (len(MALLOCS) + 5))
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as f:
            result = json.load(f)
        for scenario, s in result["scenarios"].items():
            for v in s["verdicts"]:
                low, high = map(number, v["quartiles"])
                spread = f" ({low} to {high})" if low != high else ""
                cells = [median(s["runs"], m, v["metric"]) for m in MALLOCS]
                print(f"| {scenario} | {v['metric']} | " + " | ".join(cells) +
                      f" | {v['target']} | {number(v['measured'])}{spread} | **{v['verdict']}** |")


if __name__ == "__main__":
    main()
