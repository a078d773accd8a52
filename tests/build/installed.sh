#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# What a developer gets: stage an installation with DESTDIR, then compile every header on its own
# and a program against it, with nothing but pkg-config to know where things are.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
source_dir=$(cd "$(dirname "$0")" && pwd)
build=$1
version=$2
libdir=$3 # absolute, as configured
bindir=$4
includedir=$5
need gcc pkg-config

root=$tmp/root
meson install -C "$build" --no-rebuild --destdir "$root" >"$tmp/log" 2>&1 || {
    cat "$tmp/log" >&2
    fail "meson install"
}

export PKG_CONFIG_SYSROOT_DIR=$root
PKG_CONFIG_PATH=$(pkg-config --variable pc_path pkg-config)
export PKG_CONFIG_LIBDIR=$root$libdir/pkgconfig:$PKG_CONFIG_PATH
unset PKG_CONFIG_PATH
export LD_LIBRARY_PATH=$root$libdir

# Every header alone, in both languages, by both compilers that are there.
warnings=(-Wall -Wextra -Werror -pedantic)
for header in "$root$includedir"/pagewise/*.h; do
    name=pagewise/$(basename "$header")
    for compiler in "gcc -x c -std=c99" "gcc -x c -std=gnu17" "clang -x c -std=c11" \
        "g++ -x c++ -std=c++11" "clang++ -x c++ -std=c++20"; do
        command -v "${compiler%% *}" >/dev/null || continue
        # Twice: guarded.
        # shellcheck disable=SC2086
        printf '#include <%s>\n#include <%s>\n' "$name" "$name" |
            $compiler "${warnings[@]}" -fsyntax-only "-I$root$includedir" - ||
            fail "$compiler does not take <$name>"
    done
done

# Every .pc file: its version, and that its flags link.
for pc in "$root$libdir"/pkgconfig/pagewise*.pc; do
    name=$(basename "$pc" .pc)
    [ "$(pkg-config --modversion "$name")" = "$version" ] || fail "version of $name"
    # shellcheck disable=SC2046
    echo 'int main(void) { return 0; }' |
        gcc -x c - -o "$tmp/linked" $(pkg-config --cflags --libs "$name") ||
        fail "does not link with the flags of $name"
done

# The program, as C and as C++, shared and static.
try() {
    "$@" || fail "$*"
}
read -r -a cflags < <(pkg-config --cflags pagewise)
read -r -a shared < <(pkg-config --libs pagewise)
try gcc -std=gnu11 "${warnings[@]}" "$source_dir/use.c" -o "$tmp/use-c" "${cflags[@]}" "${shared[@]}"
try gcc -std=gnu11 "$source_dir/use.c" -o "$tmp/use-static" "${cflags[@]}" \
    "$root$libdir/libpagewise.a" -pthread -ldl
if command -v g++ >/dev/null; then
    try g++ -x c++ -std=c++20 "$source_dir/use.c" -o "$tmp/use-c++" "${cflags[@]}" "${shared[@]}"
fi
for program in "$tmp"/use-*; do
    [ "$("$program")" = "$version $version" ] || fail "$(basename "$program")"
done
ldd "$tmp/use-c" | grep -q "libpagewise.so.0 => $root" || fail "not linked to the shared library"
if ldd "$tmp/use-static" | grep -q pagewise; then
    fail "the static program needs a shared library"
fi

# Exported: our names only, all of them with a version.
nm -D --defined-only "$root$libdir/libpagewise.so" | awk '$2 != "A" { print $3 }' >"$tmp/exported"
[ -s "$tmp/exported" ] || fail "libpagewise.so exports nothing"
if grep -v -E '^pgw_[a-z0-9_]*@@PAGEWISE_[0-9.]+$' "$tmp/exported" >&2; then
    fail "libpagewise.so exports these"
fi

# The installed command runs from where it was staged, and finds its libraries there.
command=$root$bindir/pagewise
[ "$("$command" --version)" = "pagewise $version" ] || fail "pagewise --version"
options=
[ -e "$root$libdir/libpagewise-alloc.so.0" ] || options="$options --no-alloc"
[ -e "$root$libdir/pagewise/liblmdb.so.0" ] || options="$options --no-store"
# shellcheck disable=SC2086
"$command" run $options grep -E 'libpagewise-alloc|liblmdb' /proc/self/maps |
    awk '{ print $6 }' | sort -u >"$tmp/mapped"
case $options in
*alloc*) ;;
*) grep -q "^$root.*/libpagewise-alloc.so.0" "$tmp/mapped" || fail "alloc is not preloaded" ;;
esac
case $options in
*store*) ;;
*) grep -q "^$root.*/liblmdb.so.0" "$tmp/mapped" || fail "store is not preloaded" ;;
esac
