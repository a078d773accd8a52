#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# profile.sh PROGRAM: jemalloc's heap profiler counts every block where it is to, about as many as
# chance should give where it samples, and names the function that allocated them.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
program=${1:?usage: profile.sh PROGRAM}

# profiled LG_SAMPLE: sets allocate (its address) and dump (a file)
profiled() {
    MALLOC_CONF=prof:true,lg_prof_sample:$1,prof_prefix:$tmp/at "$program" "$tmp/lg$1" >"$tmp/out"
    case $? in
    0) ;;
    77) skip "no heap profiler in this jemalloc" ;;
    *) fail "lg_prof_sample:$1: the program failed" ;;
    esac
    allocate=$(cat "$tmp/out")
    dump=$tmp/lg$1.heap
}

# Prints the most objects, and their bytes, of a stack that goes through allocate, which is 512 bytes long at most.
# (Its first block may make the dynamic linker allocate something as well.)
counts() {
    local line frame on=no
    while read -r line; do
        case $line in
        @*)
            on=no
            for frame in ${line#@}; do
                [ $((frame >= allocate && frame < allocate + 512)) = 1 ] && on=yes
            done
            ;;
        t\*:*) [ $on = yes ] && echo "${line#t\*:}" ;;
        esac
    done <"$dump" | tr -d : | sort -n | tail -n 1
}

profiled 0
read -r n bytes _ <<<"$(counts)"
[ $((n == 1000 && bytes >= 100000000 && bytes < 125000000)) = 1 ] || {
    cat "$dump" >&2
    fail "$n blocks of $bytes bytes in all, not 1000 of 100000"
}

# A block of 102400 to 114688 bytes (versions differ) is sampled with a chance of 1 - exp(-bytes/2^17), 0.54 to 0.58:
# 542 to 583 of a thousand, give or take 16; these bounds are nine times as wide.
profiled 17
read -r n bytes _ <<<"$(counts)"
[ $((n >= 400 && n <= 730)) = 1 ] || {
    cat "$dump" >&2
    fail "$n of 1000 blocks were sampled, 542 to 583 are expected"
}
exit 0
