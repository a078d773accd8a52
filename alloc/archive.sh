#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# archive.sh NM ARCHIVE SYMBOL... - fail, naming it, unless ARCHIVE defines each SYMBOL.
set -eu

nm=$1 archive=$2
shift 2
defined=$("$nm" --defined-only "$archive" | awk 'NF == 3 { print $3 }')
for symbol; do
	if ! printf '%s\n' "$defined" | grep -qx "$symbol"; then
		echo "$archive does not define $symbol" >&2
		exit 1
	fi
done
