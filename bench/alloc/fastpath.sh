#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# fastpath.sh PAIRS LIBPAGEWISE-ALLOC.SO: instructions of a pair of malloc and free, and of a start,
# under each malloc, counted by callgrind. Two runs of different length, so that the start drops out.
set -eu
pairs=${1:?usage: fastpath.sh BENCH-ALLOC-PAIRS LIBRARY}
library=$(readlink -f "${2:?usage: fastpath.sh BENCH-ALLOC-PAIRS LIBRARY}")
jemalloc=$(ls /usr/lib/*-linux-gnu/libjemalloc.so.2)
command -v valgrind >/dev/null || {
    echo "valgrind is not installed" >&2
    exit 77
}

count() { # LIBRARY N
    LD_PRELOAD=$1 valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        --soname-synonyms=somalloc=nouserintercepts "$pairs" "$2" 2>&1 |
        sed -n 's/.*Collected : //p'
}

printf '%-12s %12s %12s\n' malloc per-pair start
for side in jemalloc pagewise; do
    lib=$jemalloc
    [ $side = pagewise ] && lib=$library
    a=$(count "$lib" 100000)
    b=$(count "$lib" 300000)
    awk -v side=$side -v a="$a" -v b="$b" \
        'BEGIN { p = (b - a) / 200000; printf "%-12s %12.2f %12.0f\n", side, p, a - 100000 * p }'
done
