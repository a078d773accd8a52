# SPDX-License-Identifier: BSD-2-Clause
"""A strict disk: an NBD server whose write cache is volatile and whose writes complete late and out
of order. A flush covers the writes that had completed when it was submitted, and no others.

    nbd.py SOCKET IMAGE LOG SEED

The log is in the format of dm-log-writes, as qemu's blklogwrites makes it; bytes 32 and 40 of each
entry, which that leaves zero, hold the moments when the write was submitted and when it completed:
numbers of one count. It ends when it is told to by SIGTERM.
"""

import asyncio
import os
import random
import signal
import struct
import sys

LOG_MAGIC = 0x6A736677736872
SECTOR = 512

# How long a write takes, in milliseconds: many are overtaken by others.
QUICK = (0.1, 3.0)
SLOW = 20.0
SLOW_SHARE = 0.4
FLUSH = 0.5

# Protocol: https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md
HANDSHAKE = b"NBDMAGICIHAVEOPT"
OPTION_REPLY = 0x3E889045565A9
OPT_ABORT, OPT_INFO, OPT_GO = 2, 6, 7
REP_ACK, REP_INFO, REP_UNSUPPORTED = 1, 3, 0x80000001
INFO_EXPORT, INFO_BLOCK_SIZE = 0, 3
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
CMD_READ, CMD_WRITE, CMD_DISCONNECT, CMD_FLUSH = 0, 1, 2, 3
CMD_FLAG_FUA = 1
SIMPLE_REPLY = 0x67446698
FLAG_FLUSH, FLAG_FUA = 1, 2  # of log entries


class Disk:
    def __init__(self, image, log, seed):
        self.fd = os.open(image, os.O_RDWR)
        self.size = os.fstat(self.fd).st_size
        self.log = open(log, "wb", buffering=1 << 20)
        self.log.write(struct.pack("<QQQI", LOG_MAGIC, 1, 0, SECTOR).ljust(SECTOR, b"\0"))
        self.rng = random.Random(seed)
        self.moment = 0

    def tick(self):
        self.moment += 1
        return self.moment

    def record(self, offset, data, flags, submitted, completed):
        head = (offset // SECTOR, len(data) // SECTOR, flags, 0, submitted, completed)
        self.log.write(struct.pack("<QQQQQQ", *head).ljust(SECTOR, b"\0") + data)

    async def write(self, offset, data, fua):
        submitted = self.tick()
        late = SLOW if self.rng.random() < SLOW_SHARE else self.rng.uniform(*QUICK)
        await asyncio.sleep(late / 1000)
        os.pwrite(self.fd, data, offset)
        self.record(offset, data, FLAG_FUA if fua else 0, submitted, self.tick())

    async def flush(self):
        submitted = self.tick()
        await asyncio.sleep(FLUSH / 1000)
        self.record(0, b"", FLAG_FLUSH, submitted, self.tick())


class Connection:
    def __init__(self, disk, reader, writer):
        self.disk, self.reader, self.writer = disk, reader, writer
        self.tasks = set()  # the loop itself holds tasks only weakly

    def option_reply(self, option, kind, data=b""):
        self.writer.write(struct.pack(">QIII", OPTION_REPLY, option, kind, len(data)) + data)

    async def handshake(self):
        """True: the client goes on to transmission."""
        self.writer.write(HANDSHAKE + struct.pack(">H", 3))  # fixed newstyle, no zeroes
        await self.reader.readexactly(4)
        while True:
            _, option, length = struct.unpack(">QII", await self.reader.readexactly(16))
            await self.reader.readexactly(length)
            if option in (OPT_INFO, OPT_GO):
                flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA
                self.option_reply(option, REP_INFO, struct.pack(">HQH", INFO_EXPORT, self.disk.size, flags))
                sizes = struct.pack(">HIII", INFO_BLOCK_SIZE, SECTOR, 4096, 1 << 25)
                self.option_reply(option, REP_INFO, sizes)
                self.option_reply(option, REP_ACK)
                if option == OPT_GO:
                    return True
            elif option == OPT_ABORT:
                self.option_reply(option, REP_ACK)
                return False
            else:
                self.option_reply(option, REP_UNSUPPORTED)

    def done(self, cookie, data=b""):
        self.writer.write(struct.pack(">IIQ", SIMPLE_REPLY, 0, cookie) + data)

    async def later(self, work, cookie):
        await work
        self.done(cookie)

    def start(self, work, cookie):
        task = asyncio.create_task(self.later(work, cookie))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def serve(self):
        disk = self.disk
        while True:
            head = await self.reader.readexactly(28)
            _, flags, command, cookie, offset, length = struct.unpack(">IHHQQI", head)
            if command == CMD_READ:
                self.done(cookie, os.pread(disk.fd, length, offset))
            elif command == CMD_WRITE:
                data = await self.reader.readexactly(length)
                self.start(disk.write(offset, data, flags & CMD_FLAG_FUA), cookie)
            elif command == CMD_FLUSH:
                self.start(disk.flush(), cookie)
            elif command == CMD_DISCONNECT:
                return


async def main(socket, image, log, seed):
    disk = Disk(image, log, int(seed))

    async def client(reader, writer):
        connection = Connection(disk, reader, writer)
        try:
            if await connection.handshake():
                await connection.serve()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        disk.log.flush()
        writer.close()

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = await asyncio.start_unix_server(client, socket, limit=1 << 26)
    await stop.wait()
    server.close()
    disk.log.close()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: nbd.py SOCKET IMAGE LOG SEED")
    asyncio.run(main(*sys.argv[1:]))
