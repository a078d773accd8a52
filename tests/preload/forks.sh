#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Shells that fork thousands of times: a malloc must cost a short process nothing that it can see.
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need bash dash

cat >"$tmp/script" <<'END'
sum=0
i=0
while [ "$i" -lt 3000 ]; do
	v=$(echo "$i")
	sum=$((sum + v))
	i=$((i + 1))
done
# And some that exec, in pipes.
for word in a b c d e f g h i j; do
	seq 1 200 | sed "s/^/$word/" | sort -r | head -n 3
done
echo "$sum"
END
for shell in bash dash; do
    rm -rf "$tmp"/plain "$tmp"/with.*
    same "$shell" "$tmp/script"
    grep -qx 4498500 "$tmp/got" || fail "$shell: wrong sum"
done
