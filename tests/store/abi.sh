#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The libraries export what liblmdb.so.0 exports, have no text relocations, and keep their insides to
# themselves.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
need nm readelf ldconfig

stock=$(ldconfig -p | awk '$1 == "liblmdb.so.0" { print $NF; exit }')
[ -n "$stock" ] || skip "liblmdb.so.0 is not installed"

exported() {
    nm -D --defined-only "$1" | awk '{ print $NF }' | sort
}

exported "$stock" >"$tmp/stock"
[ "$(wc -l <"$tmp/stock")" -ge 69 ] || fail "$stock exports fewer than 69 symbols"

sed -n '/^global:/,/^local:/s/^\t\(pgw_[a-z0-9_]*\);$/\1/p' "$PGW_MAP" | sort >"$tmp/map"
grep -q '^pgw_env_stats$' "$tmp/map" || fail "$PGW_MAP cannot be read"

for lib in "$PGW_STORE" "$PGW_COMPAT"; do
    exported "$lib" >"$tmp/all"
    grep -v -e '@@\?PAGEWISE_' -e '^PAGEWISE_' "$tmp/all" >"$tmp/plain"
    diff "$tmp/stock" "$tmp/plain" || fail "$lib: not the symbols of $stock"
    grep '@@PAGEWISE_0.1$' "$tmp/all" | sed 's/@.*//' >"$tmp/own"
    diff "$tmp/own" "$tmp/map" || fail "$lib: its own symbols are not those of $PGW_MAP"
    readelf -dW "$lib" >"$tmp/dynamic"
    ! grep -q TEXTREL "$tmp/dynamic" || fail "$lib has text relocations"
    ! grep -q 'NEEDED.*lmdb' "$tmp/dynamic" || fail "$lib needs another LMDB"
    readelf -lW "$lib" | grep 'GNU_STACK' | grep -q 'RW ' || fail "$lib wants an executable stack"
done

readelf -dW "$PGW_STORE" | grep -q 'SONAME.*\[libpagewise-store.so.0\]' || fail "SONAME of $PGW_STORE"
readelf -dW "$PGW_COMPAT" | grep -q 'SONAME.*\[liblmdb.so.0\]' || fail "SONAME of $PGW_COMPAT"
