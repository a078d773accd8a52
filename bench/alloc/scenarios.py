# SPDX-License-Identifier: BSD-2-Clause
"""What is measured, and what is to be reached.

A scenario has a function that runs it once under one malloc and returns numbers, and the metrics of these that the
table shows. A metric's target is a bound of its ratio to a peer's ("times"), of the difference ("plus"), or of the
number itself ("most").
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import mallocs


class Metric:
    def __init__(self, name, peer=None, times=None, plus=None, most=None, higher=False):
        self.name, self.peer, self.times, self.plus, self.most = name, peer, times, plus, most
        self.higher = higher  # more is better: times is a lower bound then

    def target(self):
        if self.times is not None:
            return f"{'>=' if self.higher else '<='} {self.times:.4g} of {self.peer}"
        if self.plus is not None:
            return f"<= {self.peer} + {self.plus:g}"
        return f"<= {self.most:.0f}" if self.most is not None else "-"

    def measure(self, mine, theirs):
        """The number that the target bounds."""
        if self.times is not None:
            return mine / theirs if theirs else float("inf") if mine else 1.0
        return mine - theirs if self.plus is not None else mine

    def holds(self, value):
        bound = next((b for b in (self.times, self.plus, self.most) if b is not None), None)
        if bound is None:
            return True
        return value >= bound if self.higher else value <= bound


class Scenario:
    def __init__(self, name, title, run, metrics, only=None, once=False):
        self.name, self.title, self.run, self.metrics = name, title, run, metrics
        self.only = only  # names of mallocs that it makes sense for; None: all
        self.once = once  # always the same: one round will do


JEMALLOCS = ("pagewise", "jemalloc", "jemalloc 5.3.1")
# mimalloc copies the block at every step: 42 s for half a GiB.
GROWING = JEMALLOCS + ("glibc", "tcmalloc")


def fastpath(b, m):
    """Instructions of a pair of malloc and free, by callgrind: two runs of different length."""

    def count(n):
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                   "--soname-synonyms=somalloc=nouserintercepts", b.program("bench-alloc-pairs"), str(n)]
        r = subprocess.run(command, env=m.environment(), capture_output=True, text=True, check=True)
        return int(re.search(r"Collected : (\d+)", r.stderr).group(1))

    return {"instructions": (count(300000) - count(100000)) / 200000}


def churn(decay):
    def run(b, m):
        seconds = 4 * b.scale
        command = [b.program("../tests/alloc/churn"), "-q", "-t", "2", "-s", str(seconds), "-b", "1000"]
        report = os.path.join(b.scratch, "report")
        counted = mallocs.Malloc(m.name, m.library, m.conf, {**m.env, "PAGEWISE_STATS": report})
        r = mallocs.run(counted, command, f"dirty_decay_ms:{decay}", sample=True)
        r["ops_per_s"] = float(r.pop("output"))
        # The same work, however fast it was done.
        r["system_us"] = r["system_s"] * 1e6 / (r["ops_per_s"] * seconds)
        r["faults"] /= r["ops_per_s"] * seconds
        if os.path.exists(report):
            with open(report, encoding="utf-8") as f:
                r["ranges_per_call"] = json.load(f)["parts"]["alloc"]["ranges_per_purge"] or 0
            os.remove(report)
        return r

    return run


def of_json(program, *args, conf=""):
    def run(b, m):
        r = mallocs.run(m, [b.program(program), *(str(a(b)) if callable(a) else str(a) for a in args)], conf)
        return {**r, **json.loads(r.pop("output"))}

    return run


def bigheap(b, m):
    command = ["stress-ng", "--bigheap", "1", "--bigheap-growth", "1M", "--bigheap-ops", str(b.scaled(1024)),
               "--temp-path", b.scratch, "--quiet"]
    return mallocs.run(m, command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


FORKS = "i=0; while [ $i -lt {} ]; do ( : ); i=$((i+1)); done"


def forks(shell):
    return lambda b, m: mallocs.run(m, [shell, "-c", FORKS.format(b.scaled(3000))])


def start(conf):
    def run(b, m):
        runs = [mallocs.run(m, ["/bin/grep", "VmHWM", "/proc/self/status"], conf) for _ in range(10)]
        return {"ms": min(r["wall_s"] for r in runs) * 1000,
                "cpu_ms": sum(r["cpu_s"] for r in runs) * 100,
                "rss_mib": int(runs[0]["output"].split()[1]) / 1024}

    return run


PYTHON = """
import json
d = [{str(i): [i] * (i %% 50), "x": "y" * (i %% 200)} for i in range(%d)]
for _ in range(3):
    d = json.loads(json.dumps(d))
"""


def python(b, m):
    """By its own name: what the name python3 finds may be a script that forks first."""
    env = mallocs.Malloc(m.name, m.library, m.conf, {**m.env, "PYTHONMALLOC": "malloc"})
    return mallocs.run(env, [sys.executable, "-S", "-c", PYTHON % b.scaled(30000)])


def compile_tree(b, m):
    """A parallel compile of this tree's allocator and shim."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    files = [os.path.join(root, "shim", f) for f in sorted(os.listdir(os.path.join(root, "shim"))) if f.endswith(".c")]
    include = " ".join(f"-I{os.path.join(root, d)}" for d in ("include", "shim"))
    command = f"printf '%s\\n' {' '.join(files[:b.scaled(len(files))])} | " \
              f"xargs -P 2 -n 1 cc -D_GNU_SOURCE -O2 {include} -I{b.build}/include -S -o /dev/null"
    return mallocs.run(m, ["sh", "-c", command])


SQLITE = """create table t(a integer primary key, b text, c blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {0})
insert into t select i, hex(randomblob(i % 300)), randomblob(i % 5000) from n;
create index ti on t(b);
select count(*), sum(length(c)) from t where b > '8';
delete from t where a % 3 = 0;
select group_concat(substr(b, 1, 20)) is null from t;
"""


def sqlite(b, m):
    return mallocs.run(m, ["sqlite3", ":memory:", SQLITE.format(b.scaled(60000))])


def redis(b, m):
    """SET, GET and DEL of values of 1 to 64 KiB; then idle. Debian's redis-server uses the system's malloc by name,
    so what is preloaded is what it gets; on its own it runs on Debian's jemalloc, so there is no glibc side."""
    with tempfile.TemporaryDirectory(dir=b.scratch) as folder:
        socket = os.path.join(folder, "s")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly",
                                   "no", "--dir", folder, "--logfile", os.path.join(folder, "log")],
                                  env=m.environment())

        def client(*args):
            return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout

        def ping():
            return subprocess.run(["redis-cli", "-s", socket, "ping"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False).returncode == 0

        try:
            deadline = time.monotonic() + 20
            while not ping() and time.monotonic() < deadline:
                time.sleep(0.02)
            t = time.perf_counter()
            for size in (1024, 8192, 65536):
                n = str(b.scaled(40000 * 1024 // max(size, 4096)))
                common = ["redis-benchmark", "-s", socket, "-c", "8", "-r", n, "-n", n, "-q"]
                client(*common, "-d", str(size), "-t", "set,get")
                client(*common, "set", f"other{size}:__rand_int__", "x" * (size // 2))
                client(*common, "del", "key:__rand_int__")
            wall = time.perf_counter() - t
            with open(f"/proc/{server.pid}/stat", encoding="ascii") as f:
                ticks = f.read().rsplit(")", 1)[1].split()[11:13]
            used = int(re.search(r"used_memory:(\d+)", client("redis-cli", "-s", socket, "info", "memory")).group(1))
            time.sleep(b.idle_s)
            return {"wall_s": wall, "user_s": int(ticks[0]) / os.sysconf("SC_CLK_TCK"),
                    "system_s": int(ticks[1]) / os.sysconf("SC_CLK_TCK"),
                    "used_mib": used / 2**20, "rss_idle_mib": mallocs.rss(server.pid) / 2**20}
        finally:
            server.terminate()
            server.wait()


def same_as_jemalloc(*more):
    """Noise is not known beforehand: 2 % here, and the spread of the rounds in the verdict."""
    return [Metric("wall_s", "jemalloc", times=1.02), Metric("cpu_s", "jemalloc", times=1.02), *more]


ALL = [
    Scenario("fastpath", "malloc and free of small sizes", fastpath,
             [Metric("instructions", "jemalloc", times=1.005)], once=True),
    *(Scenario(f"churn-{decay}", f"4 to 96 KiB, two threads, dirty_decay_ms:{decay}; times and faults of an operation",
               churn(decay),
               [Metric("system_us", "jemalloc", times=times), Metric("rss_mean_mib", "jemalloc", times=1.03),
                Metric("ops_per_s", "jemalloc", times=1, higher=True), Metric("faults"), Metric("ranges_per_call")])
      for decay, times in ((0, 0.5), (100, 0.8), (1000, 1.0))),
    Scenario("purge", "64 MiB in 4 KiB pieces purged beside a running thread",
             of_json("bench-alloc-purge", lambda b: b.scaled(64), conf="dirty_decay_ms:-1,tcache:false,narenas:1"),
             [Metric("ms", "jemalloc", times=0.2), Metric("cpu_ms"), Metric("flushes", most=16384 / 100 + 64)],
             only=JEMALLOCS),
    Scenario("free", "free() under the same churn, dirty_decay_ms:0, microseconds",
             of_json("bench-alloc-latency", lambda b: b.scaled(60000), conf="dirty_decay_ms:0"),
             [Metric("p50"), Metric("p99"), Metric("p999", "jemalloc", times=1 / 3), Metric("p9999"), Metric("max"),
              Metric("malloc_p999", "jemalloc", times=1)]),
    Scenario("grow", "one block grown to 1 GiB by 64 KiB steps",
             lambda b, m: mallocs.run(m, [b.program("bench-alloc-grow"), str(b.scaled(1024))]),
             [Metric("wall_s", "glibc", times=1.5), Metric("faults")], only=GROWING),
    Scenario("bigheap", "stress-ng --bigheap, 1 GiB by 1 MiB steps", bigheap, [Metric("wall_s", "glibc", times=1.5)],
             only=GROWING),
    Scenario("forks-dash", "dash forks 3000 times", forks("dash"), same_as_jemalloc(Metric("faults"))),
    Scenario("forks-bash", "bash forks 3000 times", forks("bash"), same_as_jemalloc(Metric("faults"))),
    *(Scenario(f"start{'-' + conf.split(':')[1] if conf else ''}", f"a start of grep {conf}".rstrip(), start(conf),
               [Metric("ms", "jemalloc", plus=1), Metric("cpu_ms"), Metric("rss_mib", "jemalloc", plus=1)])
      for conf in ("", "narenas:256")),
    Scenario("redis", "redis SET, GET, DEL of 1 to 64 KiB, then idle", redis,
             [Metric("wall_s", "jemalloc", times=1.02), Metric("system_s", "jemalloc", times=1.0),
              Metric("rss_idle_mib", "jemalloc", times=1.0)],
             only=JEMALLOCS + ("mimalloc", "tcmalloc")),
    Scenario("compile", "parallel compile", compile_tree, same_as_jemalloc()),
    Scenario("python", "python, JSON there and back", python, same_as_jemalloc()),
    Scenario("sqlite", "SQLite in memory", sqlite, same_as_jemalloc()),
]
