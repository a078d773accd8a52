#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# stress-ng's allocation stressors, which write, verify and resize what they hold.
# packages: stress-ng
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need stress-ng

for setting in "${settings[@]}"; do
    for stressor in "--malloc 2 --malloc-bytes 1M --malloc-ops 20000 --malloc-touch" \
        "--bigheap 1 --bigheap-growth 1M --bigheap-ops 128"; do
        # shellcheck disable=SC2086
        with "$setting" stress-ng $stressor --verify --timeout 30 --temp-path "$tmp" \
            >"$tmp/out" 2>&1 </dev/null || {
            cat "$tmp/out" >&2
            fail "stress-ng $stressor, MALLOC_CONF='$setting'"
        }
        grep -q 'successful run completed' "$tmp/out" || fail "stress-ng did not complete"
    done
done
