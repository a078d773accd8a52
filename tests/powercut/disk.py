# SPDX-License-Identifier: BSD-2-Clause
"""The guest's disk, the log of what it was told, and what may be left of it after a cut.

One disk, one log: partition 1 is a raw area for the guest's messages (ack.h), partition 2 the file
system, so that messages and writes stand in one order.
"""

import dataclasses
import mmap
import os
import struct
import subprocess

MIB = 1 << 20
ACK_START, FS_START = 1 * MIB, 2 * MIB
SECTOR = 512
LOG_MAGIC = 0x6A736677736872
ACK_MAGIC = 0x6B63614577617077
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8

START, PAGES, TRY, DONE = range(4)  # enum ack_kind


@dataclasses.dataclass(frozen=True)
class FileSystem:
    size: int  # MiB; the smallest that its mkfs takes, or little more
    mkfs: tuple
    guest_options: str  # nothing is to be written in the background: that hides faults
    host_options: str


FILE_SYSTEMS = {
    "ext4": FileSystem(96, ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"), "commit=300", ""),
    "xfs": FileSystem(320, ("mkfs.xfs", "-q", "-K"), "noatime", "nouuid"),
    "btrfs": FileSystem(320, ("mkfs.btrfs", "-q", "-K"), "commit=300,noatime", ""),
}


def make_disk(path, fs):
    """A disk with both partitions, the second one formatted."""
    what = FILE_SYSTEMS[fs]
    part = f"{path}.part"
    with open(part, "wb") as f:
        f.truncate(what.size * MIB)
    subprocess.run([*what.mkfs, part], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    table = bytearray(SECTOR)

    def entry(kind, start, length):  # no cylinders: sectors count from `start`
        return struct.pack("<B3sB3sII", 0, b"\0\2\0", kind, b"\xff" * 3, start // SECTOR, length // SECTOR)

    table[446:478] = entry(0xDA, ACK_START, FS_START - ACK_START) + entry(0x83, FS_START, what.size * MIB)
    table[510:512] = b"\x55\xaa"
    with open(path, "wb") as f:
        f.truncate(FS_START + what.size * MIB)
        f.write(table)
    with open(path, "r+b") as out, open(part, "rb") as f:
        for start, length in data_extents(f):
            out.seek(FS_START + start)
            out.write(os.pread(f.fileno(), length, start))
    os.unlink(part)


def data_extents(f):
    """(start, length) of what is not a hole."""
    end, at = os.fstat(f.fileno()).st_size, 0
    while at < end:
        try:
            start = os.lseek(f.fileno(), at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        at = os.lseek(f.fileno(), start, os.SEEK_HOLE)
        while start < at:
            length = min(at - start, 8 * MIB)
            yield start, length
            start += length


@dataclasses.dataclass
class Entry:
    submitted: int
    completed: int
    flags: int
    offset: int
    length: int
    at: int  # where its data are in the log


@dataclasses.dataclass
class Ack:
    moment: int  # when it was submitted: what it says was true before
    task: int
    kind: int
    value: int
    digest: str
    pages: tuple


class Log:
    """A log as blklogwrites or nbd.py wrote it. Entries are read to the end of the file: the count in
    the first sector lags behind."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        if struct.unpack_from("<Q", self.data)[0] != LOG_MAGIC:
            raise ValueError(f"{path} is not a log of writes")
        self.entries, self.strict = [], False
        at = SECTOR
        while at + SECTOR <= len(self.data):
            sector, count, flags, _, submitted, completed = struct.unpack_from("<6Q", self.data, at)
            if not (sector or count or flags):
                break
            if flags & ~(FLUSH | FUA | DISCARD | MARK) or count > 1 << 22:
                raise ValueError(f"{path}: no entry at {at}")
            if completed:
                self.strict = True
            else:  # blklogwrites knows only the order of completion
                submitted = completed = 10 * (len(self.entries) + 1)
            self.entries.append(Entry(submitted, completed, flags, sector * SECTOR, count * SECTOR, at + SECTOR))
            at += SECTOR + (0 if flags & DISCARD else count * SECTOR)
        self.acks = sorted(filter(None, map(self.ack, self.entries)), key=lambda a: a.moment)
        self.flushes = sorted((e.submitted, e.completed) for e in self.entries if e.flags & FLUSH)

    def is_write(self, e):
        return e.length and not e.flags & (FLUSH | DISCARD | MARK)

    def ack(self, e):
        if not self.is_write(e) or not ACK_START <= e.offset < FS_START:
            return None
        magic, task, kind, value, low, high, n = struct.unpack_from("<7Q", self.data, e.at)
        if magic != ACK_MAGIC:
            return None
        pages = struct.unpack_from(f"<{n}Q", self.data, e.at + 56)
        return Ack(e.submitted, task, kind, value, f"{high:016x}{low:016x}", pages)


class Cutter:
    """Images at ever later moments. Kept is one image with all that is durable; an image of a cut is a
    copy of it with some of the rest.

    Durable is a write that had completed when a flush was submitted that has completed itself, or one
    with FUA that has completed. All else that was submitted may be there or not: whole, or sector by
    sector."""

    def __init__(self, log, base, work, rng):
        self.log, self.rng = log, rng
        self.durable, self.image = f"{work}/durable", f"{work}/image"
        copy(base, self.durable)
        self.fd = os.open(self.durable, os.O_RDWR)
        self.todo = sorted(filter(log.is_write, log.entries), key=lambda e: e.completed)
        self.loose = []  # submitted, not durable

    def close(self):
        os.close(self.fd)

    def advance(self, moment):
        """To the state just before what happens at moment."""
        flushed = max((s for s, c in self.log.flushes if c < moment), default=0)
        rest, self.loose = [], []
        for e in self.todo:
            if e.completed < moment and (e.completed < flushed or e.flags & FUA):
                os.pwrite(self.fd, self.log.data[e.at : e.at + e.length], e.offset)
                continue
            rest.append(e)
            if e.submitted < moment:
                self.loose.append(e)
        self.todo = rest

    def make(self, how):
        """An image, in self.image. how: "nothing", "whole" or "sectors" of what is loose. A new file: whatever
        still has the one before, it is another."""
        if os.path.exists(self.image):
            os.unlink(self.image)
        copy(self.durable, self.image)
        with open(self.image, "r+b", buffering=0) as f:
            for e in self.loose:
                if how == "whole" and self.rng.random() < 0.5:
                    os.pwrite(f.fileno(), self.log.data[e.at : e.at + e.length], e.offset)
                for k in range(0, e.length if how == "sectors" else 0, SECTOR):
                    if self.rng.random() < 0.5:
                        os.pwrite(f.fileno(), self.log.data[e.at + k : e.at + k + SECTOR], e.offset + k)


def copy(src, dst):
    """A sparse copy; quick in memory."""
    subprocess.run(["cp", "--sparse=always", src, dst], check=True)
