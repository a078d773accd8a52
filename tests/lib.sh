# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# lib.sh - for tests that are shell scripts. Sourced by bash. A test leaves with 0, 1 (fail) or 77
# (skip), and $tmp is gone then, as are the processes that went through background.
set -u
export LC_ALL=C

tmp=$(mktemp -d "${TMPDIR:-/tmp}/pagewise-test.XXXXXX") || exit 1
background_pids=()

cleanup() {
    local pid
    for pid in "${background_pids[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

fail() {
    printf 'FAIL: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf '%s\n' "$*" >&2
    exit 77
}

need() {
    local program
    for program; do
        command -v "$program" >/dev/null || skip "$program is not installed"
    done
}

# background COMMAND...: start it, leave its process id in $pid.
background() {
    "$@" &
    pid=$!
    background_pids+=("$pid")
}

# End what background started, and wait for it.
finish() {
    kill "$1" && wait "$1"
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    local tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.05
    done
}

# expect_code CODE COMMAND...: standard error in $tmp/err.
expect_code() {
    local code=$1 got
    shift
    "$@" 2>"$tmp/err"
    got=$?
    [ $got = "$code" ] || {
        cat "$tmp/err" >&2
        fail "exit code $got, not $code: $*"
    }
}

# expect_message PATTERN: in $tmp/err.
expect_message() {
    grep -q -- "$1" "$tmp/err" || {
        cat "$tmp/err" >&2
        fail "no message like '$1'"
    }
}
