#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Samba's ldb on its LMDB backend, which it opens with RTLD_DEEPBIND: by the stand-in liblmdb.so.0. A
# tool adds a whole file in one transaction with many nested in it, so records are files here.
# packages: ldb-tools
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need ldbadd ldbmodify ldbsearch
program libldb2 "$(find /usr/lib -name mdb.so -path '*ldb*' 2>/dev/null | head -n 1)"
preload "$PGW_COMPAT"
records=20
size=(-o lmdb_env_size:268435456)

# entry N: twenty entries, and a number changed.
entry() {
    local i
    for ((i = 0; i < 20; i++)); do
        printf 'dn: cn=user%d-%d\nchangetype: add\nobjectClass: person\nnumber: %d\ndescription: %s\nobjectUUID: %08d%08d\n\n' \
            "$1" $i "$1" "$(seq -s. $i $((i + 50)))" "$1" $i
    done
    printf 'dn: cn=newest\nchangetype: modify\nreplace: number\nnumber: %d\n\n' "$1"
}

# start DB COMMAND...: a database on LMDB must be indexed by GUID, and every entry must have one.
start() {
    local db=$1
    shift
    printf 'dn: @INDEXLIST\n@IDXATTR: number\n@IDXONE: 1\n@IDXGUID: objectUUID\n@IDX_DN_GUID: GUID\n\ndn: cn=newest\nnumber: 0\nobjectUUID: newest-newest-00\n\n' |
        "$@" ldbadd "${size[@]}" -H "mdb://$db" >"$tmp/out" 2>&1 || fail "ldbadd: $(cat "$tmp/out")"
}

# load DB FROM TO COMMAND...: its last process has the number in $tmp/pid.
load() {
    local db=$1 from=$2 to=$3 i
    shift 3
    for ((i = from; i <= to; i++)); do
        entry "$i" >"$tmp/$i.ldif"
        "$@" ldbmodify "${size[@]}" -H "mdb://$db" "$tmp/$i.ldif" >"$tmp/out" 2>&1 &
        echo $! >"$tmp/pid"
        wait $! || return 1
        ack "$i"
    done
}

search() {
    "${with[@]}" ldbsearch "${size[@]}" -H "mdb://$1" '(number=*)' | grep -v '^#' | sort
}

start "$tmp/plain.mdb" env
load "$tmp/plain.mdb" 1 $records env || fail "load, without the library: $(cat "$tmp/out")"
rm "$tmp/acked"
start "$tmp/with.mdb" "${with[@]}"
load "$tmp/with.mdb" 1 $records "${with[@]}" &
loader=$!
wait_for 120 acked_at_least 6 || fail "6 files were not added: $(cat "$tmp/out")"
# Whichever process is at work now, if it has come so far as to have the library.
tries=0
until victim=$(cat "$tmp/pid") && has_library "$victim" 2>/dev/null && kill -KILL "$victim" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 2000 ] || fail "no ldbmodify could be killed"
done
wait $loader
"${with[@]}" ldbsearch "${size[@]}" -H "mdb://$tmp/with.mdb" '(number=*)' number cn >"$tmp/found" || fail "ldbsearch after the kill"
# All twenty of each, or none.
sed -n 's/^dn: cn=user\([0-9]*\)-.*/\1/p' "$tmp/found" | sort -n | uniq -c |
    awk '$1 != 20 { print "gap" } { print $2 }' >"$tmp/there"
survived <"$tmp/there"
load "$tmp/with.mdb" $((last + 1)) $records "${with[@]}" || fail "load, after the kill: $(cat "$tmp/out")"
search "$tmp/plain.mdb" >"$tmp/expected"
search "$tmp/with.mdb" >"$tmp/got"
same "$tmp/expected" "$tmp/got" "what ldbsearch finds"
judge "$tmp/with.mdb"
fact ran "$records files of 20 entries, killed after $last; by the stand-in liblmdb.so.0"
used 8
