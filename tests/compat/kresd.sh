#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Knot Resolver's cache: two processes write to one environment (MDB_WRITEMAP|MDB_MAPASYNC), one of
# them is killed, at rest and while both write. A knotd beside them is the source. Group and relaxed allow one
# writing process: there one fills the cache and is killed, and a second one, beside it, is refused.
# packages: knot-resolver knot knot-dnsutils
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need kresd knotd kdig
program knot-resolver "$(command -v kresd)"
records=60
upstream=$(free_port)
first=$(free_port)
second=$(free_port)

mkdir "$tmp/knot"
cat >"$tmp/knot/knot.conf" <<END
server:
    rundir: $tmp/knot
    listen: 127.0.0.1@$upstream
database:
    storage: $tmp/knot
template:
  - id: default
    storage: $tmp/knot
zone:
  - domain: example.test
    file: zone
END
{
    printf '@ 86400 SOA ns hostmaster 1 3600 900 86400 300\n@ 86400 NS ns\nns 86400 A 127.0.0.1\n'
    for ((i = 1; i <= records; i++)); do
        printf 'host%d 86400 A 192.0.2.%d\nhost%d 86400 TXT "%s"\n' $i $((i % 250)) $i "$(seq -s. $i)"
    done
} >"$tmp/knot/zone"

ask() {
    kdig +short +timeout=2 +retry=1 +bufsize=4096 "@127.0.0.1#$1" "$2.example.test" "$3"
}

answers() {
    ask "$1" host1 A | grep -q .
}

configure() {
    mkdir "$1"
    cat >"$1/conf" <<END
net.ipv6 = false
net.listen('127.0.0.1', tonumber(os.getenv('PORT')), { kind = 'dns' })
cache.size = 20 * MB
trust_anchors.remove('.')
policy.add(policy.suffix(policy.STUB('127.0.0.1@$upstream'), policy.todnames({'example.test.'})))
END
}

# count PID: the records in the cache, as that process counts them.
count() {
    python3 -c 'import re, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"cache.count()\n")
time.sleep(0.5)
print(re.findall(rb"[0-9]+", s.recv(4096))[0].decode())' "$dir/control/$1"
}

# serve PORT COMMAND...
serve() {
    local port=$1
    shift
    background env PORT="$port" "$@" kresd -n -c "$dir/conf" "$dir" >>"$dir/log" 2>&1
    wait_for 30 answers "$port" || fail "kresd does not answer: $(tail -n 5 "$dir/log")"
}

# load FROM TO PORT...: names by turns.
load() {
    local i ports
    ports=("${@:3}")
    for ((i = $1; i <= $2; i++)); do
        ask "${ports[i % ${#ports[@]}]}" "host$i" TXT | grep -q . || return 1
        ask "${ports[i % ${#ports[@]}]}" "host$i" A | grep -q . || return 1
        ack "$i"
    done
}

zone() {
    local i
    for ((i = 1; i <= records; i++)); do
        ask "$1" "host$i" TXT
        ask "$1" "host$i" A
    done
}

background knotd -c "$tmp/knot/knot.conf" >"$tmp/knot/log" 2>&1
wait_for 30 answers "$upstream" || fail "knotd does not answer: $(tail -n 5 "$tmp/knot/log")"
zone "$upstream" >"$tmp/expected"
dir=$tmp/with
configure "$dir"

# Two that write at the same time.
pair() {
    # Killed at rest: all must still be there.
    serve "$first" "${with[@]}"
    first_pid=$pid
    serve "$second" "${with[@]}"
    second_pid=$pid
    load 1 $records "$first" "$second" || fail "names are not resolved: $(tail -n 5 "$dir/log")"
    before=$(count "$second_pid")
    [ "$before" -ge $((2 * records)) ] || fail "$before records are cached, of $((2 * records))"
    crash_at $records "$first_pid"
    serve "$first" "${with[@]}"
    first_pid=$pid
    [ "$(count "$second_pid")" -ge "$before" ] || fail "$(count "$second_pid") records are cached after the kill, of $before"
    for port in "$first" "$second"; do
        zone "$port" >"$tmp/got" 2>"$tmp/err"
        same "$tmp/expected" "$tmp/got" "what the cache answers"
    done

    # Killed in the middle: the other one goes on, and so does the one that is started in its place. (What
    # was in the cache then may be gone, with and without the library: kresd clears a cache it doubts.)
    rm "$tmp/acked"
    crash_at 20 "$first_pid" load 1 $records "$first" "$second"
    load 1 $records "$second" || fail "the other process does not go on: $(tail -n 5 "$dir/log")"
    serve "$first" "${with[@]}"
    first_pid=$pid
    zone "$first" >"$tmp/got" 2>"$tmp/err"
    same "$tmp/expected" "$tmp/got" "what the new process answers"
}

# One process that may write, one after another.
alone() {
    serve "$first" "${with[@]}"
    first_pid=$pid
    load 1 $records "$first" || fail "names are not resolved: $(tail -n 5 "$dir/log")"
    [ "$(count "$first_pid")" -ge $((2 * records)) ] || fail "$(count "$first_pid") records are cached, of $((2 * records))"
    rm "$tmp/acked"
    crash_at 20 "$first_pid" load 1 $records "$first"
    serve "$first" "${with[@]}"
    first_pid=$pid
    load 1 $records "$first" || fail "names are not resolved after the kill: $(tail -n 5 "$dir/log")"
    zone "$first" >"$tmp/got" 2>"$tmp/err"
    same "$tmp/expected" "$tmp/got" "what the cache answers"
}

ended() {
    ! kill -0 "$1" 2>/dev/null
}

# A second one, while the first has the cache, ends and says why; the first does not notice.
refused() {
    local before
    before=$(count "$first_pid")
    background env PORT="$second" "${with[@]}" kresd -n -c "$dir/conf" "$dir" >"$dir/second" 2>&1
    wait_for 60 ended "$pid" || fail "the second process writes to the cache as well, in durability $mode"
    grep -q 'PGW_BUSY: another process' "$dir/second" || fail "the second process: $(tail -n 5 "$dir/second")"
    [ "$(count "$first_pid")" -ge "$before" ] || fail "the second process took records from the first"
    zone "$first" >"$tmp/got" 2>"$tmp/err"
    same "$tmp/expected" "$tmp/got" "what the first process answers after a second one was refused"
}

if [ "$mode" = strict ]; then
    pair
    finish "$first_pid"
    finish "$second_pid"
else
    alone
    refused
    finish "$first_pid"
fi
judge "$dir"
fact ran "$((2 * records)) names; strict: two processes on one cache, one killed at rest and while both write; \
group, relaxed: one, killed while it writes, and a second one is refused (PGW_BUSY, in its log) and ends"
used 20
