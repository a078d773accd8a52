#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# redis-server under load, with its fork for a snapshot: the same data, read back from memory and
# from the snapshot. (Debian's redis-server is linked to jemalloc: "without" is Debian's jemalloc.)
# packages: redis-server redis-tools
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need redis-server redis-cli redis-benchmark

# What DEBUG DIGEST is compared over: values of all types and sizes from 1 byte to 100 kB.
awk 'BEGIN {
    pad = "0123456789"
    while (length(pad) < 100000)
        pad = pad pad
    for (i = 0; i < 6000; i++) {
        v = i substr(pad, 1, 1 + i * 7919 % (i % 100 ? 3000 : 100000))
        print "SET s" i " " v
        print "RPUSH l" i % 50 " " substr(v, 1, 300)
        print "HSET h" i % 50 " f" i " " substr(v, 1, 60)
        print "ZADD z" i % 50 " " i " m" i
        print "SADD t" i % 50 " m" i
        if (i % 3 == 0)
            print "DEL s" i / 3
    }
}' >"$tmp/commands" || fail "awk"

cli() {
    redis-cli -s "$socket" "$@"
}

# serve ENVIRONMENT...: one server's life; its digests on standard output.
serve() {
    local dir=$1 server
    shift
    mkdir "$dir"
    socket=$dir/s
    background env "$@" redis-server --port 0 --unixsocket "$socket" --dir "$dir" --save '' \
        --appendonly no --enable-debug-command local --logfile "$dir/log"
    server=$pid
    wait_for 20 cli ping || fail "redis-server does not answer: $(cat "$dir/log")"
    if [ $# -gt 0 ]; then
        process_has_it "$server" || fail "redis-server runs without the library"
    fi
    redis-benchmark -s "$socket" -n 20000 -P 16 -c 20 -d 1500 -r 5000 -q \
        -t set,get,incr,lpush,lpop,sadd,hset,spop,zadd,mset >"$dir/benchmark" 2>&1 ||
        fail "redis-benchmark: $(tail -n 3 "$dir/benchmark")"
    cli flushall >"$dir/flushed"
    cli <"$tmp/commands" >"$dir/answers"
    if grep -q '^ERR' "$dir/answers"; then
        fail "redis-server refused a command: $(grep -m 1 '^ERR' "$dir/answers")"
    fi
    cli debug digest
    cli bgsave >"$dir/saving"
    wait_for 20 snapshot_done || fail "the snapshot was not finished"
    cli debug reload >"$dir/reloaded" || fail "reload: $(cat "$dir/reloaded")"
    cli debug digest
    cli dbsize
    finish "$server" || fail "redis-server ended with code $?"
}

snapshot_done() {
    cli info persistence | grep -q '^rdb_bgsave_in_progress:0' &&
        cli info persistence | grep -q '^rdb_last_bgsave_status:ok'
}

serve "$tmp/plain" >"$tmp/expected"
[ "$(wc -l <"$tmp/expected")" = 3 ] || fail "no digests without the library"
n=0
for setting in "${settings[@]}"; do
    n=$((n + 1))
    serve "$tmp/with.$n" LD_PRELOAD="$preload" MALLOC_CONF="$setting" >"$tmp/got"
    cmp "$tmp/expected" "$tmp/got" >&2 || fail "another digest, MALLOC_CONF='$setting'"
done
