#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# nginx with two workers: 400 files of all sizes over 40 connections at once, compressed and plain, with a
# reload in the middle.
# packages: nginx-light
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/../preload/lib.sh"
export PATH=$PATH:/usr/sbin
need nginx python3

mkdir "$tmp/www"
awk -v dir="$tmp/www" 'BEGIN { for (i = 0; i < 100; i++) { n = 1 + i * i * 13; s = ""
    for (j = 0; length(s) < n; j++) s = s (i * j) ","; print s > (dir "/" i ".txt") } }'

cat >"$tmp/get.py" <<'END'
"""All files, plain and compressed, by many connections at once; a digest of each."""
import gzip
import hashlib
import http.client
import socket
import sys
from concurrent.futures import ThreadPoolExecutor


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(sys.argv[1])


def get(i):
    c = Connection("test")
    c.request("GET", "/%d.txt" % (i % 100), headers={"Accept-Encoding": "gzip"} if i % 2 else {})
    r = c.getresponse()
    body = r.read()
    if r.getheader("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return "%d %d %s" % (i, r.status, hashlib.sha256(body).hexdigest())


with ThreadPoolExecutor(40) as pool:
    for line in pool.map(get, range(400)):
        print(line)
END

serve() {
    local dir=$1 server
    shift
    mkdir "$dir"
    cat >"$dir/conf" <<END
daemon off;
master_process on;
worker_processes 2;
pid $dir/pid;
error_log $dir/log;
$([ "$(id -u)" != 0 ] || echo "user root;")
events { worker_connections 128; }
http {
    access_log off;
    types { text/plain txt; }
    gzip on;
    gzip_min_length 100;
    client_body_temp_path $dir/body;
    proxy_temp_path $dir/proxy;
    fastcgi_temp_path $dir/fastcgi;
    uwsgi_temp_path $dir/uwsgi;
    scgi_temp_path $dir/scgi;
    server { listen unix:$dir/s; root $tmp/www; }
}
END
    background env "$@" nginx -p "$dir" -c "$dir/conf" -e "$dir/log"
    server=$pid
    wait_for 20 test -S "$dir/s" || fail "nginx does not listen: $(tail -n 3 "$dir/log")"
    wait_for 20 python3 "$tmp/get.py" "$dir/s" || fail "nginx does not answer: $(tail -n 3 "$dir/log")"
    if [ $# -gt 0 ]; then
        process_has_it "$server" || fail "nginx runs without the library"
    fi
    kill -HUP "$server"
    python3 "$tmp/get.py" "$dir/s" || fail "after the reload: $(tail -n 3 "$dir/log")"
    finish "$server" || fail "nginx ended with code $?"
}

serve "$tmp/plain" >"$tmp/expected"
grep -q ' 200 ' "$tmp/expected" || fail "no file was served without the library"
n=0
for setting in "${settings[@]}"; do
    n=$((n + 1))
    serve "$tmp/with.$n" LD_PRELOAD="$preload" MALLOC_CONF="$setting" >"$tmp/got"
    cmp "$tmp/expected" "$tmp/got" >&2 || fail "another digest, MALLOC_CONF='$setting'"
done
