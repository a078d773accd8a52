#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# PowerDNS on its LMDB backend: records added through the server's HTTP interface, each a
# transaction; pdnsutil, another process, reads beside it.
# packages: pdns-server pdns-backend-lmdb
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need pdns_server pdnsutil
program pdns-backend-lmdb "$(find /usr/lib -name liblmdbbackend.so 2>/dev/null | head -n 1)"
records=200
port=$(free_port)
dns_port=$(free_port)

configure() {
    mkdir -p "$1"
    cat >"$1/pdns.conf" <<END
launch=lmdb
lmdb-filename=$1/pdns.lmdb
lmdb-shards=2
local-address=127.0.0.1
local-port=$dns_port
socket-dir=$1
webserver=yes
webserver-address=127.0.0.1
webserver-port=$port
webserver-loglevel=none
api=yes
api-key=key
default-soa-content=ns.example.test hostmaster.@ 0 10800 3600 604800 3600
guardian=no
daemon=no
loglevel=3
END
}

cat >"$tmp/api.py" <<'END'
"""api.py PORT ACKED new|load|zone [FROM TO]"""
import json
import os
import sys
import urllib.request

base = "http://127.0.0.1:%s/api/v1/servers/localhost" % sys.argv[1]


def call(method, path, body=None):
    r = urllib.request.Request(base + path, method=method, headers={"X-API-Key": "key"},
                               data=json.dumps(body).encode() if body else None)
    with urllib.request.urlopen(r, timeout=60) as answer:
        return answer.read()


def rrset(name, kind, content):
    return {"name": name + ".example.test.", "type": kind, "ttl": 300, "changetype": "REPLACE",
            "records": [{"content": content, "disabled": False}]}


if sys.argv[3] == "new":
    call("POST", "/zones", {"name": "example.test.", "kind": "Native", "soa_edit_api": "OFF",
                            "nameservers": ["ns.example.test."]})
elif sys.argv[3] == "load":
    for i in range(int(sys.argv[4]), int(sys.argv[5]) + 1):
        call("PATCH", "/zones/example.test.", {"rrsets": [
            rrset("host%d" % i, "A", "192.0.2.%d" % (i % 250)),
            rrset("host%d" % i, "TXT", '"%s"' % ("%d." % i * (i % 50))),
            rrset("newest", "TXT", '"%d"' % i)]})
        with open(sys.argv[2] + ".new", "w") as f:
            f.write("%d\n" % i)
        os.rename(sys.argv[2] + ".new", sys.argv[2])
else:
    zone = json.loads(call("GET", "/zones/example.test."))
    for r in sorted(zone["rrsets"], key=lambda r: (r["name"], r["type"])):
        print(r["name"], r["type"], r["ttl"], [x["content"] for x in r["records"]])
END

api() {
    python3 "$tmp/api.py" "$port" "$tmp/acked" "$@"
}

load() {
    api load "$@"
}

answers() {
    python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)' "$port"
}

serve() {
    background "$@" pdns_server --config-dir="$dir" >>"$dir/log" 2>&1
    wait_for 30 answers || fail "pdns_server does not answer: $(tail -n 5 "$dir/log")"
}

dir=$tmp/plain
configure "$dir"
serve env
api new || fail "no zone could be made, without the library"
load 1 $records || fail "load, without the library"
api zone >"$tmp/expected"
finish "$pid"
rm "$tmp/acked"

dir=$tmp/with
configure "$dir"
serve "${with[@]}"
api new || fail "no zone could be made"
crash_at 60 "$pid" load 1 $records
serve "${with[@]}"
api zone | sed -n 's/^host\([0-9]*\)\.example\.test\. A .*/\1/p' >"$tmp/there"
survived <"$tmp/there"
load $((last + 1)) $records || fail "load, after the kill"
# pdnsutil begins a write transaction to look whether the schema is current: in group and relaxed a
# second process that writes is refused, and it has to wait until the server is down.
list() {
    "${with[@]}" pdnsutil --config-dir="$dir" list-zone example.test >"$tmp/listed" 2>"$tmp/err"
}
beside="pdnsutil beside the server"
if [ "$mode" = strict ]; then
    list || fail "$beside: $(cat "$tmp/err")"
else
    list && fail "$beside was not refused in $mode"
    grep -q PGW_BUSY "$tmp/err" || fail "$beside: $(cat "$tmp/err")"
    beside="$beside is refused, after it it works"
fi
api zone >"$tmp/got"
finish "$pid"
# pdns_server leaves by _exit: it writes no report, and in group and relaxed nobody closes its files.
# They stay fenced until they are opened again, which is also a proof of who wrote them.
if [ "$mode" != strict ]; then
    mdb_stat -n "$dir/pdns.lmdb" >/dev/null 2>&1 && fail "pdns.lmdb was not fenced in $mode"
fi
for i in 1 2 3; do
    "${with[@]}" pdnsutil --config-dir="$dir" add-record example.test. "after$i" A 192.0.2.1 >"$tmp/out" 2>&1 ||
        fail "pdnsutil after the server: $(cat "$tmp/out")"
done
list || fail "pdnsutil after the server: $(cat "$tmp/err")"
grep -qP "^host$records.example.test\t300\tIN\tA\t" "$tmp/listed" || fail "pdnsutil does not see the last record"
same "$tmp/expected" "$tmp/got" zone
# The main file, and one a shard.
for file in "$dir"/pdns.lmdb*; do
    case $file in
    *-lock) ;;
    *) judge "$file" ;;
    esac
done
fact ran "$records changes by HTTP, killed after $last; $beside. Counted are pdnsutil's"
used 3
