#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pagewise itself: help, version, and what is no command.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
pagewise=$1
version=$2

[ "$("$pagewise" --version)" = "pagewise $version" ] || fail "--version"
for command in probe run bench; do
    "$pagewise" --help | grep -q "^  $command " || fail "--help does not name $command"
    expect_code 0 "$pagewise" $command --help >"$tmp/out"
    grep -q "^usage: pagewise $command" "$tmp/out" || fail "$command --help"
done
expect_code 2 "$pagewise"
expect_message "no command given"
expect_code 2 "$pagewise" frobnicate
expect_message "there is no command 'frobnicate'"
expect_code 2 "$pagewise" --frobnicate
expect_message "^pagewise: unrecognized option '--frobnicate'"
expect_message "pagewise --help"

# Messages say which command they are of, and help is where it is looked for.
expect_code 0 "$pagewise" help >"$tmp/out"
"$pagewise" --help | diff "$tmp/out" - >&2 || fail "help is not --help"
for command in $("$pagewise" --help | awk '/^  [a-z]/ { print $1 }'); do
    expect_code 0 "$pagewise" help "$command" >"$tmp/out"
    "$pagewise" "$command" --help | diff "$tmp/out" - >&2 || fail "help $command"
    "$pagewise" "$command" --frobnicate 2>"$tmp/err"
    expect_message "^pagewise $command: unrecognized option '--frobnicate'"
done
expect_code 2 "$pagewise" help frobnicate
expect_message "there is no command 'frobnicate'"
expect_code 2 "$pagewise" help run probe
expect_message "help takes one command"

# A benchmark is a program of its own.
expect_code 0 "$pagewise" bench model --json >"$tmp/out"
python3 -m json.tool "$tmp/out" >/dev/null || fail "bench model --json"
expect_code 2 "$pagewise" bench
expect_message "no benchmark given"
expect_code 2 "$pagewise" bench frobnicate
expect_message "there is no benchmark 'frobnicate'"
