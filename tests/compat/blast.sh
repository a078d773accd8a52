#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# NCBI BLAST+: makeblastdb writes its table of identifiers in one transaction in order (MDB_APPENDDUP),
# readers open it with MDB_RDONLY|MDB_NOLOCK. It is killed when the table appears, and run again.
# packages: ncbi-blast+
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need makeblastdb blastdbcmd
program ncbi-blast+ "$(command -v makeblastdb)"
sequences=60000

awk -v n=$sequences 'BEGIN { srand(1); for (i = 1; i <= n; i++) { s = ""
    for (j = 0; j < 30 + i % 40; j++) s = s substr("ACGT", 1 + int(rand() * 4), 1)
    print ">lcl|seq" i " number " i "\n" s } }' >"$tmp/in.fa"

make() {
    (cd "$1" && "${command[@]}" makeblastdb -in ../in.fa -dbtype nucl -parse_seqids -out db >../out 2>&1)
}

entries() {
    (cd "$1" && "${command[@]}" blastdbcmd -db db -entry all -outfmt '%a %l %h' &&
        "${command[@]}" blastdbcmd -db db -entry seq1,seq777,seq$sequences)
}

mkdir "$tmp/plain" "$tmp/with"
command=(env)
make "$tmp/plain" || fail "makeblastdb, without the library: $(tail -n 2 "$tmp/out")"
entries "$tmp/plain" >"$tmp/expected" || fail "blastdbcmd, without the library"
command=("${with[@]}")
# shellcheck disable=SC2016 # for the shell inside
background "${with[@]}" bash -c 'cd "$1" && exec makeblastdb -in ../in.fa -dbtype nucl -parse_seqids -out db >../out 2>&1' - "$tmp/with"
wait_for 60 test -s "$tmp/with/db.ndb" || fail "makeblastdb made no table: $(tail -n 2 "$tmp/out")"
has_library "$pid" || fail "makeblastdb runs without the library, or has ended"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
make "$tmp/with" || fail "makeblastdb, after the kill: $(tail -n 2 "$tmp/out")"
entries "$tmp/with" >"$tmp/got" || fail "blastdbcmd, after the kill"
same "$tmp/expected" "$tmp/got" "what blastdbcmd prints"
dump "$tmp/plain/db.ndb" >"$tmp/expected"
dump "$tmp/with/db.ndb" >"$tmp/got"
same "$tmp/expected" "$tmp/got" dump
judge "$tmp/with/db.ndb"
fact ran "$sequences sequences with identifiers, killed while it wrote, made again, read"
used 1
