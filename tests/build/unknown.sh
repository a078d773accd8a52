#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A jemalloc or an LMDB whose insides were never looked at ends the configuration, with a message
# that names it and says what to do; so does one that calls itself by a known version, and is another.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
source_dir=$1
need meson pkg-config objcopy ar

# Where the system's are said to be. Files in $tmp/pc are found before them.
pcdir() {
    pkg-config --variable pcfiledir "$1" || skip "there is no $1.pc"
}
jemalloc_pc=$(pcdir jemalloc)/jemalloc.pc
lmdb_pc=$(pcdir lmdb)/lmdb.pc
jemalloc_a=$(pkg-config --variable libdir jemalloc)/libjemalloc_pic.a
lmdb_a=$(pkg-config --variable libdir lmdb)/liblmdb.a
mkdir "$tmp/pc"
export PKG_CONFIG_PATH=$tmp/pc

# refused PART MESSAGE: only PART is configured, and that fails with MESSAGE.
refused() {
    local other=alloc
    [ "$1" = store ] || other=store
    rm -rf "$tmp/build"
    meson setup "$tmp/build" "$source_dir" -D$other=disabled -Dtests=false >"$tmp/log" 2>&1 </dev/null &&
        fail "$1: configured all the same, where it should say: $2"
    grep "ERROR: Problem encountered: " "$tmp/log" | grep -q -- "$2" || {
        tail -n 20 "$tmp/log" >&2
        fail "$1: no message like '$2'"
    }
    rm "$tmp"/pc/*
}

# With a version that nobody knows.
sed 's/^Version:.*/Version: 5.99.0_0/' "$jemalloc_pc" >"$tmp/pc/jemalloc.pc"
refused alloc 'jemalloc 5.99.0 is not known .*alloc/meson.build; or build with -Dalloc=disabled'
sed 's/^Version:.*/Version: 0.9.99/' "$lmdb_pc" >"$tmp/pc/lmdb.pc"
refused store 'LMDB 0.9.99 is not known .*store/meson.build; or build with -Dstore=disabled'

# With a known one, where the archive is another's: a function is missing that the library replaces.
in_tmp() { # PC: its libdir is here
    sed "s,^libdir=.*,libdir=$tmp," "$1" >"$tmp/pc/$(basename "$1")"
}
objcopy --redefine-sym je_arena_decay=je_arena_rot "$jemalloc_a" "$tmp/libjemalloc_pic.a" || fail objcopy
in_tmp "$jemalloc_pc"
refused alloc "$tmp/libjemalloc_pic.a does not define je_arena_decay"
objcopy --redefine-sym mdb_mid2l_append=mdb_mid2l_push "$lmdb_a" "$tmp/liblmdb.a" || fail objcopy
in_tmp "$lmdb_pc"
refused store "liblmdb seam: $tmp/liblmdb.a does not use or define: .*mdb_mid2l_append"
exit 0
