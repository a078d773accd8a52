#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turn meson's testlog.json into lines "result<TAB>name<TAB>reason".

result is passed, failed or skipped; the reason is the last line that the test wrote to standard
error (or output, if that is all there is). A log that is missing or names no test is an error: nothing ran.
"""
import json
import sys

PASSED = ("OK", "EXPECTEDFAIL")


def reason_of(test):
    for stream in ("stderr", "stdout"):
        lines = [l.strip() for l in (test.get(stream) or "").splitlines() if l.strip()]
        if lines:
            return lines[-1].replace("\t", " ")
    return "no reason given"


def main():
    count = 0
    try:
        with open(sys.argv[1], encoding="utf-8") as log:
            for line in log:
                test = json.loads(line)
                result = test["result"]
                count += 1
                # "project:suite+suite / name", in later versions of meson "suite+suite - project:name"
                name = test["name"].rsplit(" / ", 1)[-1].rsplit(":", 1)[-1]
                if result in PASSED:
                    print(f"passed\t{name}\t")
                elif result == "SKIP":
                    print(f"skipped\t{name}\t{reason_of(test)}")
                else:
                    print(f"failed\t{name}\t{result.lower()}: {reason_of(test)}")
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"testlog.py: {sys.argv[1]}: {error}")
    if count == 0:
        sys.exit(f"testlog.py: {sys.argv[1]}: no test ran")


main()
