#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# BIND's database of zones that were added at run time (rndc addzone). named opens it with
# MDB_NOLOCK|MDB_NOMETASYNC, anew for each change; group and relaxed need LMDB's locks and are refused.
# packages: bind9
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need named rndc
program bind9 "$(command -v named)"
records=60
port=$(free_port)
control=$(free_port)

configure() {
    mkdir -p "$1"
    cat >"$1/named.conf" <<END
key rndc { algorithm hmac-sha256; secret "cGFnZXdpc2U="; };
controls { inet 127.0.0.1 port $control allow { 127.0.0.1; } keys { rndc; }; };
options {
    directory "$1";
    pid-file "$1/pid";
    session-keyfile "$1/session.key";
    managed-keys-directory "$1";
    listen-on port $port { 127.0.0.1; };
    listen-on-v6 { none; };
    allow-new-zones yes;
    recursion no;
    notify no;
    dnssec-validation no;
};
END
    cat >"$1/rndc.conf" <<END
key rndc { algorithm hmac-sha256; secret "cGFnZXdpc2U="; };
options { default-key rndc; default-server 127.0.0.1; default-port $control; };
END
    cat >"$1/zone" <<'END'
$TTL 3600
@ SOA ns hostmaster 1 3600 900 86400 300
@ NS ns
ns A 192.0.2.1
END
}

ctl() {
    rndc -c "$dir/rndc.conf" "$@" >"$tmp/answer" 2>&1
}

serve() {
    background "$@" named -g -c "$dir/named.conf" 2>>"$dir/log"
    wait_for 30 ctl status || fail "named does not answer: $(tail -n 5 "$dir/log")"
}

# load FROM TO
load() {
    local i
    for ((i = $1; i <= $2; i++)); do
        if ! ctl addzone "zone$i.test" "{ type master; file \"$dir/zone\"; };"; then
            cat "$tmp/answer" >&2
            return 1
        fi
        ack "$i"
    done
}

# zones DIR: as named's own reader of the file prints them, which is not under the preload.
zones() {
    named-nzd2nzf "$1/_default.nzd" | sed "s|$1|DIR|" | sort
}

dir=$tmp/plain
configure "$dir"
serve env
load 1 $records || fail "load, without the library"
ctl delzone zone7.test || fail "delzone: $(cat "$tmp/answer")"
finish "$pid"
zones "$dir" >"$tmp/expected"
rm "$tmp/acked"

dir=$tmp/with
configure "$dir"
serve "${with[@]}"
crash_at 25 "$pid" load 1 $records
serve "${with[@]}"
zones "$dir" | sed -n 's/^zone "zone\([0-9]*\)\.test".*/\1/p' >"$tmp/there"
survived <"$tmp/there"
for ((i = 1; i <= last; i++)); do
    ctl zonestatus "zone$i.test" || fail "zone$i.test after the kill: $(cat "$tmp/answer")"
done
load $((last + 1)) $records || fail "load, after the kill"
ctl delzone zone7.test || fail "delzone: $(cat "$tmp/answer")"
finish "$pid"
zones "$dir" >"$tmp/got"
same "$tmp/expected" "$tmp/got" zones
judge "$dir/_default.nzd"
fact ran "$records zones added by rndc, killed after $last, one deleted"
used 30
