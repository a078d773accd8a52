#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What boots kernels, without booting one: sources, versions, results, archives, expectations."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True

import guest  # noqa: E402
import matrix  # noqa: E402
import packages  # noqa: E402


class Command(unittest.TestCase):
    def expect(self, code, message, *arguments):
        command = [sys.executable, pathlib.Path(__file__).with_name("run"), *arguments]
        r = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertRegex(r.stderr, message)
        self.assertNotIn("Traceback", r.stderr)

    def test_from_what_is_not_json(self):
        with tempfile.TemporaryDirectory() as tmp:
            file = pathlib.Path(tmp, "file")
            for data in (b"", b"\xff\0", b"{}", b"7", b"[7]", b'[{"version": "6.12"}]', b'[{"version": "6.12", '):
                file.write_bytes(data)
                self.expect(2, "file is not what --json writes", "--from", file)
            self.expect(2, "none: No such file", "--from", f"{tmp}/none")

    def test_json_that_cannot_be_written(self):
        self.expect(2, "/dev/null/file: Not a directory", "9.99", "--json", "/dev/null/file")

    def test_cache(self):
        for path, why in (("/dev/null/cache", "cannot make the cache"), ("/proc/self", "cannot write in the cache")):
            with unittest.mock.patch.dict(os.environ, PAGEWISE_CACHE=path):
                with self.assertRaisesRegex(packages.Unavailable, why), packages.cache_lock():
                    pass


class Fetching(unittest.TestCase):
    def packages(self, root="/", conf="none"):
        p = packages.Packages.__new__(packages.Packages)
        p.root, p.conf, p.get = pathlib.Path(root), conf, "apt-get"
        return p

    def test_that_does_not_end(self):
        p = self.packages(conf="import time; time.sleep(60)")
        with self.assertRaisesRegex(packages.Unavailable, "update did not end within"):
            p.call(sys.executable, "update", timeout=0.1)

    @unittest.skipUnless(shutil.which("dpkg-deb"), "dpkg-deb is not installed")
    def test_package_that_cannot_be_unpacked(self):
        def download(*_, cwd, **__):
            pathlib.Path(cwd, "torso.deb").write_bytes(b"!<arch>\n")
            return subprocess.CompletedProcess([], 0, "", "")

        with tempfile.TemporaryDirectory() as tmp:
            p = self.packages(tmp)
            p.call = download
            with self.assertRaisesRegex(packages.Unavailable, "cannot unpack torso.deb in /"):
                p.unpack(["torso"], pathlib.Path(tmp, "target"))
            self.assertEqual(os.listdir(tmp), [])


class Sources(unittest.TestCase):
    def read(self, files):
        with tempfile.TemporaryDirectory() as etc:
            os.mkdir(f"{etc}/sources.list.d")
            for name, text in files.items():
                pathlib.Path(etc, name).write_text(text, encoding="utf-8")
            return packages.machine_sources(etc)

    def test_one_line(self):
        (s,) = self.read({"sources.list": "# no\ndeb [arch=amd64 signed-by=/k.gpg] http://m/debian trixie main\n"})
        self.assertEqual((s["uris"], s["suites"], s["signed-by"]), ("http://m/debian", ["trixie"], "/k.gpg"))

    def test_stanzas(self):
        text = (
            "Types: deb\n# a mirror\nURIs: http://m/debian\nSuites: a a-updates\nSigned-By:\n BEGIN\n KEY\n\n"
            "Types: deb-src\nURIs: http://m/src\nSuites: a\n\n"
            "Types: deb\nURIs: http://m/off\nSuites: a\nEnabled: no\n"
        )
        (s,) = self.read({"sources.list.d/x.sources": text})
        self.assertEqual(s["suites"], ["a", "a-updates"])
        self.assertEqual(s["signed-by"], "\n BEGIN\n KEY")


class Versions(unittest.TestCase):
    def test_which_answers(self):
        self.assertTrue(guest.kernel and packages.matches("6.12.90+deb13-cloud-amd64", "6.12"))
        self.assertTrue(packages.matches("6.12.90+deb13-cloud-amd64", "6.12.90"))
        self.assertFalse(packages.matches("6.12.90+deb13-cloud-amd64", "6.1"))
        self.assertFalse(packages.matches("6.12.90+deb13-cloud-amd64", "6.12.9"))

    def test_flavours(self):
        arm = "7.3.4+deb13-arm64-16k"
        for want in ("7.3-arm64-16k", "newest-arm64-16k", "7.3.4-arm64-16k", arm):
            self.assertTrue(packages.matches(arm, want), want)
        for want in ("newest", "7.3", "7.2-arm64-16k"):
            self.assertFalse(packages.matches(arm, want), want)
        self.assertFalse(packages.matches("7.3.4+deb13-cloud-amd64", "7.3-arm64-16k"))
        self.assertTrue(packages.matches("7.3.4+deb13-cloud-amd64", "newest"))
        self.assertEqual(guest.version_key(arm), guest.version_key("7.3.4+deb13-cloud-amd64"))
        self.assertFalse(guest.machine_of(arm).native or guest.kvm_usable(guest.machine_of(arm)))

    def test_order(self):
        names = ["6.9.1-cloud-amd64", "6.12.100+deb13-cloud-amd64", "6.12.90+deb13.1-cloud-amd64", "7.0.4+deb13-cloud-amd64"]
        ordered = sorted(names, key=guest.version_key)
        self.assertEqual([ordered.index(n) for n in names], [0, 2, 1, 3])

    def test_expectation(self):
        row = {"since": {"0": "a", "6.1": "b", "6.13": "c"}, "user": {"0": "x"}}
        for version, want in (("5.10.0-4", "a"), ("6.1.0-5", "b"), ("6.12.9", "b"), ("6.16.1", "c"), ("7.3.4", "c")):
            self.assertEqual(matrix.expectation(row, version), want)
        self.assertEqual(matrix.expectation(row, "7.3.4", user=True), "x")

    def test_expectations_are_whole(self):
        expect = json.loads((matrix.HERE / "expect.json").read_text(encoding="utf-8"))
        for kind in ("answers", "routes", "sync", "flushes"):
            names = [row["name"] for row in expect[kind]]
            self.assertEqual(len(names), len(set(names)))
            for row in expect[kind]:
                self.assertTrue(row["why"] and "0" in row["since"] and "0" in row.get("user", {"0": 1}))


class Results(unittest.TestCase):
    def test_finished(self):
        data = b"@boot 6.1\n@start a\n@result a 3 4 1\n@do\n\n@start b\n@result b 0 0 2\n\n@done\n"
        version, results, running, done = guest.parse_results(data)
        self.assertEqual((version, running, done), ("6.1", None, True))
        self.assertEqual((results["a"].code, results["a"].output, results["b"].code), (3, "@do\n", 0))

    def test_cut_off(self):
        data = b"@boot 6.1\n@start a\n@result a 0 1000 0\nhalf"
        _, results, running, done = guest.parse_results(data)
        self.assertEqual((results, running, done), ({}, "a", False))

    def test_file_systems(self):
        refused = f"fs.sh: x: {matrix.REFUSED}: why\n"
        for since, code, said, state in (
            (matrix.REFUSED, 77, refused, "passed"),
            (matrix.REFUSED, 0, "", "failed"),
            (matrix.REFUSED, 77, "mkfs.x is not installed", "skipped"),
            (matrix.REFUSED, 1, "", "failed"),
            ("writeout", 77, refused, "failed"),
            ("writeout", 77, "mkfs.x is not installed", "skipped"),
            ("writeout", 1, "", "failed"),
        ):
            row = {"name": "x", "since": {"0": since}, "why": "because"}
            outcome = guest.Outcome("6.1", "tcg", 1.0, {"fs-x": guest.Result(code, said)}, "", "")
            (check,) = matrix.check_file_systems(outcome, {"sync": [row]}, "6.1", ["x"])
            self.assertEqual(check.state, state, (since, code, said))

    def test_flushes(self):
        def rows(n):
            return [{"batch": 1, "remote": 2048, "flushes": 9}, {"batch": 1024, "remote": n, "flushes": 9}]

        self.assertEqual(matrix.flush_shape(rows(2), 2048), "a call")
        self.assertEqual(matrix.flush_shape(rows(2040), 2048), "a range")
        self.assertIn("300", matrix.flush_shape(rows(300), 2048))
        self.assertEqual(matrix.flush_shape([{"batch": 1, "error": "EBADF"}], 2048), "refused")

    def test_a_failure_is_one(self):
        row = {"name": "x", "since": {"0": "ok"}, "why": "because"}
        self.assertEqual(matrix.compare("answer", "x", "EINVAL", matrix.expectation(row, "6.1"), "").state, "failed")
        outcome = guest.Outcome("6.1", "tcg", 1.0, {"t": guest.Result(77, "a reason\n"), "u": guest.Result(1, "")}, "", "")
        states = [c.state for c in matrix.check_tests(outcome, [{"name": n} for n in ("t", "u", "gone")])]
        self.assertEqual(states, ["skipped", "failed", "failed"])


class Archive(unittest.TestCase):
    def test_read_back(self):
        try:
            cpio, root = guest.need("cpio", "cpio"), guest.Initramfs()
        except guest.Unavailable as e:
            self.skipTest(str(e))
        root.add_text("/lib/deep/er/file", "text\n", 0o640)
        root.add_link("/bin/link", "/bin/busybox")
        with tempfile.TemporaryDirectory() as tmp:
            root.write(f"{tmp}/archive")
            with open(f"{tmp}/archive", "rb") as archive:
                listing = subprocess.run([cpio, "-itv"], stdin=archive, capture_output=True, check=True).stdout.decode()
        self.assertRegex(listing, r"-rw-r-----.* 5 .* usr/lib/deep/er/file\n")
        self.assertRegex(listing, r"bin/link -> /bin/busybox\n")
        self.assertRegex(listing, r"lib -> usr/lib\n")


if __name__ == "__main__":
    unittest.main()
