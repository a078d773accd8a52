#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# check-syscalls.sh BUILDDIR: shim/sys.c alone may make the system calls that pagewise is about.
# Reads what our own objects (of libraries and programs, not of tests) leave undefined.
set -u
build=${1:?usage: check-syscalls.sh BUILDDIR}
calls='madvise|process_madvise|posix_madvise|msync|fdatasync|fsync|syncfs|sync_file_range|posix_fadvise|mincore|pidfd_open|syscall|munlock'
found=0
seen=0

while IFS= read -r object; do
    case $object in
    */sys.c.o)
        # The rule would be empty if it did not even find the calls here.
        nm -u "$object" | grep -qE " ($calls)(@|$)" && seen=$((seen + 1))
        continue
        ;;
    esac
    if nm -u "$object" | grep -E " ($calls)(@|$)"; then
        printf 'in %s\n' "$object"
        found=1
    fi
done < <(find "$build/shim" "$build/alloc" "$build/store" "$build/tools" -name '*.c.o' 2>/dev/null | sort)

if [ $seen = 0 ]; then
    printf 'no object of shim/sys.c under %s\n' "$build" >&2
    exit 1
fi
if [ $found != 0 ]; then
    printf 'These calls belong in shim/sys.c: go through pgw__sys (shim/sys.h).\n' >&2
    exit 1
fi
