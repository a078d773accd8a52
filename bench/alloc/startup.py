#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a malloc costs a process that does nothing: time, resident memory and system calls.

Interleaved starts of a grep that reads its own VmHWM under each; medians. usage: startup.py LIBPAGEWISE-ALLOC.SO [N]
"""
import glob
import os
import statistics
import subprocess
import sys
import time


COMMAND = ["/bin/grep", "VmHWM", "/proc/self/status"]


def start(library, conf):
    env = {"MALLOC_CONF": conf}
    if library:
        env["LD_PRELOAD"] = library
    t = time.perf_counter()
    out = subprocess.run(COMMAND, env=env, stdout=subprocess.PIPE, check=True).stdout
    return (time.perf_counter() - t) * 1000, int(out.split()[1]) / 1024


def calls(library, conf):
    """System calls, without those of strace's own start; None without strace."""
    preload = ["-E", f"LD_PRELOAD={library}"] if library else []
    try:
        out = subprocess.run(["strace", "-f", "-qq", "-E", f"MALLOC_CONF={conf}", *preload, *COMMAND],
                             capture_output=True, text=True, check=True).stderr
    except FileNotFoundError:
        return None
    return len(out.splitlines())


def main():
    library = os.path.abspath(sys.argv[1])
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    sides = {"glibc": None, "jemalloc": glob.glob("/usr/lib/*-linux-gnu/libjemalloc.so.2")[0], "pagewise": library}
    print(f"{'MALLOC_CONF':<14}{'malloc':<12}{'ms':>8}{'MiB':>8}{'calls':>8}")
    for conf in "", "narenas:256":
        runs = {name: [] for name in sides}
        for _ in range(n):
            for name, lib in sides.items():
                runs[name].append(start(lib, conf))
        for name, lib in sides.items():
            ms, mib = (statistics.median(x) for x in zip(*runs[name]))
            print(f"{conf:<14}{name:<12}{ms:>8.2f}{mib:>8.2f}{calls(lib, conf) or '-':>8}")


if __name__ == "__main__":
    main()
