# SPDX-License-Identifier: BSD-2-Clause
"""Debian's kernel packages: fetched into a cache folder, unpacked, never installed.

apt-get runs with a configuration of its own (own lists, own empty status file) over the mirrors in
the machine's sources. Root is not needed. The cache is $PAGEWISE_CACHE, else ~/.cache/pagewise.
"""

import contextlib
import dataclasses
import fcntl
import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from machines import Machine, machine_of


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
def cache_lock(part=""):
    """One process at a time changes the cache, or a part of it that nothing else is in. Others wait."""
    path = cache_dir() / ("lock" + part)
    try:
        f = open(path, "w", encoding="ascii")
    except OSError as e:
        raise Unavailable(f"cannot write in the cache folder {path.parent}: {e.strerror}") from e
    with f:
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
KERNEL_SUITES = ["bookworm", "trixie", "trixie-backports"]
KERNEL_SECURITY_SUITES = ["bullseye-security", "bookworm-security", "trixie-security"]
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


def os_release():
    with open("/etc/os-release", encoding="utf-8") as f:
        return {k: v.strip().strip('"') for k, v in (line.split("=", 1) for line in f if "=" in line)}


def sources_text(architecture, suites, security_suites):
    """A .sources file over the machine's own mirrors for the suites named."""
    release = os_release()
    archive = security = None
    for s in machine_sources():
        if release.get("VERSION_CODENAME", "") in s["suites"]:
            archive = archive or s
        if any(x.endswith("-security") for x in s["suites"]):
            security = security or s
    if not archive or release.get("ID") != "debian":
        raise Unavailable("the machine's package sources name no Debian archive to fetch packages from")
    stanzas = []
    for source, names in ((archive, suites), (security, security_suites)):
        if source and names:
            signed = f"Signed-By: {source['signed-by']}\n" if source.get("signed-by") else ""
            stanzas.append(
                f"Types: deb\nURIs: {source['uris']}\nSuites: {' '.join(names)}\n"
                f"Components: main\nArchitectures: {architecture}\n{signed}"
            )
    return "\n".join(stanzas)


class Packages:
    """apt-get and apt-cache over lists of our own: the machine's package state is neither read nor
    changed. Proxies, credentials and keyrings of the machine stay in force."""

    def __init__(self, architecture="amd64", suites=KERNEL_SUITES, security_suites=KERNEL_SECURITY_SUITES):
        self.get, self.cache = need("apt-get", "apt"), need("apt-cache", "apt")
        need("dpkg-deb", "dpkg")
        self.sources = architecture, suites, security_suites
        self.root = cache_dir() / ("apt" if architecture == "amd64" else f"apt-{architecture}")
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
            f'APT::Architecture "{architecture}";\n#clear APT::Architectures;\n'
            f'APT::Architectures {{ "{architecture}"; }};\n'
            'Acquire::Languages "none";\nAcquire::Retries "2";\nAPT::Sandbox::User "";\n',
            encoding="utf-8",
        )

    def call(self, program, *args, **kw):
        try:
            return subprocess.run(
                [program, "-c", self.conf, *args],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **kw,
            )
        except subprocess.TimeoutExpired as e:
            raise Unavailable(f"{program} {args[0]} did not end within {e.timeout:.0f} s") from e

    def refresh(self, force=False):
        """Fetch the lists if there are none, or old ones. Old ones do where new ones cannot be had."""
        stamp = self.root / "refreshed"
        text = sources_text(*self.sources)
        current = self.root / "sources" / "pagewise.sources"
        same = current.exists() and current.read_text(encoding="utf-8") == text
        if not force and same and stamp.exists() and time.time() - stamp.stat().st_mtime < LISTS_MAX_AGE:
            return
        current.write_text(text, encoding="utf-8")
        r = self.call(self.get, "update", timeout=600)
        if r.returncode == 0 and not re.search(r"^(E|Err)", r.stderr + r.stdout, re.M):
            stamp.touch()
        elif not self.names():
            lines = [x for x in r.stderr.splitlines() if x[:2] in ("E:", "W:")] or ["no message"]
            raise Unavailable(f"apt-get update fetched no list of packages: {lines[0]}")

    def names(self, prefix="linux-"):
        """The names of the packages in the lists."""
        return set(self.call(self.cache, "pkgnames", prefix).stdout.split())

    def kernels(self, flavour):
        """{version: [package, ...]} of the kernels of a flavour in the lists.

        Up to 6.18 linux-image-V is the kernel; from 6.19 on it is an empty package, linux-binary-V is
        the kernel, and later ones keep their modules in linux-modules-V and lists in linux-base-V."""
        names, kernels = self.names(), {}
        for name in names:
            m = re.fullmatch(rf"linux-(image|binary)-(\d+\.\d+\.\d\S*-{re.escape(flavour)})", name)
            if m and (m[1] == "binary" or f"linux-binary-{m[2]}" not in names):
                more = [f"linux-{part}-{m[2]}" for part in ("modules", "base")]
                kernels[m[2]] = [name, *(p for p in more if p in names)]
        return kernels

    def unpack(self, packages, target, is_whole=lambda tree: True):
        """Download packages and unpack them, as one step, into target, if is_whole(tree)."""
        with tempfile.TemporaryDirectory(dir=self.root, prefix="fetch-") as tmp:
            r = self.call(self.get, "download", *packages, cwd=tmp, timeout=900)
            debs = sorted(glob.glob(f"{tmp}/*.deb"))
            if r.returncode or len(debs) != len(packages):
                lines = [x for x in r.stderr.splitlines() if x.startswith("E:")] or ["no message"]
                raise Unavailable(f"cannot download {' '.join(packages)}: {lines[0]}")
            tree = pathlib.Path(tmp) / "tree"
            for deb in debs:
                command = ["dpkg-deb", "-x", deb, tree]
                r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
                if r.returncode:
                    why = (r.stderr.splitlines() or ["no message"])[0]
                    raise Unavailable(f"cannot unpack {os.path.basename(deb)} in {self.root}: {why}")
            if not is_whole(tree):
                raise Unavailable(f"{' '.join(packages)} do not hold what is expected of them")
            shutil.rmtree(target, ignore_errors=True)
            tree.rename(target)


# --- kernels --------------------------------------------------------------------------------------


def version_key(version):
    return tuple(int(x) for x in re.findall(r"\d+", version.removesuffix("-" + machine_of(version).flavour)))


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
    def machine(self) -> Machine:
        return machine_of(self.version)

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
    """Does "6.12.90+deb13-arm64-16k" answer to "6.12-arm64-16k", "6.12.90-arm64-16k" or its whole
    name? Of amd64's the flavour need not be said. "newest": any."""
    if version == want:
        return True
    flavour = machine_of(want).flavour
    number = want.removesuffix("-" + flavour)
    known = machine_of(version).flavour == flavour
    return known and (number == "newest" or re.match(re.escape(number) + r"(?![0-9])", version) is not None)


def kernel(want="newest"):
    """The newest kernel that answers to want ("6.12", "newest", "7.3-arm64-16k", ...), fetched if it is
    not in the cache. Raises Unavailable."""
    machine = machine_of(want)
    with cache_lock():
        packages = Packages(machine.architecture)
        kept = cache_dir() / "kernels"
        kept.mkdir(exist_ok=True)
        have = {p.name: None for p in kept.iterdir() if image_in(p, p.name)}
        for attempt in (1, 2):
            try:
                packages.refresh(force=attempt == 2)
                known = {**have, **packages.kernels(machine.flavour)}
                failure = None
            except Unavailable as e:
                known, failure = have, e  # offline: what was fetched before will do
            fit = [v for v in known if matches(v, want)]
            if not fit:
                raise failure or Unavailable(f"no kernel {want} is packaged in the suites of this machine's mirror")
            best = max(fit, key=version_key)
            if best in have:
                return Kernel(best, kept / best)
            try:
                packages.unpack(known[best], kept / best, lambda tree: image_in(tree, best))
                return Kernel(best, kept / best)
            except Unavailable:
                if attempt == 2:  # the first time the lists may name a kernel that is gone
                    raise
    raise AssertionError("not reached")
