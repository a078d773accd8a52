# SPDX-License-Identifier: BSD-2-Clause
"""A root file system in memory for a guest: programs with their libraries, kernel modules, an init."""

import gzip
import io
import lzma
import os
import pathlib
import re
import stat
import subprocess

from machines import NATIVE
from packages import Unavailable, need


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
    "fuse": ["fuse"],
}
VIRTIO_DISK = ["virtio_pci", "virtio_blk"]


# --- the initramfs --------------------------------------------------------------------------------

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /tmp /run /mnt /scratch
mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /scratch # not /tmp: programs may have come from there
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
chmod 1777 /tmp /dev/shm /scratch
ip link set lo up 2>/dev/null
stty -F /dev/RESULTS raw -echo
exec 3>/dev/RESULTS
echo "@boot $(uname -r)" >&3
task() { # NAME SECONDS UID SCRIPT
	echo "@start $1" >&3
	begun=$(date +%s)
	if [ "$3" = 0 ]; then
		timeout -s KILL "$2" sh "$4" >/run/out 2>&1 </dev/null
	else
		timeout -s KILL "$2" su -s /bin/sh user -c "exec sh $4" >/run/out 2>&1 </dev/null
	fi
	code=$?
	size=$(($(wc -c </run/out)))
	[ $size -le 1048576 ] || size=1048576
	echo "@result $1 $code $size $(($(date +%s) - begun))" >&3
	head -c $size /run/out >&3
	echo >&3
}
. /pagewise-tasks
echo "@done" >&3
# Let the port drain: what is in its queue is lost at a reboot.
stty -F /dev/RESULTS 2>/dev/null >/dev/null
sync
exec 3>&-
reboot -f
"""


class Initramfs:
    """A root file system in memory: a table of path -> (mode, contents), written as a newc archive.

    For another machine than this one: its busybox, and the folders that its libraries are in."""

    def __init__(self, machine=NATIVE, busybox=None, libraries=()):
        self.libraries = libraries
        self.entries = {}
        self.modules = []  # names, in the order of loading
        for d in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "usr/lib", "usr/lib64", "mnt"):
            self.entries[d] = (stat.S_IFDIR | 0o755, b"")
        for d in ("lib", "lib64"):
            self.entries[d] = (stat.S_IFLNK | 0o777, f"usr/{d}".encode())
        self.add_file(busybox or need("busybox", "busybox-static"), "/bin/busybox")
        self.add_text("/etc/passwd", "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")
        self.add_text("/etc/group", "root:x:0:\nuser:x:1000:\n")
        self.add_text("/init", INIT.replace("RESULTS", machine.results), 0o755)

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

    def add_link(self, dest, target):
        """A symbolic link."""
        self._put(dest, stat.S_IFLNK | 0o777, str(target).encode())

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
        must be added by hand. Libraries keep their paths, but for those of another machine."""
        src = os.path.abspath(src)
        self.add_file(src, dest)
        if self.libraries:
            self._add_needed(src)
            return
        r = subprocess.run([need("ldd", "libc-bin"), src], capture_output=True, text=True, check=False)
        for line in r.stdout.splitlines():
            m = re.match(r"\s*(?:(\S+) => )?(/\S+|not found)", line)
            if m and m[2] == "not found":
                raise Unavailable(f"{src} needs {m[1]}, which is not installed")
            if m:
                self.add_file(m[2])

    def _add_needed(self, src):
        """What another machine's program or library asks for by name, in /usr/lib. What is not in the
        folders has a path of its own, beside the program that needs it."""
        r = subprocess.run([need("readelf", "binutils"), "-dl", src], capture_output=True, text=True, check=True)
        names = re.findall(r"\(NEEDED\).*\[(.*)\]", r.stdout)
        names += map(os.path.basename, re.findall(r"program interpreter: (.*)\]", r.stdout))
        for name in names:
            path = next((f"{d}/{name}" for d in self.libraries if os.path.exists(f"{d}/{name}")), None)
            if path and f"usr/lib/{name}" not in self.entries:
                self.add_program(path, f"/usr/lib/{name}")

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
        other.libraries = self.libraries
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
