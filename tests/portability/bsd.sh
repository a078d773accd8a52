#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# bsd.sh: shim/sys_bsd.c compiles, without a warning, against the declarations that FreeBSD and OpenBSD
# have (bsd/ beside this script). The types, and errno, are those of this machine.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
here=$(dirname "$0")
top=$here/../..
cc=${CC:-cc}
need "$cc"

check() {
    "$cc" -std=gnu11 -fsyntax-only -Wall -Wextra -Wmissing-prototypes -Wno-unused-parameter -Werror \
        -U__linux__ -U__linux -Ulinux "-D$1" -I"$here/bsd" -I"$top/shim" -I"$top/include" "$2"
}

for system in __FreeBSD__=14 __OpenBSD__; do
    check "$system" "$top/shim/sys_bsd.c" || fail "sys_bsd.c does not compile for ${system%=*}"
    # The check can fail: what Linux has, and they have not.
    sed 's/return -ENOSYS; .* no "writeout".*/return sync_file_range(fd, off, len, flags);/' \
        "$top/shim/sys_bsd.c" >"$tmp/linux.c"
    if check "$system" "$tmp/linux.c" 2>/dev/null; then
        fail "a call that only Linux has is not noticed for ${system%=*}"
    fi
done
