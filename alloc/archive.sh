#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# archive.sh NM ARCHIVE SYMBOL...         fail, naming it, unless ARCHIVE defines each SYMBOL
# archive.sh --size NM ARCHIVE SYMBOL     print the size of SYMBOL in bytes
set -eu

want=presence
if [ "$1" = --size ]; then
	want=size
	shift
fi
nm=$1 archive=$2
shift 2
# VALUE [SIZE] TYPE NAME
defined=$("$nm" --defined-only -S -t d "$archive" | awk 'NF == 3 { print $3, 0 } NF == 4 { print $4, $2 + 0 }')
for symbol; do
	size=$(printf '%s\n' "$defined" | awk -v symbol="$symbol" '$1 == symbol { print $2; exit }')
	if [ -z "$size" ]; then
		echo "$archive does not define $symbol" >&2
		exit 1
	fi
	[ "$want" = presence ] || echo "$size"
done
