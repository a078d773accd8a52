# SPDX-License-Identifier: BSD-2-Clause
"""Build pagewise for another architecture with Debian's cross compilers.

Libraries of the other architecture (cmocka and so on) are fetched into the cache folder, as
tests/kernels fetches kernels, and not installed. Without alloc and store (whole=False) a C compiler
is enough, and the build is quick.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "kernels"))

import packages  # noqa: E402


class BuildError(Exception):
    """pagewise does not build; the text is what the compiler or meson said."""


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str  # Debian's
    triplet: str
    qemu: str
    family: str  # meson's
    cpu: str
    endian: str = "little"
    pages: tuple = ()  # sizes that kernels of it have beside 4 KiB, which the emulator can pretend


ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("arm64", "aarch64-linux-gnu", "qemu-aarch64", "aarch64", "armv8-a", pages=(16384, 65536)),
        Architecture("armhf", "arm-linux-gnueabihf", "qemu-arm", "arm", "armv7"),
        Architecture("i386", "i686-linux-gnu", "qemu-i386", "x86", "i686"),
        Architecture("ppc64el", "powerpc64le-linux-gnu", "qemu-ppc64le", "ppc64", "power8"),
    )
}

# What the build looks for even without alloc and store, and what it needs for them.
LIBRARIES = [
    "libcmocka0", "libcmocka-dev", "libjson-c5", "libjson-c-dev", "libseccomp2", "libseccomp-dev",
    "liblmdb0", "liblmdb-dev", "libxxhash0", "libxxhash-dev",
]  # fmt: skip
WHOLE_LIBRARIES = [*LIBRARIES, "libjemalloc2", "libjemalloc-dev", "libbsd-dev", "liburcu8", "liburcu-dev"]


def unpacked(arch, names, part=""):
    """The folder with packages of an architecture, of this machine's release, fetched once."""
    codename = packages.os_release().get("VERSION_CODENAME", "")
    target = packages.cache_dir() / "cross" / "-".join(filter(None, (arch.name, codename, part)))
    with packages.cache_lock():
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            fetcher = packages.Packages(arch.name, [codename], [])
            fetcher.refresh()
            fetcher.unpack(names, target)
    return target


def sysroot(arch, whole=False):
    """The folder with the libraries of an architecture."""
    return unpacked(arch, WHOLE_LIBRARIES, "whole") if whole else unpacked(arch, LIBRARIES)


def pkgconfig_files(root, lib, where):
    """Copies of the .pc files of root that say where the libraries are. (A sys_root would be put
    before what is searched for, and not before what the build asks a .pc file for.)"""
    where.mkdir(parents=True, exist_ok=True)
    for pc in (lib / "pkgconfig").glob("*.pc"):
        text = re.sub(r"(^\w+=|-I|-L)/usr\b", rf"\1{root}/usr", pc.read_text(encoding="utf-8"), flags=re.M)
        (where / pc.name).write_text(text, encoding="utf-8")


def cross_file(arch, root, work, whole=False):
    """Writes work/cross.ini, for meson. The emulator's command, which takes the C library from the
    cross packages."""
    lib = root / "usr" / "lib" / arch.triplet
    emulator = [packages.need(arch.qemu, "qemu-user"), "-L", f"/usr/{arch.triplet}", "-E", f"LD_LIBRARY_PATH={lib}"]
    tools = {t: t for t in ("ar", "nm", "objcopy", "strip")} | {"c": "gcc"} | ({"cpp": "g++"} if whole else {})
    paths = {
        key: packages.need(f"{arch.triplet}-{t}", f"{t if t == 'g++' else 'gcc'}-{arch.triplet}")
        for key, t in tools.items()
    }
    pkgconfig_files(root, lib, work / "pkgconfig")
    binaries = "\n".join(f"{key} = '{path}'" for key, path in paths.items())
    flags = ["-isystem", f"{root}/usr/include", "-isystem", f"{root}/usr/include/{arch.triplet}"]
    link_flags = [f"-L{lib}", f"-Wl,-rpath-link,{lib}"]
    text = f"""[binaries]
{binaries}
pkgconfig = '{packages.need("pkg-config", "pkg-config")}'
exe_wrapper = {emulator}

[properties]
pkg_config_libdir = '{work}/pkgconfig'

[built-in options]
c_args = {flags}
c_link_args = {link_flags}
cpp_args = {flags}
cpp_link_args = {link_flags}

[host_machine]
system = 'linux'
cpu_family = '{arch.family}'
cpu = '{arch.cpu}'
endian = '{arch.endian}'
"""
    (work / "cross.ini").write_text(text, encoding="utf-8")
    return emulator


def run(command, **kw):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **kw)


def build(work, whole=False):
    """Configure and build by work/cross.ini. The build folder. Raises BuildError."""
    tree = work / "build"
    command = ["meson", "setup", tree, SOURCE, "--cross-file", work / "cross.ini"]
    if not whole:
        command += ["-Dalloc=disabled", "-Dstore=disabled"]
    for c in (command, ["meson", "compile", "-C", tree]):
        r = run(c)
        if r.returncode:
            lines = [x for x in (r.stdout + r.stderr).splitlines() if "error" in x.lower()][:5]
            raise BuildError("\n".join(lines) or r.stdout[-1000:])
    return tree
