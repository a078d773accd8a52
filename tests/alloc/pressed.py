#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Memory pressure for real: a guest with PSI and a cgroup with memory.high, which this machine may not have.

    tests/alloc/pressed.py [--kernel 6.12] build

A process has freed 64 MiB that jemalloc would keep for ten minutes; a neighbour in its cgroup needs as much, and both
are above memory.high. With the default settings the purger sees the time that the neighbour loses, and gives the
memory back; with pressure:0, the control, nothing happens. Exit code 0: so it was; 1: not; 77: no guest to be had.
"""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../kernels"))

import guest  # noqa: E402

HIGH_MIB = 96
CGROUP = f"""set -e
c=/sys/fs/cgroup
mkdir -p $c
grep -q " $c cgroup2" /proc/mounts || mount -t cgroup2 none $c
echo +memory >$c/cgroup.subtree_control
mkdir $c/$name
echo {HIGH_MIB}M >$c/$name/memory.high
echo $$ >$c/$name/cgroup.procs
"$program" $seconds
echo "memory.pressure: $(head -1 $c/$name/memory.pressure)"
echo "memory.events: $(grep high $c/$name/memory.events)"
"""


def judge(name, text):
    """What is wrong with the line of JSON that the program printed; "" if nothing."""
    try:
        r = json.loads(text.splitlines()[0])
    except (ValueError, IndexError):
        return "it printed no result"
    freed = r["resident_before_mib"] - r["resident_after_mib"]
    if r["resident_before_mib"] < 60:
        return "the memory was given back before there was pressure"
    if name == "pressed":
        if not r["pressure_purges"] or freed < 48:
            return "the memory was not given back"
        return "" if r["neighbour_done"] else "the neighbour did not get it"
    return "the control gave memory back as well" if r["pressure_purges"] or freed > 16 else ""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", help="the build folder")
    p.add_argument("--kernel", default="6.12", help="a version of Debian's kernel package")
    args = p.parse_args()
    program = os.path.abspath(os.path.join(args.build, "tests/alloc/test-alloc-pressed"))
    if not os.path.exists(program):
        p.error(f"{program} is not there: meson compile -C {args.build}")
    tasks = []
    for name, setting, seconds in (("pressed", "pressure:10", 90), ("control", "pressure:0", 15)):
        env = {"MALLOC_CONF": "dirty_decay_ms:600000", "PAGEWISE_ALLOC": setting, "program": program, "name": name,
               "seconds": seconds}
        tasks.append(guest.Task(name, CGROUP, seconds=180, env=env))
    try:
        kernel = guest.kernel(args.kernel)
        root = guest.Initramfs()
        root.add_program(program)
        outcome = guest.run(kernel, root, tasks, append="psi=1")
    except guest.Unavailable as e:
        print(f"pressed.py: {e}", file=sys.stderr)
        return 77
    print(f"kernel {outcome.version}, {outcome.accel}, {outcome.seconds} s")
    bad = outcome.error
    for task in tasks:
        result = outcome.results.get(task.name)
        text = result.output if result else ""
        why = judge(task.name, text) if result and result.code == 0 else "it failed"
        print(f"{task.name}: {why or 'as it should be'}\n{text}", end="")
        bad = bad or why
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
