# SPDX-License-Identifier: BSD-2-Clause
"""The matrix as lines, as a table of text, and as docs/kernels.md."""

HEAD = """# Kernels

<!-- Printed by tests/kernels/run --markdown. Change that, not this. -->

pagewise promises to run on any kernel and to use the best that each one has. This page is what it
found and chose on real ones. It is printed, as it stands, by

    tests/kernels/run --markdown 5.10 6.1 6.12 6.16 newest newest-arm64-16k >docs/kernels.md

or from what `tests/kernels/run KERNEL --json FILE` has kept of each kernel, by `tests/kernels/run --from FILE... --markdown`.
It fetches Debian's kernels with a package configuration of its own, boots each under qemu, runs
pagewise and its tests in it, and compares every answer and every choice with
`tests/kernels/expect.json`, where the reason for each stands. A difference makes the command fail.
Nothing is installed. Rows with the tests of the shim alone, and the file systems ext4 and tmpfs alone, are of
`tests/kernels/run --short`, the short form that `meson test --suite kernels` runs on two kernels.
"""


def ran(rows):
    return [r for r in rows if "unavailable" not in r]


def counts(row, kind=None):
    states = [c["state"] for c in row["checks"] if kind is None or (c["kind"] == "test") == (kind == "test")]
    return tuple(states.count(s) for s in ("passed", "failed", "skipped"))


def short_version(row):
    return row["version"].removesuffix("-cloud-amd64")


def advice_strategy(row):
    """(route of DONTNEED, reason), from the guest's own probe."""
    probe = row["probe"]["root"]
    if not probe:
        return "unknown", row["error"] or "the probe did not run"
    for a in probe["advice"]:
        if a["name"] == "DONTNEED":
            return a["route"], a["reason"]
    return "unknown", "not probed"


def sync_strategies(row):
    """{file system: chosen strategy}"""
    return {fs: r["strategy"] for fs, rounds in row["sync"].items() for r in rounds if r["asked"] == "auto"}


def grouped(table):
    groups = {}
    for fs, strategy in table.items():
        groups.setdefault(strategy, []).append(fs)
    return "; ".join(f"{s} ({', '.join(f)})" for s, f in groups.items()) or "unknown"


def line(row):
    """One line a kernel."""
    if "unavailable" in row:
        return f"{row['version']}: skipped: {row['unavailable']}"
    route, reason = advice_strategy(row)
    passed, failed, skipped = counts(row)
    again = "; booted twice: the first try died before any program" if row["died_booting"] else ""
    return (
        f"{row['version']}: advice {route}; sync {grouped(sync_strategies(row))}; "
        f"{passed} passed, {failed} failed, {skipped} skipped; {reason}"
        f"{'; ' + row['error'] if row['error'] else ''} ({row['accel']}, {row['seconds']} s{again})"
    )


def grid(head, body, markdown=False):
    """A table: columns padded, in markdown or plain."""
    table = [head, *body]
    widths = [max(len(str(r[i])) for r in table) for i in range(len(head))]
    padded = [[str(c).ljust(w) for c, w in zip(r, widths)] for r in table]
    if not markdown:
        return "\n".join("  ".join(r).rstrip() for r in padded)
    padded.insert(1, ["-" * w for w in widths])
    return "\n".join("| " + " | ".join(r) + " |" for r in padded)


def merged(table, kernels):
    """Rows that differ in their second column alone, the kernel, as one row."""
    groups = {}
    for row in table:
        groups.setdefault((row[0], *row[2:]), []).append(row[1])
    for (first, *rest), names in groups.items():
        yield [first, "all" if len(names) == len(kernels) > 1 else ", ".join(names), *rest]


ADVICES = ["DONTNEED", "FREE", "DONTNEED_LOCKED", "COLD", "PAGEOUT", "WILLNEED", "POPULATE_READ", "POPULATE_WRITE",
           "COLLAPSE", "DONTDUMP"]  # fmt: skip


def answers(row, key):
    root, user = (row["answers"][who].get(key, "-") for who in ("root", "user"))
    return root if root == user else f"{root} (user: {user})"


def feature_rows(rows):
    """kernel x advice: what madvise, a pidfd and PIDFD_SELF answer, and what was chosen."""
    for advice in ADVICES:
        key = advice.lower()
        for row in ran(rows):
            chosen = next(
                (a for a in (row["probe"]["root"] or {"advice": []})["advice"] if a["name"] == advice), None
            )
            choice = f"{chosen['route']}" if chosen else "unknown"
            if chosen and chosen["route"] == "vectored":
                choice += f" by {chosen['self']}"
            yield [
                advice, short_version(row), answers(row, f"madvise_{key}"), answers(row, f"pidfd_{key}"),
                answers(row, f"self_{key}"), choice, chosen["reason"] if chosen else "",
            ]  # fmt: skip


FEATURE_HEAD = ["advice", "kernel", "madvise", "by a pidfd", "by PIDFD_SELF", "chosen", "reason the probe gives"]

OTHERS = {
    "madvise_guard_install": "GUARD_INSTALL",
    "ranges_1024_cold": "1024 ranges a call (COLD)",
    "ranges_1025_cold": "1025 ranges a call (COLD)",
    "ranges_0_dontneed": "no range at all (DONTNEED)",
    "self_10001_dontneed": "PIDFD_SELF as -10001",
    "self_20000_dontneed": "PIDFD_SELF as -20000",
    "cachestat": "cachestat",
    "pagemap_scan": "PAGEMAP_SCAN",
    "mseal": "mseal",
}


def other_rows(rows):
    for key, title in OTHERS.items():
        yield [title, *(answers(r, key) for r in ran(rows))]


def counted(rows):
    """The rows of kernels whose flushes could be counted. (The others are among what was skipped.)"""
    return [r for r in ran(rows) if r["tlb"]]


def flush_rows(rows):
    """batch x kernel: flushes sent to the other CPU, by process_madvise and by pgw_advise."""
    yield ["pages", "", *(row["tlb"]["pages"] for row in counted(rows))]
    batches = sorted({x["batch"] for r in counted(rows) for x in r["tlb"]["rows"]})
    for method in ("madvise", "process_madvise", "pgw_advise"):
        for batch in batches if method != "madvise" else [1]:
            cells = []
            for row in counted(rows):
                at = [x for x in row["tlb"]["rows"] if x["method"] == method and x["batch"] == batch]
                cells.append(at[0].get("remote", at[0].get("error", "-")) if at else "-")
            if all(c == "-" for c in cells):
                continue
            yield [method, batch, *cells]


def sync_rows(rows):
    for row in ran(rows):
        for fs, rounds in row["sync"].items():
            if not rounds:
                check = next(c for c in row["checks"] if c["kind"] == "sync" and c["name"] in (fs, f"fs-{fs}"))
                yield [fs, short_version(row), check["got"] or check["state"], "-", "-", "-", "-", "-"]
            for r in rounds:
                calls = f"{r['sync_file_range']}, {r['msync']}, {r['fdatasync']}"
                lost = f"{r['missing']} of {r['synced']}"
                along = f"{r['came_along']} of {r['others']}"
                yield [fs, short_version(row), r["asked"], r["strategy"], calls, r["barriers"], lost, along]


SYNC_HEAD = ["file system", "kernel", "asked", "used", "calls", "barriers", "pages lost", "others written"]


def bad(rows, state):
    for row in ran(rows):
        for c in row["checks"]:
            if c["state"] == state:
                got = f": {c['got']}, expected {c['expected']}" if c["expected"] else ""
                yield f"{short_version(row)}: {c['kind']} {c['name']}{got}{': ' + c['why'] if c['why'] else ''}"


def text(rows):
    parts = ["\n".join(line(r) for r in rows)]
    if ran(rows):
        kernels = [short_version(r) for r in ran(rows)]
        parts += [
            grid(FEATURE_HEAD, feature_rows(rows)),
            grid(["other", *kernels], other_rows(rows)),
            grid(["flushes by", "batch", *map(short_version, counted(rows))], flush_rows(rows)),
            grid(SYNC_HEAD, sync_rows(rows)),
        ]
    for state in ("skipped", "failed"):
        lines = list(bad(rows, state))
        if lines:
            parts.append(f"{state}:\n" + "\n".join("  " + x for x in lines))
    return "\n\n".join(parts)


def tests_cell(row):
    """How many tests, and of which suites: --short runs the shim's alone."""
    suites = sorted({c["name"].split("/")[0] for c in row["checks"] if c["kind"] == "test" and "/" in c["name"]})
    return f"{'/'.join(map(str, counts(row, 'test')))} ({', '.join(suites)})"


def page_size(row):
    return (row["probe"]["root"] or {}).get("page_size", "unknown")


def summary_rows(rows):
    for row in rows:
        if "unavailable" in row:
            yield [row["version"], "-", "-", "-", "-", "-", "-", row["unavailable"]]
            continue
        route, reason = advice_strategy(row)
        yield [
            short_version(row), page_size(row), route, grouped(sync_strategies(row)), tests_cell(row),
            "/".join(map(str, counts(row, "check"))), reason,
        ]  # fmt: skip


def markdown(rows):
    kernels = [short_version(r) for r in ran(rows)]
    head = ["kernel", "page", "advice", "sync", "tests", "comparisons", "reason"]
    parts = [
        HEAD,
        "## What is chosen\n\nTests and comparisons: passed/failed/skipped. Advice: the route of DONTNEED.\n",
        grid(head, summary_rows(rows), True),
        "\n## What each kernel answers, and what is chosen for each advice\n\n"
        "Asked directly, by `tests/kernels/features.c`, on two ranges of private anonymous memory; `ok` means all bytes, "
        "and zeroes where zeroes\nare due. Where an unprivileged process gets another answer, that stands beside it.\n",
        grid(FEATURE_HEAD, merged(feature_rows(rows), kernels), True),
        "",
        grid(["other", *kernels], other_rows(rows), True),
        "\n## TLB flushes\n\nInterrupts sent to the other CPU to flush its TLB (tracepoint `tlb:tlb_flush`) while separate "
        "pages, as many as the first row\nsays, are dropped with DONTNEED, a second thread running. "
        "`tests/kernels/tlbflush.c` counts them. An errno: the kernel refuses the call, and larger\nones are "
        "not tried. -: not counted; a few batches show a loop.\n",
        grid(["by", "batch", *map(short_version, counted(rows))], flush_rows(rows), True),
        "\n## File systems\n\n`tests/kernels/fs.sh`: 8 rounds of writes to 8 ranges of a file, each round followed by "
        "`pgw_sync`; then a copy of the disk is taken\nunder the mounted file system, mounted itself, and every synced "
        "page looked for. `none` is the control: nothing is synced. Calls:\nsync_file_range, msync, fdatasync. Others "
        "written: pages that were dirtied, but not asked to be synced. `-1k`, `-16k`: the size of a block, where it is "
        "not 4 KiB.\n",
        grid(SYNC_HEAD, merged(sync_rows(rows), kernels), True),
    ]
    for state, title in (("skipped", "Skipped"), ("failed", "Failed")):
        lines = list(bad(rows, state))
        if lines:
            parts.append(f"\n## {title}\n\n" + "\n".join(f"* {x}" for x in lines))
    left_out = sorted({x for r in ran(rows) for x in r["left_out"]})
    if left_out:
        parts.append("\nNot run in these guests (scripts; a simulated kernel; too slow without KVM): " + ", ".join(left_out) + ".")
    return "\n".join(parts)
