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
import ctypes
import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

# A caller imports this module alone: what it needs of the others is named here.
from initramfs import FS_MODULES, VIRTIO_DISK, Initramfs, Modules  # noqa: F401
from machines import NATIVE, machine_of  # noqa: F401
from packages import Kernel, Unavailable, cache_dir, kernel, need, version_key  # noqa: F401


# --- running --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Task:
    """A program to run in the guest: argv as a list, or shell text. seconds: then it is killed. uid:
    0 or 1000. Tasks run one after another, in a fresh shell each, in /scratch, a tmpfs."""

    name: str
    command: object
    seconds: int = 60
    uid: int = 0
    env: dict = dataclasses.field(default_factory=dict)

    def script(self):
        text = "cd /scratch\nexport HOME=/root LC_ALL=C TMPDIR=/scratch\n"
        text += "".join(f"export {k}={shlex.quote(str(v))}\n" for k, v in self.env.items())
        if isinstance(self.command, str):
            return text + self.command + "\n"
        return text + "exec " + shlex.join(str(x) for x in self.command) + "\n"


@dataclasses.dataclass
class Result:
    code: int  # of exit; 137: killed at its time limit, or by the kernel
    output: str  # standard output and error
    seconds: int = 0


@dataclasses.dataclass
class Outcome:
    version: str  # uname -r in the guest, "" if it did not come up
    accel: str  # "kvm" or "tcg"
    seconds: float
    results: dict  # name -> Result, for tasks that ended
    error: str  # "" if the guest ran to its end
    console: str  # the first serial port: what the kernel printed
    died_booting: str = ""  # console of a try before this one, that died before its first task


def qemu(machine=NATIVE):
    return need(machine.qemu, machine.package)


def kvm_note():
    """Where it is remembered, until the next boot of this machine, that KVM does not work."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return cache_dir() / f"no-kvm-{boot}"


def kvm_usable(machine=NATIVE):
    return machine.native and os.access("/dev/kvm", os.R_OK | os.W_OK) and not kvm_note().exists()


# Two nanoseconds of the guest's clock for each of its instructions, none for waiting.
COUNTED = ["-accel", "tcg", "-icount", "shift=1,sleep=off"]


def qemu_command(accel, kern, initrd, logs, *, memory, cpus, append, extra, counted):
    machine = kern.machine
    cpu = "host" if accel == "kvm" else machine.cpu
    emulated = COUNTED if counted else ["-accel", "tcg,thread=multi"]
    return [
        qemu(machine), *machine.board, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        *(["-accel", "kvm"] if accel == "kvm" else emulated), "-cpu", cpu, "-smp", str(cpus), "-m", str(memory),
        *machine.port_arguments(logs), "-kernel", str(kern.image), "-initrd", str(initrd),
        "-append", f"console={machine.console} panic=-1 quiet loglevel=4 mitigations=off {append}".rstrip(),
        *extra,
    ]  # fmt: skip


PR_SET_PDEATHSIG = 1


def die_with_parent():
    """In the child, before exec: an emulator must not outlive a caller that was killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


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
            results[words[1]] = Result(int(words[2]), text, int(words[4]))
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
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, preexec_fn=die_with_parent)
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


def run(kern, root, tasks, *, seconds=600, memory=1024, cpus=2, append="", qemu_args=(), keep=None, counted=False):
    """Boot kern with the files of root (an Initramfs, not changed) and run tasks in it.

    KVM is tried first; where the guest does not come up with it, the same is done by emulation. A
    guest that hangs is ended after `seconds`, counted from its start. keep: a folder in which the
    logs stay. counted: an emulated guest's clock goes by the instructions it runs, and skips the time in
    which it waits. On a busy machine it is late, but no time-out in it passes for that, and what has
    two CPUs wait for each other is quick; not for a guest that waits for a disk, whose time is real.
    Raises Unavailable only for what the machine lacks; what goes wrong in the guest is in
    Outcome.error.
    """
    qemu(kern.machine)
    root = root.copy()
    lines = [f"insmod /modules/{m}.ko || echo 'cannot load {m}' >/dev/console" for m in root.modules]
    for n, t in enumerate(tasks):
        root.add_text(f"/tasks/{n}", t.script())
        lines.append(f"task {shlex.quote(t.name)} {t.seconds} {t.uid} /tasks/{n}")
    root.add_text("/pagewise-tasks", "\n".join(lines) + "\n")
    start, died = time.monotonic(), ""
    with tempfile.TemporaryDirectory(prefix="pagewise-guest-") as tmp:
        tmp = pathlib.Path(tmp)
        try:
            root.write(tmp / "initrd")
        except OSError as e:
            raise Unavailable(f"cannot write the guest's root file system in {tmp}: {e.strerror}") from e
        for accel in (["kvm"] if kvm_usable(kern.machine) else []) + ["tcg"]:
            logs = pathlib.Path(keep) if keep else tmp / accel
            logs.mkdir(parents=True, exist_ok=True)
            command = qemu_command(
                accel, kern, tmp / "initrd", logs, memory=memory, cpus=cpus, append=append, extra=qemu_args,
                counted=counted,
            )  # fmt: skip
            boot = 20 if accel == "kvm" else min(seconds, max(180, seconds // 3))
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
