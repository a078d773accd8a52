#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Knot Resolver's cache: two processes write to one environment (MDB_WRITEMAP|MDB_MAPASYNC), one of
# them is killed, at rest and while both write. A knotd beside them is the source. Group and relaxed allow one writing process, and are not run.
# packages: knot-resolver knot knot-dnsutils
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need kresd knotd kdig
program knot-resolver "$(command -v kresd)"
records=60
[ "$mode" = strict ] || skip "not run: two processes write to one cache, and $mode allows one"
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

# count: the records in the cache, as the second process counts them.
count() {
    python3 -c 'import re, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"cache.count()\n")
time.sleep(0.5)
print(re.findall(rb"[0-9]+", s.recv(4096))[0].decode())' "$dir/control/$second_pid"
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
# Killed at rest: all must still be there.
serve "$first" "${with[@]}"
first_pid=$pid
serve "$second" "${with[@]}"
second_pid=$pid
load 1 $records "$first" "$second" || fail "names are not resolved: $(tail -n 5 "$dir/log")"
before=$(count)
[ "$before" -ge $((2 * records)) ] || fail "$before records are cached, of $((2 * records))"
crash_at $records "$first_pid"
serve "$first" "${with[@]}"
first_pid=$pid
[ "$(count)" -ge "$before" ] || fail "$(count) records are cached after the kill, of $before"
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
finish "$first_pid"
finish "$second_pid"
judge "$dir"
fact ran "$((2 * records)) names, two processes on one cache, one killed at rest and while both write"
used 20
