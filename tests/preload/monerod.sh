#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Debian's monerod on a network of its own: it mines under the library and is stopped; without the
# library it finds the same chain again. Loopback only.
# packages: monero
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need monerod

# Of Monero's functional tests; nobody is paid on a network of one.
address=42ey1afDFnn4886T7196doS9GPMzexD9gXpsZJDwVjeRVdFCSoHnv7KPbBeGpzJBzHRCAs9UxqeoyFQMYbqSWYTfJJQAWDm
blocks=6

# rpc METHOD PARAMS FIELD...: the fields of the answer, a line each.
rpc() {
    /usr/bin/python3 - "$port" "$@" <<'END'
import json
import sys
import urllib.request

port, method, params, *fields = sys.argv[1:]
body = json.dumps({"jsonrpc": "2.0", "id": "0", "method": method, "params": json.loads(params)})
request = urllib.request.Request(f"http://127.0.0.1:{port}/json_rpc", body.encode(),
                                 {"Content-Type": "application/json"})
with urllib.request.urlopen(request, timeout=100) as answer:
    got = json.load(answer)
if "result" not in got:
    sys.exit(f"{method}: {got}")
for field in fields:
    print(got["result"][field])
END
}

free_port() {
    /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start COMMAND-PREFIX...: monerod is $pid.
start() {
    port=$(free_port) || fail "no free port"
    background "$@" monerod --regtest --keep-fakechain --offline --fixed-difficulty 1 --data-dir "$tmp/node" \
        --non-interactive --no-zmq --check-updates disabled --rpc-bind-ip 127.0.0.1 --rpc-bind-port "$port" \
        --log-file "$tmp/bitmonero.log" >"$tmp/log" 2>&1 </dev/null
    wait_for 100 rpc get_info '{}' || fail "monerod does not answer: $(tail -n 5 "$tmp/log")"
}

stop() {
    kill "$pid" || fail "monerod is gone: $(tail -n 5 "$tmp/log")"
    wait "$pid" || fail "monerod left with $?: $(tail -n 5 "$tmp/log")"
}

facts() {
    rpc get_info '{}' height top_block_hash tx_count
}

height=1
for setting in "${settings[@]}"; do
    start env LD_PRELOAD="$preload" MALLOC_CONF="$setting"
    process_has_it "$pid" || fail "monerod runs without the library"
    rpc generateblocks "{\"amount_of_blocks\": $blocks, \"wallet_address\": \"$address\"}" height >"$tmp/mined" ||
        fail "no blocks with MALLOC_CONF='$setting': $(tail -n 5 "$tmp/log")"
    height=$((height + blocks))
    facts >"$tmp/with" || fail "monerod does not answer"
    stop
    [ "$(head -n 1 "$tmp/with")" = $height ] || fail "height $(head -n 1 "$tmp/with"), not $height"

    start env
    process_has_it "$pid" && fail "monerod has the library when it should not"
    facts >"$tmp/without" || fail "monerod does not answer"
    stop
    cmp "$tmp/with" "$tmp/without" >&2 || fail "another chain without the library"
done
