# SPDX-License-Identifier: BSD-2-Clause
"""Boot Debian's own kernels under qemu, run programs in them, and read what they print.

Nothing is installed: kernel packages are fetched by apt-get with a configuration of its own (own
lists, own empty status file) from the mirrors in the machine's sources, and unpacked into a cache
folder ($PAGEWISE_CACHE, else ~/.cache/pagewise). Root is not needed. Python's standard library only.

    import guest

    kernel = guest.kernel("6.12")               # or "newest", "6.1", "6.12.90"
    root = guest.Initramfs()
    root.add_program("build/tests/shim/test-range")     # with the libraries ldd(1) names
    root.add_modules(kernel, ["virtio_blk", "xfs"])     # with the modules they need; built-in ones cost nothing
    outcome = guest.run(kernel, root, [guest.Task("range", ["/abs/path/of/test-range"])])
    outcome.results["range"].code, outcome.results["range"].output

Every file keeps its path in the guest unless told otherwise. What cannot be had (no qemu, no
packages, no mirror) raises Unavailable with one line that says why: a caller skips with it.
"""

import contextlib
import dataclasses
import fcntl
import glob
import gzip
import io
import lzma
import os
import pathlib
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time


class Unavailable(Exception):
    """This machine cannot do it; the text says why, in one line."""


# --- the cache ------------------------------------------------------------------------------------


def cache_dir():
    """The folder for packages and unpacked kernels; made if it is missing."""
    base = os.environ.get("PAGEWISE_CACHE")
    path = pathlib.Path(base) if base else pathlib.Path.home() / ".cache" / "pagewise"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise Unavailable(f"cannot make the cache folder {path}: {e.strerror}") from e
    return path.resolve()


@contextlib.contextmanager
def cache_lock():
    """One process at a time changes the cache. Others wait."""
    with open(cache_dir() / "lock", "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def need(program, package):
    """The path of a program, looked for where root's PATH has it too."""
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
    if not path:
        raise Unavailable(f"{program} is not installed (Debian package {package})")
    return path


# --- packages -------------------------------------------------------------------------------------

# Which suites hold which kernels: 5.10 | 6.1 | 6.12 and later.
ARCHIVE_SUITES = ["bookworm", "trixie", "trixie-backports"]
SECURITY_SUITES = ["bullseye-security", "bookworm-security", "trixie-security"]
LISTS_MAX_AGE = 3 * 86400  # seconds; the archive drops superseded kernels after days


def machine_sources(etc="/etc/apt"):
    """The machine's own package sources: [{"uris", "suites", "signed-by" (perhaps)}]."""
    found = []
    for path in [f"{etc}/sources.list", *sorted(glob.glob(f"{etc}/sources.list.d/*.list"))]:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
            for line in f:
                m = re.match(r"\s*deb\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)", line)
                if m:
                    options = dict(o.split("=", 1) for o in (m[1] or "").split() if "=" in o)
                    found.append({"uris": m[2], "suites": [m[3]], **options})
    for path in sorted(glob.glob(f"{etc}/sources.list.d/*.sources")):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as f:
            found += [s for s in map(parse_stanza, re.split(r"\n\s*\n", f.read())) if s]
    return found


def parse_stanza(text):
    """One stanza of a .sources file, or None if it is no source of binary packages."""
    fields, key = {}, None
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t") and key:  # an inlined key, mostly
            fields[key] += "\n" + line
        elif ":" in line:
            key, value = line.split(":", 1)
            key = key.strip().lower()
            fields[key] = value.strip()
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
        return None
    fields["suites"] = fields.get("suites", "").split()
    return fields


def sources_text():
    """A .sources file over the machine's mirrors for the suites that have kernels."""
    release = dict(
        line.rstrip("\n").split("=", 1) for line in open("/etc/os-release", encoding="utf-8") if "=" in line
    )
    codename = release.get("VERSION_CODENAME", "").strip('"')
    archive = security = None
    for s in machine_sources():
        if any(x == codename for x in s["suites"]):
            archive = archive or s
        if any(x.endswith("-security") for x in s["suites"]):
            security = security or s
    if not archive or release.get("ID", "").strip('"') != "debian":
        raise Unavailable("the machine's package sources name no Debian archive to fetch kernels from")
    stanzas = []
    for source, suites in ((archive, ARCHIVE_SUITES), (security, SECURITY_SUITES)):
        if source:
            signed = f"Signed-By: {source['signed-by']}\n" if source.get("signed-by") else ""
            stanzas.append(
                f"Types: deb\nURIs: {source['uris']}\nSuites: {' '.join(suites)}\n"
                f"Components: main\nArchitectures: amd64\n{signed}"
            )
    return "\n".join(stanzas)


class Packages:
    """apt-get and apt-cache over lists of our own: the machine's package state is neither read nor
    changed. Proxies, credentials and keyrings of the machine stay in force."""

    def __init__(self):
        self.get, self.cache = need("apt-get", "apt"), need("apt-cache", "apt")
        need("dpkg-deb", "dpkg")
        self.root = cache_dir() / "apt"
        for d in ("lists/partial", "archives/partial", "sources"):
            (self.root / d).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        (self.root / "none").touch()
        # #clear: hooks of the machine's configuration would act on the machine's own lists.
        self.conf = self.root / "apt.conf"
        self.conf.write_text(
            "#clear APT::Update;\n#clear DPkg;\n"
            f'Dir::State "{self.root}";\nDir::State::lists "{self.root}/lists";\n'
            f'Dir::State::status "{self.root}/status";\nDir::Cache "{self.root}";\n'
            f'Dir::Cache::archives "{self.root}/archives";\n'
            f'Dir::Etc::sourcelist "{self.root}/none";\nDir::Etc::sourceparts "{self.root}/sources";\n'
            'APT::Architecture "amd64";\n#clear APT::Architectures;\nAPT::Architectures { "amd64"; };\n'
            'Acquire::Languages "none";\nAcquire::Retries "2";\nAPT::Sandbox::User "";\n',
            encoding="utf-8",
        )

    def call(self, program, *args, **kw):
        return subprocess.run(
            [program, "-c", self.conf, *args],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **kw,
        )

    def refresh(self, force=False):
        """Fetch the lists if there are none, or old ones. Old ones do where new ones cannot be had."""
        stamp = self.root / "refreshed"
        text = sources_text()
        current = self.root / "sources" / "pagewise.sources"
        same = current.exists() and current.read_text(encoding="utf-8") == text
        if not force and same and stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_MAX_AGE:
            return
        current.write_text(text, encoding="utf-8")
        r = self.call(self.get, "update", timeout=600)
        if r.returncode == 0 and not re.search(r"^(E|Err)", r.stderr + r.stdout, re.M):
            stamp.touch()
        elif not self.kernels():
            lines = [x for x in r.stderr.splitlines() if x[:2] in ("E:", "W:")] or ["no message"]
            raise Unavailable(f"apt-get update fetched no list of kernels: {lines[0]}")

    def kernels(self):
        """{version: [package, ...]} of the small ("cloud") amd64 kernels in the lists.

        Up to 6.18 linux-image-V is the kernel; from 6.19 on it is an empty package, linux-binary-V is
        the kernel, and later ones keep their modules in linux-modules-V and lists in linux-base-V."""
        names = set(self.call(self.cache, "pkgnames", "linux-").stdout.split())
        kernels = {}
        for name in names:
            m = re.fullmatch(r"linux-(image|binary)-(\d+\.\d+\.\d\S*-cloud-amd64)", name)
            if m and (m[1] == "binary" or f"linux-binary-{m[2]}" not in names):
                more = [f"linux-{part}-{m[2]}" for part in ("modules", "base")]
                kernels[m[2]] = [name, *(p for p in more if p in names)]
        return kernels

    def unpack(self, packages, target):
        """Download packages and unpack them, as one step, into target."""
        with tempfile.TemporaryDirectory(dir=self.root, prefix="fetch-") as tmp:
            r = self.call(self.get, "download", *packages, cwd=tmp, timeout=900)
            debs = sorted(glob.glob(f"{tmp}/*.deb"))
            if r.returncode or len(debs) != len(packages):
                lines = [x for x in r.stderr.splitlines() if x.startswith("E:")] or ["no message"]
                raise Unavailable(f"cannot download {' '.join(packages)}: {lines[0]}")
            tree = pathlib.Path(tmp) / "tree"
            for deb in debs:
                subprocess.run(["dpkg-deb", "-x", deb, tree], check=True, stdin=subprocess.DEVNULL)
            if not image_in(tree, target.name):
                raise Unavailable(f"{' '.join(packages)} hold no kernel image where one is expected")
            shutil.rmtree(target, ignore_errors=True)
            tree.rename(target)


# --- kernels --------------------------------------------------------------------------------------


def version_key(version):
    return tuple(int(x) for x in re.findall(r"\d+", version.split("-cloud", maxsplit=1)[0]))


def image_in(tree, version):
    """The bootable image (in /boot, later beside the modules), or None if the tree is not whole."""
    candidates = [tree / "boot" / f"vmlinuz-{version}", tree / "usr/lib/modules" / version / "vmlinuz"]
    return next((p for p in candidates if p.is_file()), None)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: version as uname -r prints it, and where its files are."""

    version: str
    tree: pathlib.Path

    @property
    def short(self):
        """"6.12": what decides which features it has."""
        return ".".join(str(x) for x in version_key(self.version)[:2])

    @property
    def image(self):
        return image_in(self.tree, self.version)

    @property
    def modules_dir(self):
        for sub in ("usr/lib/modules", "lib/modules"):
            if (self.tree / sub / self.version).is_dir():
                return self.tree / sub / self.version
        raise Unavailable(f"the package of kernel {self.version} holds no modules")


def matches(version, want):
    """Does "6.12.90+deb13-cloud-amd64" answer to "6.12", "6.12.90" or its whole name?"""
    return version == want or re.match(re.escape(want) + r"(?![0-9])", version) is not None


def kernel(want="newest"):
    """The newest kernel that answers to want ("6.12", "newest", ...), fetched if it is not in the
    cache. Raises Unavailable."""
    with cache_lock():
        packages = Packages()
        kept = cache_dir() / "kernels"
        kept.mkdir(exist_ok=True)
        have = {p.name: None for p in kept.iterdir() if image_in(p, p.name)}
        for attempt in (1, 2):
            try:
                packages.refresh(force=attempt == 2)
                known = {**have, **packages.kernels()}
                failure = None
            except Unavailable as e:
                known, failure = have, e  # offline: what was fetched before will do
            fit = [v for v in known if want == "newest" or matches(v, want)]
            if not fit:
                raise failure or Unavailable(f"no kernel {want} is packaged in the suites of this machine's mirror")
            best = max(fit, key=version_key)
            if best in have:
                return Kernel(best, kept / best)
            try:
                packages.unpack(known[best], kept / best)
                return Kernel(best, kept / best)
            except Unavailable:
                if attempt == 2:  # the first time the lists may name a kernel that is gone
                    raise
    raise AssertionError("not reached")


# --- modules --------------------------------------------------------------------------------------


def module_bytes(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run([need("zstd", "zstd"), "-dc", path], check=True, capture_output=True).stdout
    return data


class Modules:
    """The modules of a kernel: which are built in, and in what order the others must be loaded."""

    def __init__(self, kern):
        base = kern.modules_dir
        self.kernel = kern
        builtin = base / "modules.builtin"
        self.builtin = {self.name(x) for x in builtin.read_text().split()} if builtin.exists() else set()
        self.files = {self.name(p): p for p in (base / "kernel").rglob("*.ko*")}

    @staticmethod
    def name(path):
        return re.sub(r"\.ko(\.\w+)?$", "", os.path.basename(path)).replace("-", "_")

    @staticmethod
    def info(data, key):
        """Values of a key in .modinfo: zero-terminated "key=value" strings."""
        return [x.decode() for x in re.findall(rb"(?<=\0)" + key.encode() + rb"=([^\0]*)\0", b"\0" + data)]

    def order(self, names):
        """[(name, bytes of the .ko)]: names and all they depend on, dependencies first.

        A built-in one needs nothing. A name that this kernel does not have is an error, but for one
        that ends in "?"."""
        done, out = set(), []

        def visit(name, optional):
            name = name.replace("-", "_")
            if name in done or name in self.builtin:
                return
            done.add(name)
            if name not in self.files:
                if optional:
                    return
                raise Unavailable(f"kernel {self.kernel.version} has no module {name}")
            data = module_bytes(self.files[name])
            for d in self.info(data, "depends"):
                for dep in filter(None, d.split(",")):
                    visit(dep, False)
            out.append((name, data))

        for n in names:
            visit(n.rstrip("?"), n.endswith("?"))
        return out


# What mounting needs beside the file system's own dependencies. Names differ over the versions.
FS_MODULES = {
    "ext4": ["ext4", "crc32c_generic?", "crc32c_cryptoapi?"],
    "xfs": ["xfs", "crc32c_generic?", "crc32c_cryptoapi?"],
    "btrfs": ["btrfs", "crc32c_generic?", "crc32c_cryptoapi?", "libblake2b?"],
    "overlay": ["overlay"],
}
VIRTIO_DISK = ["virtio_pci", "virtio_blk"]


# --- the initramfs --------------------------------------------------------------------------------

INIT = """#!/bin/busybox sh
# Results go to the second serial port, where the kernel prints nothing.
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /tmp /run /mnt
mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /run
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
chmod 1777 /tmp /dev/shm
ip link set lo up 2>/dev/null
stty -F /dev/ttyS1 raw -echo
exec 3>/dev/ttyS1
echo "@boot $(uname -r)" >&3
task() { # NAME SECONDS UID SCRIPT
	echo "@start $1" >&3
	if [ "$3" = 0 ]; then
		timeout -s KILL "$2" sh "$4" >/run/out 2>&1 </dev/null
	else
		timeout -s KILL "$2" su -s /bin/sh user -c "exec sh $4" >/run/out 2>&1 </dev/null
	fi
	code=$?
	size=$(($(wc -c </run/out)))
	[ $size -le 1048576 ] || size=1048576
	echo "@result $1 $code $size" >&3
	head -c $size /run/out >&3
	echo >&3
}
. /pagewise-tasks
echo "@done" >&3
# Let the port drain: what is in its queue is lost at a reboot.
stty -F /dev/ttyS1 2>/dev/null >/dev/null
sync
exec 3>&-
reboot -f
"""


class Initramfs:
    """A root file system in memory: a table of path -> (mode, contents), written as a newc archive."""

    def __init__(self):
        self.entries = {}
        self.modules = []  # names, in the order of loading
        for d in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/lib", "usr/lib64", "mnt"):
            self.entries[d] = (stat.S_IFDIR | 0o755, b"")
        for d in ("lib", "lib64"):
            self.entries[d] = (stat.S_IFLNK | 0o777, f"usr/{d}".encode())
        self.add_file(need("busybox", "busybox-static"), "/bin/busybox")
        self.add_text("/etc/passwd", "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")
        self.add_text("/etc/group", "root:x:0:\nuser:x:1000:\n")
        self.add_text("/init", INIT, 0o755)

    def _put(self, dest, mode, data):
        dest = os.path.normpath(str(dest)).lstrip("/")
        dest = re.sub(r"^(lib|lib64)/", r"usr/\1/", dest)
        parent = os.path.dirname(dest)
        while parent and parent not in self.entries:
            self.entries[parent] = (stat.S_IFDIR | 0o755, b"")
            parent = os.path.dirname(parent)
        self.entries[dest] = (mode, data)

    def add_text(self, dest, text, mode=0o644):
        self._put(dest, stat.S_IFREG | mode, text.encode())

    def add_file(self, src, dest=None):
        """One file (a symbolic link is followed), at its own path or at dest."""
        src = os.path.abspath(src)
        with open(src, "rb") as f:
            self._put(dest or src, stat.S_IFREG | (os.stat(src).st_mode & 0o777), f.read())

    def add_tree(self, src, dest=None):
        """A folder with all that is in it."""
        src = os.path.abspath(src)
        for folder, _, files in os.walk(src):
            to = os.path.join(dest or src, os.path.relpath(folder, src))
            self._put(to, stat.S_IFDIR | 0o755, b"")
            for name in files:
                self.add_file(os.path.join(folder, name), os.path.join(to, name))

    def add_program(self, src, dest=None):
        """A program or library and the shared libraries that ldd(1) names for it. What it dlopens
        must be added by hand. Libraries keep their paths."""
        src = os.path.abspath(src)
        self.add_file(src, dest)
        r = subprocess.run([need("ldd", "libc-bin"), src], capture_output=True, text=True, check=False)
        for line in r.stdout.splitlines():
            m = re.match(r"\s*(?:(\S+) => )?(/\S+|not found)", line)
            if m and m[2] == "not found":
                raise Unavailable(f"{src} needs {m[1]}, which is not installed")
            if m:
                self.add_file(m[2])

    def add_modules(self, kern, names):
        """Modules to load at boot, before any task, with those they need."""
        for name, data in Modules(kern).order(names):
            if name not in self.modules:
                self.modules.append(name)
                self._put(f"/modules/{name}.ko", stat.S_IFREG | 0o644, data)

    def copy(self):
        """An independent copy: what is common to several kernels is gathered once."""
        other = Initramfs.__new__(Initramfs)
        other.entries, other.modules = dict(self.entries), list(self.modules)
        return other

    def write(self, path):
        """Write the archive (newc, as Documentation/driver-api/early-userspace of Linux has it)."""
        out = io.BytesIO()

        def entry(number, name, mode, data, rdev=(0, 0)):
            encoded = name.encode() + b"\0"
            fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, rdev[0], rdev[1], len(encoded), 0)
            out.write(b"070701" + b"".join(b"%08X" % f for f in fields) + encoded)
            out.write(b"\0" * (-out.tell() % 4) + data)
            out.write(b"\0" * (-out.tell() % 4))

        number = 0
        for number, name in enumerate(sorted(self.entries), 1):
            entry(number, name, *self.entries[name])
        entry(number + 1, "dev/console", stat.S_IFCHR | 0o600, b"", (5, 1))
        entry(0, "TRAILER!!!", 0, b"")
        pathlib.Path(path).write_bytes(out.getvalue())


# --- running --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Task:
    """A program to run in the guest: argv as a list, or shell text. seconds: then it is killed. uid:
    0 or 1000. Tasks run one after another, in a fresh shell each, in /tmp."""

    name: str
    command: object
    seconds: int = 60
    uid: int = 0
    env: dict = dataclasses.field(default_factory=dict)

    def script(self):
        text = "cd /tmp\nexport HOME=/root LC_ALL=C\n"
        text += "".join(f"export {k}={shlex.quote(str(v))}\n" for k, v in self.env.items())
        if isinstance(self.command, str):
            return text + self.command + "\n"
        return text + "exec " + shlex.join(str(x) for x in self.command) + "\n"


@dataclasses.dataclass
class Result:
    code: int  # of exit; 137: killed at its time limit, or by the kernel
    output: str  # standard output and error


@dataclasses.dataclass
class Outcome:
    version: str  # uname -r in the guest, "" if it did not come up
    accel: str  # "kvm" or "tcg"
    seconds: float
    results: dict  # name -> Result, for tasks that ended
    error: str  # "" if the guest ran to its end
    console: str  # the first serial port: what the kernel printed
    died_booting: str = ""  # console of a try before this one, that died before its first task


def qemu():
    return need("qemu-system-x86_64", "qemu-system-x86")


def kvm_note():
    """Where it is remembered, until the next boot of this machine, that KVM does not work."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return cache_dir() / f"no-kvm-{boot}"


def kvm_usable():
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and not kvm_note().exists()


def qemu_command(accel, kern, initrd, logs, *, memory, cpus, append, extra):
    cpu = "host" if accel == "kvm" else "max"
    accel = "kvm" if accel == "kvm" else "tcg,thread=multi"
    return [
        qemu(), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", accel, "-cpu", cpu, "-smp", str(cpus), "-m", str(memory),
        "-serial", f"file:{logs}/console", "-serial", f"file:{logs}/results",
        "-kernel", str(kern.image), "-initrd", str(initrd),
        "-append", f"console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off {append}".rstrip(),
        *extra,
    ]  # fmt: skip


def end(process):
    """End a process that we started, by its id."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def parse_results(data):
    """What the guest sent: (version, {name: Result}, task that was running or None, finished?)."""
    version, results, running, done, at = "", {}, None, False, 0
    while (eol := data.find(b"\n", at)) >= 0:
        words = data[at:eol].decode(errors="replace").split()
        at = eol + 1
        if words[:1] == ["@boot"]:
            version = words[1]
        elif words[:1] == ["@start"]:
            running = words[1]
        elif words[:1] == ["@done"]:
            done = True
        elif words[:1] == ["@result"] and len(data) >= at + int(words[3]):
            text = data[at : at + int(words[3])].decode(errors="replace")
            results[words[1]] = Result(int(words[2]), text)
            at += int(words[3])
            running = None
    return version, results, running, done


def read_console(logs):
    path = logs / "console"
    return path.read_text(errors="replace") if path.exists() else ""


def attempt(command, logs, seconds, boot_seconds):
    """Run qemu once. (results as parse_results gives them, what went wrong or "")"""
    for old in ("results", "console"):
        (logs / old).unlink(missing_ok=True)

    def read():
        path = logs / "results"
        return parse_results(path.read_bytes() if path.exists() else b"")

    deadline, boot_deadline = time.monotonic() + seconds, time.monotonic() + boot_seconds
    with open(logs / "qemu", "wb") as messages:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages)
    try:
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            now, state = time.monotonic(), None
            if now > boot_deadline and not (state := read())[0]:
                return state, f"the guest did not come up within {boot_seconds} s"
            if now > deadline:
                state = read()
                return state, f"not finished after {seconds} s" + (f", in {state[2]}" if state[2] else "")
    finally:
        end(process)
    state = read()
    if state[3]:
        return state, ""
    said = (logs / "qemu").read_text(errors="replace").strip().splitlines()
    if said:
        return state, f"qemu: {said[-1]}"
    return state, "the guest stopped" + (f" in {state[2]}" if state[2] else " before its first task")


def run(kern, root, tasks, *, seconds=600, memory=1024, cpus=2, append="", qemu_args=(), keep=None):
    """Boot kern with the files of root (an Initramfs, not changed) and run tasks in it.

    KVM is tried first; where the guest does not come up with it, the same is done by emulation. A
    guest that hangs is ended after `seconds`, counted from its start. keep: a folder in which the
    logs stay. Raises Unavailable only for what the machine lacks; what goes wrong in the guest is in
    Outcome.error.
    """
    qemu()
    root = root.copy()
    lines = [f"insmod /modules/{m}.ko || echo 'cannot load {m}' >/dev/console" for m in root.modules]
    for n, t in enumerate(tasks):
        root.add_text(f"/tasks/{n}", t.script())
        lines.append(f"task {shlex.quote(t.name)} {t.seconds} {t.uid} /tasks/{n}")
    root.add_text("/pagewise-tasks", "\n".join(lines) + "\n")
    start, died = time.monotonic(), ""
    with tempfile.TemporaryDirectory(prefix="pagewise-guest-") as tmp:
        tmp = pathlib.Path(tmp)
        root.write(tmp / "initrd")
        for accel in (["kvm"] if kvm_usable() else []) + ["tcg"]:
            logs = pathlib.Path(keep) if keep else tmp / accel
            logs.mkdir(parents=True, exist_ok=True)
            command = qemu_command(
                accel, kern, tmp / "initrd", logs, memory=memory, cpus=cpus, append=append, extra=qemu_args
            )
            boot = min(seconds, 20 if accel == "kvm" else 180)
            (version, results, running, _), error = attempt(command, logs, seconds, boot)
            if accel == "kvm" and not version:
                kvm_note().touch()
                continue
            console = read_console(logs)
            # Emulated kernels panic now and then while they start. No program of ours has run then,
            # so once more is fair; that it happened is told.
            if error and not results and not running:
                died = console
                (version, results, _, _), error = attempt(command, logs, seconds, boot)
                console = read_console(logs)
            break
    return Outcome(version, accel, round(time.monotonic() - start, 1), results, error, console, died)


def main():
    """guest.py VERSION...: fetch the kernels, boot each, print what it calls itself."""
    for want in sys.argv[1:] or ["newest"]:
        try:
            kern = kernel(want)
            outcome = run(kern, Initramfs(), [Task("uname", ["uname", "-srm"])])
        except Unavailable as e:
            sys.exit(f"guest.py: {e}")
        if outcome.error:
            sys.exit(f"guest.py: {kern.version}: {outcome.error}\n{outcome.console[-2000:]}")
        print(f"{outcome.results['uname'].output.strip()} ({outcome.accel}, {outcome.seconds} s)")


if __name__ == "__main__":
    main()
