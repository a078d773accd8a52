# SPDX-License-Identifier: BSD-2-Clause
"""The mallocs that are compared, and what running a program under one of them costs."""
import glob
import os
import statistics
import subprocess
import sys
import time

PAGE = os.sysconf("SC_PAGE_SIZE")
LIBS = "/usr/lib/*-linux-gnu/"
PACKAGED = {
    "jemalloc": LIBS + "libjemalloc.so.2",
    "mimalloc": LIBS + "libmimalloc.so.2*",
    "tcmalloc": LIBS + "libtcmalloc_minimal.so.4",
}


class Malloc:
    """One side of a comparison."""

    def __init__(self, name, library, conf="", env=None):
        self.name = name
        self.library = library
        self.conf = conf  # added to MALLOC_CONF
        self.env = env or {}

    def environment(self, conf=""):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PAGEWISE_", "MALLOC_", "LD_PRELOAD"))}
        env["MALLOC_CONF"] = ",".join(filter(None, [conf, self.conf]))
        env.update(self.env)
        if self.library:
            env["LD_PRELOAD"] = self.library
        return env


def sides(library, settings=(), jemalloc531=None, peers=("jemalloc", "glibc", "mimalloc", "tcmalloc")):
    """pagewise first, then what is installed of the peers."""
    found = [Malloc("pagewise", os.path.abspath(library))]
    found += [Malloc(f"pagewise {s}", found[0].library, env={"PAGEWISE_ALLOC": s}) for s in settings]
    for name in peers:
        if name == "glibc":
            found.append(Malloc(name, None))
            continue
        files = sorted(glob.glob(PACKAGED[name]))
        if files:
            found.append(Malloc(name, files[-1]))
        else:
            print(f"{name} is not installed: left out", file=sys.stderr)
    if jemalloc531:
        found.append(Malloc("jemalloc 5.3.1", os.path.abspath(jemalloc531), "process_madvise_max_batch:128"))
    return found


def rss(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * PAGE


def run(malloc, command, conf="", sample=False, **kw):
    """Run a program to its end. Times and faults are of the process and of the children it waited for; rss_mean is of
    the process, sampled every 5 ms, over the middle half of the run. output is its standard output."""
    start = time.perf_counter()
    child = subprocess.Popen(command, env=malloc.environment(conf), stdout=subprocess.PIPE, **kw)
    samples = []
    while sample:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        samples.append(rss(child.pid))
        time.sleep(0.005)
    output = child.stdout.read().decode()
    if not sample:
        _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.stdout.close()
    child.returncode = status  # it has been waited for
    if status:
        raise RuntimeError(f"{' '.join(command)} with {malloc.name}: wait status {status}")
    samples = samples[len(samples) // 4:len(samples) - len(samples) // 4]
    return {
        "wall_s": wall,
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "faults": usage.ru_minflt,
        "rss_mean_mib": statistics.fmean(samples) / 2**20 if samples else 0,
        "rss_peak_mib": usage.ru_maxrss / 1024,
        "output": output,
    }
