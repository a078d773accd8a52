# SPDX-License-Identifier: BSD-2-Clause
"""The machines that guests can be: Debian's flavours of kernel, and how qemu starts each.

amd64 is what the build folder's programs run on. The others are for pages that are not of 4096
bytes; pagewise is cross-built for them, and they are asked for by name: 7.3-arm64-16k.
"""

import dataclasses

# The second serial port is for results, where the kernel prints nothing.
TWO_PORTS = ("-serial", "file:{logs}/console", "-serial", "file:{logs}/results")
# This board has one port. (The second one of later versions of qemu is not for kernels.)
PCI_PORT = (
    "-serial", "file:{logs}/console", "-chardev", "file,id=results,path={logs}/results", "-device", "pci-serial,chardev=results",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Machine:
    flavour: str  # how the names of its kernels end
    architecture: str  # Debian's
    page: int  # bytes
    qemu: str
    package: str  # of qemu
    board: tuple
    cpu: str  # emulated: all there is, but for what emulation is slow at
    ports: tuple
    console: str
    results: str
    native: bool = False

    def port_arguments(self, logs):
        return [p.format(logs=logs) for p in self.ports]


MACHINES = [
    Machine(
        "cloud-amd64", "amd64", 4096, "qemu-system-x86_64", "qemu-system-x86",
        (), "max,erms=off,fsrm=off,la57=off", TWO_PORTS, "ttyS0", "ttyS1", native=True,
    ),
    Machine(
        "arm64-16k", "arm64", 16384, "qemu-system-aarch64", "qemu-system-arm",
        ("-machine", "virt"), "max,pauth-impdef=on", PCI_PORT, "ttyAMA0", "ttyS0",
    ),
]  # fmt: skip
NATIVE = MACHINES[0]


def machine_of(name):
    """The machine of a kernel's name, or of what was asked for: "6.12" is amd64's."""
    return next((m for m in MACHINES if name.endswith("-" + m.flavour)), NATIVE)
