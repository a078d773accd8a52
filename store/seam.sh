#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# seam.sh check ARCHIVE SYMS              does the archive have what the seam needs?
# seam.sh cut ARCHIVE SYMS MDB_O MIDL_O   take its two objects out and redirect the names in mdb.o
#
# midl.o stays as it is: mdb_mid2l_append is renamed where it is called, not where it is defined.
set -eu

die() {
    echo "liblmdb seam: $*" >&2
    exit 1
}

mode=$1 archive=$2 syms=$3
[ -r "$archive" ] || die "$archive: not readable; install the static LMDB library (Debian: liblmdb-dev)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

members=$(${AR:-ar} t "$archive" | sort | tr '\n' ' ')
[ "$members" = "mdb.o midl.o " ] || die "$archive has the members '$members', not mdb.o and midl.o"
${AR:-ar} p "$archive" mdb.o >"$work/mdb.o"
${AR:-ar} p "$archive" midl.o >"$work/midl.o"

case $mode in
check)
    ${NM:-nm} "$work/mdb.o" | awk '{ print $NF }' | sort -u >"$work/have"
    sed -e '/^#/d' -e '/^$/d' -e '/# *optional/d' "$syms" | awk '{ print $1 }' | sort >"$work/need"
    missing=$(comm -13 "$work/have" "$work/need" | tr '\n' ' ')
    [ -z "$missing" ] || die "$archive does not use or define: $missing(another LMDB than this seam is for)"
    ;;
cut)
    sed -e 's/#.*//' -e '/^ *$/d' "$syms" >"$work/syms"
    ${OBJCOPY:-objcopy} --redefine-syms="$work/syms" "$work/mdb.o" "$4"
    cp "$work/midl.o" "$5"
    ;;
*)
    die "unknown mode '$mode'"
    ;;
esac
