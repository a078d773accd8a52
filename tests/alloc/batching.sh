#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# batching.sh LIBRARY CHURN: two threads that churn 4 to 96 KiB blocks, every page to be given back
# at once, and what the kernel was asked, by strace: many ranges a call, no small range alone; none
# vectored where PAGEWISE_KERNEL says loop.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
library=${1:?usage: batching.sh LIBRARY CHURN}
churn=${2:?usage: batching.sh LIBRARY CHURN}
need strace

run() {
    strace -f -qq -e trace=madvise,process_madvise -o "$tmp/trace" \
        -E LD_PRELOAD="$library" -E MALLOC_CONF=dirty_decay_ms:0 -E PAGEWISE_KERNEL="$1" \
        "$churn" -t 2 -b 1000 -n 20000 >/dev/null 2>"$tmp/err" || {
        cat "$tmp/err" >&2
        fail "PAGEWISE_KERNEL=$1: churn left with $?"
    }
}

run auto
grep -q 'process_madvise.*MADV_DONTNEED.*= [0-9]*$' "$tmp/trace" || {
    grep -q 'process_madvise' "$tmp/trace" && grep 'process_madvise' "$tmp/trace" | tail -n 1 >&2
    skip "this kernel takes no vectors of DONTNEED"
}
# process_madvise(-10001, [{iov_base=..., iov_len=...}, ...], 45, MADV_DONTNEED, 0) = 123456
# A call that another thread interrupts is in two lines; the vector is in the first.
calls=$(grep 'process_madvise([^)]*MADV_DONTNEED' "$tmp/trace" | sed 's/.*], \([0-9]*\), MADV.*/\1/')
n=$(printf '%s\n' "$calls" | wc -l)
ranges=$(printf '%s\n' "$calls" | awk '{ s += $1 } END { print s }')
small=$(grep ' madvise(' "$tmp/trace" |
    sed -n 's/.* madvise(0x[0-9a-f]*, \([0-9]*\), MADV_DONTNEED.*/\1/p' |
    awk '$1 < 262144 { n++ } END { print n + 0 }')
echo "$n calls for $ranges ranges; $small small ranges alone"
[ "$n" -ge 20 ] || fail "only $n vectored calls: the load does not purge"
[ $((ranges / n)) -ge 32 ] || fail "only $((ranges / n)) ranges a call"
# The probe and the first and last batch may have a range for themselves.
[ "$small" -le $((n / 20 + 4)) ] || fail "$small small ranges were advised alone"

run loop
grep -q 'process_madvise' "$tmp/trace" && fail "PAGEWISE_KERNEL=loop: a vectored call"
grep -q 'madvise(.*MADV_DONTNEED) = 0' "$tmp/trace" || fail "PAGEWISE_KERNEL=loop: no purge at all"
exit 0
