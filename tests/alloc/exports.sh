#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exports.sh LIBRARY: it exports what Debian's libjemalloc.so.2 exports, without versions as there,
# and its own names under theirs; nothing of jemalloc's inside, and it brings no library but the C library.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
library=${1:?usage: exports.sh LIBRARY}
need nm readelf

exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | sort
}

exported "$library" >"$tmp/all"
# What 5.3.1 has in addition may be there.
grep -v '@' "$tmp/all" |
    grep -vxE 'free_sized|free_aligned_sized|malloc_conf_2_conf_harder' >"$tmp/unversioned"
grep '@' "$tmp/all" >"$tmp/versioned"

cat >"$tmp/versioned.expected" <<END
pgw_alloc_option_get@@PAGEWISE_0.1
pgw_alloc_option_set@@PAGEWISE_0.1
pgw_alloc_purge@@PAGEWISE_0.1
pgw_alloc_stats_get@@PAGEWISE_0.1
pgw_report_register_0@@PAGEWISE_0.1
END
diff -u "$tmp/versioned.expected" "$tmp/versioned" >&2 || fail "other versioned symbols"

# The list of Debian 12's, for machines without it; and four of the C library's that it lacks.
cat >"$tmp/jemalloc" <<END
_ZdaPv
_ZdaPvRKSt9nothrow_t
_ZdaPvSt11align_val_t
_ZdaPvSt11align_val_tRKSt9nothrow_t
_ZdaPvm
_ZdaPvmSt11align_val_t
_ZdlPv
_ZdlPvRKSt9nothrow_t
_ZdlPvSt11align_val_t
_ZdlPvSt11align_val_tRKSt9nothrow_t
_ZdlPvm
_ZdlPvmSt11align_val_t
_Znam
_ZnamRKSt9nothrow_t
_ZnamSt11align_val_t
_ZnamSt11align_val_tRKSt9nothrow_t
_Znwm
_ZnwmRKSt9nothrow_t
_ZnwmSt11align_val_t
_ZnwmSt11align_val_tRKSt9nothrow_t
aligned_alloc
calloc
dallocx
dlopen
free
mallctl
mallctlbymib
mallctlnametomib
malloc
malloc_conf
malloc_message
malloc_stats_print
malloc_trim
malloc_usable_size
mallocx
memalign
nallocx
posix_memalign
pvalloc
rallocx
realloc
sallocx
sdallocx
setns
unshare
valloc
xallocx
END
diff -u "$tmp/jemalloc" "$tmp/unversioned" >&2 || fail "other unversioned symbols"

readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.|ld-linux)' >"$tmp/needed"
[ ! -s "$tmp/needed" ] || fail "every process would load $(tr '\n' ' ' <"$tmp/needed")"
readelf -d "$library" | grep -q 'TEXTREL' && fail "it has text relocations"
readelf -d "$library" | grep -q 'NODELETE' || fail "dlclose could unload it"
exit 0
