# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# lib.sh - for real programs on the store. Sourced by bash.
#
# The course is the same for all. A program puts numbered records in, one transaction each. Once
# without the library; then with it, where it is killed with SIGKILL in the middle, started again,
# given the rest, and ended. After the kill the records must be 1 to k without a gap, with k not less
# than the last that was acknowledged (relaxed promises only that there is no gap). In the end all must
# be as without the library. The judges are Debian's mdb_stat and mdb_dump, which are linked
# statically and which no preload reaches.
#
#   $PGW_STORE    the library to preload
#   $PGW_COMPAT   the same as liblmdb.so.0, for programs that do not see a library of another name
#   $PGW_MODE     strict (default), group or relaxed: the durability
#   $PGW_AUDIT    the auditor of LMDB files, a third judge (optional)
#   $PGW_FACTS    a file for what was found out, for tests/compat/run (optional)
#
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
export PATH=$PATH:/usr/sbin:/sbin

mode=${PGW_MODE:-strict}
[ -f "${PGW_STORE:?the library to preload}" ] || fail "$PGW_STORE does not exist"
need mdb_stat mdb_dump readelf python3
stats=$tmp/stats

# --- the library ---

# preload LIBRARY: from now on, "${with[@]}" COMMAND... runs a command with it. (An array: in the
# background, a function would leave a shell between.)
preload() {
    library=$(readlink -f "$1")
    with=(env LD_PRELOAD="$library" PAGEWISE_STATS="$stats" PAGEWISE_STORE="durability:$mode")
    # One that the loader does not take is only a warning of the loader's.
    "${with[@]}" grep -qF "$library" /proc/self/maps || fail "the loader does not take $library"
}
preload "$PGW_STORE"

has_library() {
    grep -qF "$library" "/proc/$1/maps"
}

# counted NAME: the sum over all processes that have ended by themselves.
counted() {
    [ -s "$stats" ] || {
        echo 0
        return
    }
    python3 -c 'import json, sys
parts = [json.loads(line)["parts"].get("store", {}) for line in open(sys.argv[1])]
print(sum(part.get(sys.argv[2], 0) for part in parts))' "$stats" "$1"
}

# used COMMITS: at least so many went through the library, in the durability that was asked for.
used() {
    local commits checkpoints
    commits=$(counted commits)
    checkpoints=$(counted checkpoints)
    [ "$commits" -ge "$1" ] || fail "$commits commits went through the library, not $1"
    if [ "$mode" = strict ]; then
        fact result "same data; $commits commits, $(counted barriers) barriers"
    elif [ "$checkpoints" -gt 0 ]; then
        fact result "same data; $commits commits, $(counted barriers) barriers, $checkpoints checkpoints"
    else
        fact result "same data; stays strict"
    fi
}

# --- what was found out ---

# fact KEY TEXT
fact() {
    printf '%s: %s\n' "$1" "$2"
    [ -z "${PGW_FACTS-}" ] || printf '%s\t%s\n' "$1" "$2" >>"$PGW_FACTS"
}

# program PACKAGE FILE: which version, and how FILE, a program or module, or a library that it needs,
# comes by LMDB.
program() {
    local file object
    file=$(readlink -f "$2")
    [ -f "$file" ] || skip "$2 is not installed (Debian package $1)"
    fact version "$1 $(dpkg-query -W -f '${Version}' "$1" 2>/dev/null)"
    for object in "$file" $(ldd "$file" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'); do
        if readelf -d "$object" | grep -q 'NEEDED.*\[liblmdb\.so\.0\]'; then
            fact linked "$(basename "$object") needs liblmdb.so.0"
            return
        fi
    done
    readelf -W --dyn-syms "$file" | grep -q ' mdb_env_open$' || fail "$file does not use LMDB"
    fact linked "$(basename "$file") has its own LMDB and calls it by symbols that a preload can answer"
}

# --- the kill ---

# ack N: record N was acknowledged. Called by what loads, in a process of its own.
ack() {
    printf '%d\n' "$1" >"$tmp/acked.new" && mv "$tmp/acked.new" "$tmp/acked"
}

acked() {
    local n=0
    [ ! -f "$tmp/acked" ] || read -r n <"$tmp/acked"
    printf '%d\n' "$n"
}

acked_at_least() {
    [ "$(acked)" -ge "$1" ]
}

# crash_at N PID [LOADER...]: run what loads beside the process, and kill the process when N records
# are acknowledged and more are on their way. A process that loads itself needs no LOADER.
crash_at() {
    local n=$1 victim=$2 loader=
    shift 2
    if [ $# -gt 0 ]; then
        "$@" 2>"$tmp/loader.err" &
        loader=$!
    fi
    wait_for 120 acked_at_least "$n" || fail "record $n was not acknowledged: $(cat "$tmp/loader.err" 2>/dev/null)"
    has_library "$victim" || fail "process $victim runs without the library, or has ended"
    kill -KILL "$victim"
    wait "$victim" 2>/dev/null
    [ -z "$loader" ] || wait "$loader" # its server is gone
    return 0
}

# survived: the numbers on standard input, in any order, are what is there after the kill. Leaves the
# last in $last.
survived() {
    local promised
    promised=$(acked)
    last=$(sort -n | awk '$1 != ++n { print "gap at " n; bad = 1; exit } END { if (!bad) print n + 0 }')
    case $last in
    gap*) fail "after the kill: $last" ;;
    esac
    [ "$mode" = relaxed ] || [ "$last" -ge "$promised" ] ||
        fail "$promised records were acknowledged, $last are there after the kill"
}

# --- the judges ---

# The option that mdb_stat and mdb_dump need where the path is the data file itself.
no_subdir() {
    [ -d "$1" ] || printf '%s\n' -n
}

# dump PATH: all databases, without what depends on the run.
dump() {
    local all=-a
    # shellcheck disable=SC2046 # no option, or one
    mdb_dump $(no_subdir "$1") -l "$1" >"$tmp/dump.names" 2>"$tmp/dump.err"
    [ -s "$tmp/dump.names" ] || all= # one database without a name
    # shellcheck disable=SC2046
    mdb_dump $(no_subdir "$1") $all "$1" 2>"$tmp/dump.err" | grep -v '^mapsize\|^maxreaders\|^mapaddr'
    [ ! -s "$tmp/dump.err" ] || fail "mdb_dump of $1: $(cat "$tmp/dump.err")"
}

# judge PATH...: LMDB's tools walk it, and the auditor finds each page used once or free once.
judge() {
    local path
    for path; do
        # shellcheck disable=SC2046
        mdb_stat $(no_subdir "$path") -e -f -a "$path" >"$tmp/judge.out" 2>"$tmp/judge.err" ||
            fail "mdb_stat of $path: $(cat "$tmp/judge.err")"
        dump "$path" >"$tmp/judge.out"
        [ -s "$tmp/judge.out" ] || fail "mdb_dump of $path prints nothing"
        [ -z "${PGW_AUDIT-}" ] ||
            "$PGW_AUDIT" --custom-keys '*' --custom-values '*' "$path" >"$tmp/judge.out" 2>&1 ||
            fail "audit of $path: $(cat "$tmp/judge.out")"
    done
}

# same EXPECTED GOT WHAT: two files.
same() {
    [ -s "$1" ] || fail "nothing to compare: no $3 without the library"
    cmp "$1" "$2" >&2 || fail "$3: not as without the library"
}

# free_port: one of the loopback's that nobody listens on, for TCP and UDP.
free_port() {
    python3 -c 'import socket
while True:
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            continue
        print(tcp.getsockname()[1])
        break'
}
