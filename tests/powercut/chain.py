# SPDX-License-Identifier: BSD-2-Clause
"""The judge of a chain (examples/chain) whose import a power cut has ended.

What is left must verify as a chain, with no block less than was acknowledged, and end where a transaction
ended; the rest of the file must go in, in the same durability; and then every row of every table must be as
after an import that nobody cut. Rows are read by Debian's static mdb_dump.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile

import disk

BATCH = 20  # blocks a transaction
LIVE = 100  # at the end: a durable commit each, as a node does that has caught up


class Chain:
    """The file that is imported, and what comes of it."""

    def __init__(self, build, file):
        self.program, self.file = f"{build}/examples/chain/chain", file
        self.loader = f"{build}/tests/powercut/chain-load"
        self.blocks = self.rows = None

    def live(self, mode):
        """None in the control: a durable commit would make good all that was not."""
        return 0 if mode == "none" else LIVE

    def run(self, *args):
        return subprocess.run([self.program, *args, "--json"], capture_output=True, text=True, check=False)

    def prepare(self):
        """Import once, uncut."""
        with tempfile.TemporaryDirectory(prefix="powercut-") as work:
            r = self.run("import", self.file, f"{work}/db", "--durability=nosync")
            if r.returncode:
                raise RuntimeError(f"{self.file}: {r.stderr.strip()}")
            self.blocks = json.loads(r.stdout)["height"]
            self.rows = rows(f"{work}/db")

    def left(self, path):
        """How many blocks there are, none if there is no chain; or why they do not verify."""
        r = self.run("verify", path)
        if r.returncode == 0:
            return json.loads(r.stdout)["verified"]["blocks"], None
        if any(text in r.stderr for text in ("no chain is stored", "No such file")):
            return 0, None
        return None, r.stderr.strip()

    def complete(self, path, mode, found):
        """None, or why the rest of the file did not go in."""
        how = "nosync" if mode == "none" else mode
        r = self.run("import", self.file, path, f"--durability={how}", "--batch=100", "--no-progress")
        if r.returncode:
            return f"the import does not go on: {r.stderr.strip()}"
        if json.loads(r.stdout)["from_height"] != found:
            return f"{found} blocks verify, and the import goes on at {json.loads(r.stdout)['from_height']}"
        blocks, why = self.left(path)
        if why or blocks != self.blocks:
            return f"after the import has gone on: {why or f'{blocks} blocks of {self.blocks}'}"
        return None if rows(path) == self.rows else "the rows are not those of an uncut import"

    def judge(self, path, mode, acks, recover):
        """None, or what is wrong. recover: what the store's recovery printed."""
        promised = max((a.value for a in acks if a.kind == disk.DONE), default=0)
        found, why = self.left(path)
        if why:
            return f"{promised} blocks were durable: {why}; recovery: {recover}"
        if found < promised:
            return f"{found} blocks are there, {promised} were durable; recovery: {recover}"
        if found % BATCH and found < self.blocks - self.live(mode):
            return f"{found} blocks are there: a part of a transaction"
        return self.complete(path, mode, found)


def rows(path):
    """A digest of all rows of all tables, in their order."""
    dump = subprocess.Popen([shutil.which("mdb_dump"), "-a", path], stdout=subprocess.PIPE)
    digest = hashlib.sha256()
    for line in dump.stdout:
        if not line.startswith((b"mapsize=", b"maxreaders=")):
            digest.update(line)
    if dump.wait():
        raise RuntimeError(f"mdb_dump -a {path} left with {dump.returncode}")
    return digest.hexdigest()
