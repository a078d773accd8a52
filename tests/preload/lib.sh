# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# lib.sh - for tests of a preloaded malloc. $PGW_PRELOAD is the library. same runs a program without
# it and with it, at two settings, and compares what it wrote and how it ended.
#
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"

preload=${PGW_PRELOAD:?the library to preload}
[ -f "$preload" ] || fail "$preload does not exist"

# The default, and every purge at once.
settings=("" "dirty_decay_ms:0,muzzy_decay_ms:0")

# A library that cannot be loaded is only a warning of the loader's: all would pass without it.
preload_is_loaded() {
    LD_PRELOAD=$preload grep -qF "$(readlink -f "$preload")" /proc/self/maps
}
preload_is_loaded || fail "the loader does not take $preload"

# with SETTING COMMAND...
with() {
    local setting=$1
    shift
    LD_PRELOAD=$preload MALLOC_CONF=$setting "$@"
}

# The process has the library mapped.
process_has_it() {
    grep -qF "$(readlink -f "$preload")" "/proc/$1/maps"
}

# same COMMAND...: standard output and exit code with the library are those without it. $work is an
# empty folder in each run; the command runs in it.
same() {
    local n=0 setting code expected
    work=$tmp/plain
    mkdir "$work"
    (cd "$work" && "$@") >"$tmp/expected" 2>"$tmp/err" </dev/null
    expected=$?
    [ $expected = 0 ] || {
        cat "$tmp/err" >&2
        fail "exit code $expected without the library"
    }
    [ -s "$tmp/expected" ] || fail "nothing to compare: no output without the library"
    for setting in "${settings[@]}"; do
        work=$tmp/with.$n
        n=$((n + 1))
        mkdir "$work"
        (cd "$work" && with "$setting" "$@") >"$tmp/got" 2>"$tmp/err" </dev/null
        code=$?
        [ $code = 0 ] || {
            cat "$tmp/err" >&2
            fail "exit code $code with the library, MALLOC_CONF='$setting'"
        }
        cmp "$tmp/expected" "$tmp/got" >&2 ||
            fail "another output with the library, MALLOC_CONF='$setting'"
    done
}
