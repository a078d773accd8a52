#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Knot DNS: a zone changed over the control socket, each change a transaction of the journal. The
# zone file is never written back, so after the kill the changes are in LMDB or nowhere. knotd has
# three environments open: journal, timers, keys.
# packages: knot
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need knotd knotc
program knot "$(command -v knotd)"
records=60

configure() {
    mkdir -p "$1/db" "$1/run"
    cat >"$1/knot.conf" <<END
server:
    rundir: $1/run
    background-workers: 1
database:
    storage: $1/db
log:
  - target: stderr
    any: info
template:
  - id: default
    storage: $1
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: changes
    serial-policy: increment
zone:
  - domain: example.test
    file: example.zone
END
    cat >"$1/example.zone" <<'END'
$ORIGIN example.test.
$TTL 3600
@ SOA ns hostmaster 1 3600 900 86400 300
@ NS ns
ns A 192.0.2.1
END
}

ctl() {
    knotc -c "$dir/knot.conf" -s "$dir/run/knot.sock" "$@"
}

# serve COMMAND...: the daemon, by way of COMMAND; returns when it has the zone.
serve() {
    background "$@" knotd -c "$dir/knot.conf" 2>>"$dir/log"
    wait_for 30 ctl zone-read example.test @ SOA || fail "knotd does not serve: $(tail -n 5 "$dir/log")"
}

change() {
    printf 'zone-begin example.test\nzone-set example.test host%d 300 A 192.0.2.%d\n' "$1" $(($1 % 250))
    printf 'zone-set example.test host%d 300 TXT "%s"\n' "$1" "$(seq -s. "$1")"
    printf 'zone-unset example.test ns\nzone-set example.test ns 300 A 192.0.2.%d\n' $(($1 % 250))
    printf 'zone-commit example.test\n'
}

# load FROM TO: five changes a knotc.
load() {
    local i j end
    for ((i = $1; i <= $2; i = end + 1)); do
        end=$((i + 4 < $2 ? i + 4 : $2))
        for ((j = i; j <= end; j++)); do
            change "$j"
        done | ctl >"$tmp/answers" 2>&1
        if grep -q '^error' "$tmp/answers" || [ "$(grep -c '^OK' "$tmp/answers")" = 0 ]; then
            printf 'knotc: %s\n' "$(grep -m 1 '^error' "$tmp/answers")" >&2
            return 1
        fi
        ack "$end"
    done
}

zone() {
    ctl zone-read example.test | sort
}

dir=$tmp/plain
configure "$dir"
serve env
load 1 $records || fail "load, without the library"
zone >"$tmp/expected"
finish "$pid"
rm "$tmp/acked"

dir=$tmp/with
configure "$dir"
serve "${with[@]}"
crash_at 20 "$pid" load 1 $records
serve "${with[@]}"
zone | sed -n 's/.* host\([0-9]*\)\.example\.test\. 300 A .*/\1/p' >"$tmp/there"
survived <"$tmp/there"
load $((last + 1)) $records || fail "load, after the kill"
zone >"$tmp/got"
finish "$pid"
same "$tmp/expected" "$tmp/got" zone
judge "$dir/db/journal" "$dir/db/timers"
fact ran "$records changes of a zone over the control socket, killed after $last"
used 20
