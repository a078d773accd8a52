# SPDX-License-Identifier: BSD-2-Clause
"""What is run in each kernel, and how its answers compare with expect.json."""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import guest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cross"))

import crossbuild  # noqa: E402

FILE_SYSTEMS = ["ext4", "ext4-1k", "ext4-16k", "xfs", "xfs-1k", "xfs-16k", "btrfs", "tmpfs", "overlay", "fuse"]
# With pages of 16 KiB ext4 and xfs have blocks that are smaller than a page as they are.
LARGE_PAGE_FILE_SYSTEMS = ["ext4", "ext4-1k", "xfs", "tmpfs", "overlay"]
STRATEGIES = ["auto", "span", "writeout", "fdatasync", "per-range"]
TEST_SUITES = {"shim", "alloc", "store"}
SHORT_TEST_SUITES = {"shim"}
# Their kernel is a simulated one, so that the guest's changes nothing; emulated, they take minutes.
# (With pages of other sizes tests/cross runs some of them.)
SIMULATED = {
    "shim/advise", "shim/probe", "shim/range", "shim/stats", "shim/sync",
    "alloc/faults", "alloc/flight", "alloc/hide", "alloc/lazy", "alloc/options", "alloc/pool", "alloc/pressure",
    "alloc/shortage", "alloc/space", "alloc/threads", "store/test_crash", "store/test_faults",
}  # fmt: skip
# Many threads, processes or descriptors, or much memory, which an emulated guest takes long for: run
# where KVM works.
SLOW_EMULATED = re.compile(
    r"alloc/(stress-.*|growth-.*|limits-.*|descriptors-numbers|idle-(blocks|lazily|muzzy)"
    r"|survive-(fork-.*|raw-fork|vfork-exec|many-short-threads|no-threads|main-.*|exit-.*|signals|address-limit))"
    r"|store/test_threads"
)
# Libraries that programs load when they need them, so that ldd does not name them.
DLOPENED = ["libgcc_s.so.1", "libjemalloc.so.2", "liblmdb.so.0"]
REFUSED = "cannot be mounted"  # fs.sh, of a file system that the kernel does not take
SKIP = 77
KILLED = 137


@dataclasses.dataclass
class Check:
    """One comparison with expect.json, or one test program. state: passed, failed, skipped."""

    kind: str
    name: str
    state: str
    got: str = ""
    expected: str = ""
    why: str = ""


def expectation(row, version, user=False):
    """The value of a row of expect.json for a kernel version."""
    table = row.get("user", row["since"]) if user else row["since"]
    known = [v for v in table if guest.version_key(v) <= guest.version_key(version)]
    return table[max(known, key=guest.version_key)]


# --- the programs ---------------------------------------------------------------------------------


def is_elf(path):
    with open(path, "rb") as f:
        return f.read(4) == b"\x7fELF"


def unit_tests(build, wanted, machine):
    """(tests, left out): the build's test programs that need nothing but a kernel.

    Scripts are left out, since the guest has no interpreters, and what is listed above. [{name, argv, env, seconds}]"""
    text = subprocess.run(
        [guest.need("meson", "meson"), "introspect", "--tests", build], check=True, capture_output=True, text=True
    ).stdout
    tests, left_out = [], []
    emulated = not guest.kvm_usable(machine)
    for t in json.loads(text):
        suites = {s.split(":")[-1] for s in t["suite"]}
        if not suites & wanted:
            continue
        name = f"{sorted(suites & wanted)[0]}/{t['name']}"
        # Paths of the build are relative to it, the guest's tests run elsewhere.
        argv = [str(build / a) if (build / a).is_file() else a for a in t["cmd"]]
        unfit = name in SIMULATED or (emulated and SLOW_EMULATED.fullmatch(name))
        if unfit or not argv[0].startswith(f"{build}/") or not is_elf(argv[0]):
            left_out.append(name)
            continue
        env = {k: v for k, v in t["env"].items() if k != "LD_LIBRARY_PATH"}
        tests.append({"name": name, "argv": argv, "env": env, "seconds": min(t["timeout"] or 600, 600) * 4})
    return tests, left_out


class Host:
    """What guests of this machine's own kind are made of: what is built and installed here."""

    machine = guest.NATIVE

    def __init__(self, build):
        self.build = build

    def initramfs(self):
        return guest.Initramfs()

    def library(self, name):
        """Where the loader finds a library, or None."""
        command = [guest.need("ldconfig", "libc-bin"), "-p"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        m = re.search(rf"^\s*{re.escape(name)} \(.*x86-64.*\) => (\S+)", text, re.M)
        return m[1] if m else None

    def tool(self, name, package):
        return guest.need(name, package)


class Foreign:
    """What guests of another machine are made of: a cross build, Debian's packages unpacked. Raises
    crossbuild.BuildError beside Unavailable."""

    PACKAGES = [
        "busybox-static", "e2fsprogs", "libext2fs2", "libcom-err2", "libss2", "libblkid1", "libuuid1",
        "xfsprogs", "libinih1",
    ]  # fmt: skip

    def __init__(self, machine, build):
        self.machine = machine
        arch = crossbuild.ARCHITECTURES[machine.architecture]
        root = crossbuild.sysroot(arch, whole=True)
        self.tools = crossbuild.unpacked(arch, self.PACKAGES, "guest")
        self.folders = [root / "usr/lib" / arch.triplet, pathlib.Path("/usr") / arch.triplet / "lib"]
        self.folders += [self.tools / d / arch.triplet for d in ("usr/lib", "lib")]
        work = build / f"cross-{arch.name}"
        work.mkdir(exist_ok=True)
        crossbuild.cross_file(arch, root, work, whole=True)
        self.build = crossbuild.build(work, whole=True)

    def initramfs(self):
        return guest.Initramfs(self.machine, self.tools / "bin/busybox", self.folders)

    def library(self, name):
        return next((f / name for f in self.folders if (f / name).exists()), None)

    def tool(self, name, package):
        path = next((self.tools / d / name for d in ("sbin", "usr/sbin") if (self.tools / d / name).exists()), None)
        if not path:
            raise guest.Unavailable(f"{package} is not among the packages of {self.machine.architecture}")
        return path


class Programs:
    """All that goes into every guest of a machine, gathered once."""

    def __init__(self, source, short):
        self.machine, self.short = source.machine, short
        build = source.build
        self.root = source.initramfs()
        for name, path in {
            "features": "tests/kernels/features",
            "tlbflush": "tests/kernels/tlbflush",
            "syncranges": "tests/kernels/syncranges",
            "pagewise": "tools/pagewise/pagewise",
        }.items():
            if not (build / path).exists():
                raise guest.Unavailable(f"{build / path} is not built")
            self.root.add_program(build / path)  # in its place: it finds its libraries from there
            self.root.add_link(f"/bin/{name}", build / path)
        self.root.add_file(HERE / "fs.sh", "/bin/fs.sh")
        # An aliased mkfs.ext4 is mke2fs, which asks for a configuration.
        for program, package in (
            ("mkfs.ext4", "e2fsprogs"),
            ("mkfs.xfs", "xfsprogs"),
            ("mkfs.btrfs", "btrfs-progs"),
            ("fuse2fs", "fuse2fs"),
        ):
            try:
                self.root.add_program(os.path.realpath(source.tool(program, package)), f"/usr/sbin/{program}")
            except guest.Unavailable:
                continue  # fs.sh tells that it is missing
        if os.path.exists("/etc/mke2fs.conf"):
            self.root.add_file("/etc/mke2fs.conf")
        self.tests, self.left_out = unit_tests(build, SHORT_TEST_SUITES if short else TEST_SUITES, source.machine)
        for t in self.tests:
            for arg in t["argv"]:
                if os.path.isfile(arg):
                    (self.root.add_program if is_elf(arg) else self.root.add_file)(arg)
        for lib in [*build.glob("*/libpagewise*.so*"), *build.glob("store/compat/*.so*")]:
            if lib.is_file():
                self.root.add_program(lib)
        for name in DLOPENED:
            path = source.library(name)
            if path:
                self.root.add_program(path, None if self.machine.native else f"/usr/lib/{name}")

    def tasks(self, file_systems):
        task = guest.Task
        tasks = [
            task("features-root", ["features"]),
            task("features-user", ["features"], uid=1000),
            task("probe-root", ["pagewise", "probe", "--json", "/scratch"]),
            task("probe-user", ["pagewise", "probe", "--json", "/scratch"], uid=1000),
            task("tlbflush", ["tlbflush", "1024", "60" if self.short else "600"], seconds=3600),
        ]
        for fs in file_systems:
            # A block of another size changes what the kernel writes, not what is asked of it.
            strategies = ["auto"] if self.short or "-" in fs else STRATEGIES
            command = ["sh", "/bin/fs.sh", "/bin/syncranges", f"/scratch/fs-{fs}", fs, *strategies]
            tasks.append(task(f"fs-{fs}", command, seconds=600))
        # The tests work on a disk with a journal and a page cache of its own, not on tmpfs.
        disk = "truncate -s 1G disk && mkfs.ext4 -q -F disk && mount -o loop disk /mnt && chmod 1777 /mnt"
        tasks.append(task("disk", disk))
        for t in self.tests:
            command = "cd /mnt\nexec " + " ".join(map(shlex.quote, t["argv"]))
            tasks.append(task(t["name"], command, seconds=t["seconds"], env={"TMPDIR": "/mnt", **t["env"]}))
        return tasks


# --- the comparison -------------------------------------------------------------------------------


def compare(kind, name, got, expected, why):
    return Check(kind, name, "passed" if got == expected else "failed", got, expected, why)


def parsed(outcome, name):
    """The JSON that a task printed, or None if it did not come to that."""
    result = outcome.results.get(name)
    if not result or result.code:
        return None
    try:
        return json.loads(result.output)
    except ValueError:
        return None


def last_line(result):
    lines = result.output.strip().splitlines()
    return lines[-1] if lines else "no message"


def missing(outcome, kind, name):
    """The check of a task that gave no answer."""
    result = outcome.results.get(name)
    if result and result.code == SKIP:
        return Check(kind, name, "skipped", why=last_line(result))
    if not result:
        why = outcome.error or "did not run"
    elif result.code == KILLED:
        why = f"killed, at its time limit or for want of memory: {last_line(result)}"
    else:
        why = f"exit code {result.code}: {last_line(result)}"
    return Check(kind, name, "failed", why=why)


def route_of(advice):
    """An entry of the probe as expect.json writes it: the route, and the errno of a fall-back."""
    error = "" if not advice["errno"] else f" {errno_name(advice['errno'])}"
    return advice["route"] + error


def errno_name(number):
    import errno

    return errno.errorcode.get(abs(number), str(number))


def check_answers(outcome, expect, version):
    for user in (False, True):
        who = "user" if user else "root"
        seen = parsed(outcome, f"features-{who}")
        if not seen:
            yield missing(outcome, "answer", f"features-{who}")
            continue
        for row in expect["answers"]:
            got = seen["answers"].get(row["name"], "not asked")
            yield compare("answer", f"{row['name']} ({who})", got, expectation(row, version, user), row["why"])


def check_routes(outcome, expect, version):
    for who in ("root", "user"):
        seen = parsed(outcome, f"probe-{who}")
        if not seen:
            yield missing(outcome, "route", f"probe-{who}")
            continue
        routes = {a["name"]: a for a in seen["advice"]}
        for row in expect["routes"]:
            got = route_of(routes[row["name"]]) if row["name"] in routes else "not probed"
            yield compare("route", f"{row['name']} ({who})", got, expectation(row, version), row["why"])


def fs_rounds(result):
    """[(what was asked and chosen, what the copy of the disk held)] as fs.sh prints them."""
    rows = []
    for line in result.output.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return list(zip(rows[::2], rows[1::2]))


def check_file_systems(outcome, expect, version, file_systems):
    for row in expect["sync"]:
        fs, name = row["name"], f"fs-{row['name']}"
        if fs not in file_systems:
            continue
        result = outcome.results.get(name)
        want = expectation(row, version)
        refused = result and result.code == SKIP and REFUSED in result.output
        if refused or (want == REFUSED and result and not result.code):
            yield compare("sync", fs, REFUSED if refused else "mounted", want, row["why"])
            continue
        if not result or result.code:
            yield missing(outcome, "sync", name)
            continue
        for wrote, found in fs_rounds(result):
            if wrote["asked"] == "auto":
                yield compare("sync", f"{fs}: strategy", wrote["strategy"], want, row["why"])
            if wrote["asked"] != "none":
                got = f"{found['missing']} of {found['synced']} pages missing"
                none = f"0 of {found['synced']} pages missing"
                yield compare("sync", f"{fs}: {wrote['asked']} is on the disk", got, none, "")


def flush_shape(rows, pages):
    """How the flushes of one method grow: "a call", "a range", or what else was seen."""
    if not rows or "error" in rows[0]:
        return "refused"
    most = max(rows, key=lambda r: r["batch"])
    # Not all are exact: a flush falls away now and then when the other thread is in the kernel.
    count = most["remote"] or most["flushes"] // 2
    if count >= pages // 2:
        return "a range"
    if count <= 2 * pages // most["batch"]:
        return "a call"
    return f"{count} for {pages} pages in batches of {most['batch']}"


def check_flushes(outcome, expect, version):
    seen = parsed(outcome, "tlbflush")
    if not seen:
        yield missing(outcome, "flushes", "tlbflush")
        return
    for row in expect["flushes"]:
        rows = [r for r in seen["rows"] if r["method"] == row["name"]]
        got = flush_shape(rows, seen["pages"])
        yield compare("flushes", row["name"], got, expectation(row, version), row["why"])


def check_tests(outcome, tests):
    for t in tests:
        result = outcome.results.get(t["name"])
        if result and result.code == 0:
            yield Check("test", t["name"], "passed")
        else:
            yield missing(outcome, "test", t["name"])


def modules_of(kern, root, file_systems):
    """Adds what the file systems need. Those the kernel does not have are told by fs.sh."""
    names = ["loop?"]
    for fs in file_systems:
        names += guest.FS_MODULES.get(fs.split("-")[0], [])
    root.add_modules(kern, names)


def run_kernel(kern, programs, *, keep=None):
    """Boot one kernel with all programs, and judge what comes out."""
    file_systems = FILE_SYSTEMS if programs.machine.native else LARGE_PAGE_FILE_SYSTEMS
    if programs.short:
        file_systems = ["ext4", "tmpfs"]
    root = programs.root.copy()
    modules_of(kern, root, file_systems)
    limit = 900 if programs.short else 4 * 3600  # emulated, and out of the way of all else: hours
    # 5.10 and 6.1 do not come up with a clock that goes by instructions.
    counted = guest.version_key(kern.version) >= (6, 12)
    outcome = guest.run(kern, root, programs.tasks(file_systems), seconds=limit, memory=2048, keep=keep, counted=counted)
    return judge(outcome, kern.version, programs, file_systems)


def check_page_size(outcome, machine):
    probe = parsed(outcome, "probe-root")
    if probe:  # if not, that is told with the routes
        yield compare("guest", "bytes in a page", str(probe["page_size"]), str(machine.page), "asked, not assumed")


def judge(outcome, version, programs, file_systems):
    """What came out of a guest, compared with what should have. A dictionary for the report."""
    expect = json.loads((HERE / "expect.json").read_text(encoding="utf-8"))
    checks = [
        *check_page_size(outcome, programs.machine),
        *check_answers(outcome, expect, version),
        *check_routes(outcome, expect, version),
        *check_file_systems(outcome, expect, version, file_systems),
        *check_flushes(outcome, expect, version),
        *check_tests(outcome, programs.tests),
    ]
    disk = outcome.results.get("disk")
    if not disk or disk.code:
        checks.append(missing(outcome, "test", "disk"))
    if outcome.version != version:
        checks.append(Check("guest", "uname -r", "failed", outcome.version, version, outcome.error))
    rounds = {}
    for fs in file_systems:
        result = outcome.results.get(f"fs-{fs}")
        rounds[fs] = [{**w, **f} for w, f in fs_rounds(result)] if result else []
    return {
        "version": version,
        "accel": outcome.accel,
        "seconds": outcome.seconds,
        "error": outcome.error,
        "died_booting": bool(outcome.died_booting),
        "answers": {who: (parsed(outcome, f"features-{who}") or {}).get("answers", {}) for who in ("root", "user")},
        "probe": {who: parsed(outcome, f"probe-{who}") for who in ("root", "user")},
        "tlb": parsed(outcome, "tlbflush"),
        "sync": rounds,
        "left_out": programs.left_out,
        "task_seconds": {n: r.seconds for n, r in outcome.results.items()},
        "checks": [dataclasses.asdict(c) for c in checks],
        "output": {n: r.output for n, r in outcome.results.items() if r.code not in (0, SKIP)},
    }
