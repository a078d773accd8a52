# SPDX-License-Identifier: BSD-2-Clause
"""The results of many runs in one file, and as a page: docs/powercut.md.

A run takes minutes, all kernels and file systems take most of an hour. So each adds its rows to a
file, and the page is printed from that.
"""

import json
import os
import re

HEAD = """# Power cuts

<!-- Printed by tests/powercut/run --markdown. Change that, not this. -->

What was durable according to pgw_sync or a commit, and was there after the power of a guest was cut.
How it is done and judged: `tests/powercut/README.md`. Printed from one file of results by

    tests/powercut/run --kernel 6.1,6.12,6.16,newest --fs ext4,xfs,btrfs --json results --strategies \\
        auto,writeout,span,fdatasync,per-range
    tests/powercut/run --markdown results >docs/powercut.md

*Judged* are databases, or files of pages, in images of the disk after a cut; *violations* are those
in which something acknowledged was missing or wrong. *Restored* counts databases that recovery
brought back from a record. A chain is judged by whether `chain verify` accepts it and `chain import` completes it; that
needs a run of its own (`--chain`, added to the same file of results with `--json`). Controls leave a barrier out, and must lose data: else the frame
would not notice.
"""

# Printed as it is: its rows would take the place of the shorter runs'.
LONG = """
## The long form

`tests/powercut/run --long --fs ext4,xfs,btrfs`: 60 transactions and 15 rounds in place of 20 and 8, every strategy, 20 cuts for
each workload and 60 anywhere, strict disk. On 2026-11-30, seed 7 on 6.12.118, seed 8 on 7.3.4, seed 9 on 6.1.0-57 and 6.16.12. Half
an hour to an hour for a kernel on two busy processors.

| kernel | file system | pgw_sync: violations | the store: violations | restored |
| --- | --- | --- | --- | --- |
| 6.1.0-57 | ext4 | 0 of 3627 | 0 of 1635 | 759 |
| 6.1.0-57 | xfs | 0 of 3624 | 0 of 1554 | 711 |
| 6.1.0-57 | btrfs | 0 of 3483 | 0 of 1665 | 750 |
| 6.12.118+deb13 | ext4 | 0 of 3675 | 0 of 1533 | 681 |
| 6.12.118+deb13 | xfs | 0 of 3675 | 0 of 1671 | 774 |
| 6.12.118+deb13 | btrfs | 0 of 3621 | 0 of 1671 | 741 |
| 6.16.12+deb13 | ext4 | 0 of 3582 | 0 of 1566 | 714 |
| 6.16.12+deb13 | xfs | 0 of 3633 | 0 of 1614 | 756 |
| 6.16.12+deb13 | btrfs | 0 of 3497 | 0 of 1536 | 657 |
| 7.3.4+deb13 | ext4 | 0 of 3681 | 0 of 1653 | 762 |
| 7.3.4+deb13 | xfs | 0 of 3708 | 0 of 1722 | 804 |
| 7.3.4+deb13 | btrfs | 0 of 3612 | 0 of 1695 | 765 |

In all 62933 judged, 0 violations. The controls lost data in 6322 of 6976.
"""


def key(row):
    return [row[k] for k in ("kernel", "fs", "disk", "kind", "how", "mapped", "control")]


def add(path, rows):
    """Put rows into the file, in place of those of the same kernel, file system, disk and job."""
    new = [key(r) for r in rows]
    kept = [r for r in read(path) if key(r) not in new] if os.path.exists(path) else []
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(kept + rows, f, indent=1)
    os.replace(path + ".new", path)


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def strategy(row):
    """What pgw_sync did in the end, as the workload prints it; the store tells it last, in brackets."""
    m = re.search(r", ([a-z-]+) \(|: ([a-z-]+) \(", row["said"])
    return (m[1] or m[2]) if m else ""


def version(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def cells(columns):
    return "| " + " | ".join(str(c) for c in columns) + " |"


def lines(rows, columns, name):
    """One line for each way of doing it, one group of columns for each kernel."""
    kernels = sorted({r["kernel"] for r in rows}, key=version)
    out = [cells([*columns, *kernels]), cells("---" for _ in [*columns, *kernels])]
    groups = {}
    for r in rows:
        groups.setdefault(name(r), {})[r["kernel"]] = r
    for group, by_kernel in groups.items():
        out.append(cells([*group, *(result(by_kernel.get(k)) for k in kernels)]))
    return out


def result(row):
    if not row:
        return "not run"
    restored = f", {row['restored']} restored" if row["how"] in ("group", "relaxed", "nosync-relaxed") else ""
    text = f"{row['violations']} of {row['judged']}{restored}"
    return text if row["expected"] else f"**{text}: not as expected**"


def markdown(path):
    rows = sorted(read(path), key=lambda r: (r["fs"], r["kind"], r["how"], r["mapped"], r["disk"]))
    sound = [r for r in rows if not r["control"]]
    out = [HEAD]
    through = {False: "pwrite", True: "map"}
    parts = (
        ("pgw_sync: violations", [r for r in sound if r["kind"] == "pages"], "asked"),
        ("The store: violations", [r for r in sound if r["kind"] == "store"], "mode"),
        ("A chain that is imported: violations", [r for r in sound if r["kind"] == "chain"], "mode"),
        ("Controls: violations, which there must be", [r for r in rows if r["control"]], "left out"),
    )
    for title, part, how in parts:
        if not part:
            continue
        out += [f"## {title}", ""]
        out += lines(
            part,
            ["file system", "disk", how, "used", "through"],
            lambda r: (r["fs"], r["disk"], f"{r['kind']}: {r['how']}" if r["control"] else r["how"], strategy(r), through[r["mapped"]]),
        )
        out.append("")
    judged = sum(r["judged"] for r in sound)
    bad = sum(r["violations"] for r in sound)
    unexpected = sum(not r["expected"] for r in rows)
    out.append(f"In all {judged} judged, {bad} violations; {unexpected} results that were not as expected.")
    return "\n".join(out) + "\n" + LONG
