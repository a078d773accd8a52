#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# PostgreSQL: a table of 60,000 rows sorted, joined, grouped and indexed with little and much working
# memory, in parallel workers, by four clients at once; then the server is killed and started again.
# packages: postgresql-15
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/../preload/lib.sh"
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || skip "PostgreSQL is not installed (Debian package postgresql-15)"
# The server refuses to run as root.
as=()
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || skip "there is no user postgres to run the server as"
    as=(setpriv --reuid postgres --regid postgres --clear-groups)
    chown postgres "$tmp"
fi

cat >"$tmp/sql" <<'END'
\t
DROP TABLE IF EXISTS t;
CREATE TABLE t AS SELECT i AS id, md5(i::text) AS k, repeat(i::text, i % 40) AS v FROM generate_series(1, 60000) i;
CREATE INDEX ON t (k);
ANALYZE t;
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET work_mem = '64kB';
SELECT count(*), sum(length(v)), min(k), max(k) FROM t;
SELECT md5(string_agg(k, ',' ORDER BY k DESC)) FROM t;
SET work_mem = '64MB';
SELECT md5(string_agg(k, ',' ORDER BY k DESC)) FROM t;
SELECT left(k, 2), count(*), md5(string_agg(v, ',' ORDER BY id)) FROM t GROUP BY 1 ORDER BY 1 LIMIT 40;
SELECT count(*) FROM t a JOIN t b ON left(a.k, 5) = left(b.k, 5);
END
cat >"$tmp/client" <<'END'
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
SELECT md5(string_agg(x, '')) FROM (SELECT md5(i::text) x FROM n ORDER BY 1) s;
SELECT md5(jsonb_agg(to_jsonb(t) ORDER BY id)::text) FROM t WHERE id < 5000;
END

sql() {
    "${as[@]}" "$bin/psql" -X -q -A -h "$dir" -d postgres "$@"
}

start() {
    background "${as[@]}" env "$@" "$bin/postgres" -D "$dir/db" -k "$dir" -c listen_addresses= 2>>"$dir/log"
    wait_for 60 sql -c 'SELECT 1' || fail "PostgreSQL does not answer: $(tail -n 3 "$dir/log")"
    [ $# = 0 ] || process_has_it "$pid" || fail "PostgreSQL runs without the library"
}

serve() {
    local i pids=()
    dir=$1
    shift
    "${as[@]}" mkdir "$dir"
    "${as[@]}" env "$@" "$bin/initdb" -D "$dir/db" -A trust --no-sync >"$dir/init" 2>&1 ||
        fail "initdb: $(tail -n 3 "$dir/init")"
    start "$@"
    sql -f - <"$tmp/sql" 2>&1
    for i in 1 2 3 4; do
        sql -t -f - <"$tmp/client" >"$tmp/client.$i" 2>&1 &
        pids+=($!)
    done
    wait "${pids[@]}"
    cat "$tmp"/client.?
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    # Its children notice and end; the new server waits for them.
    wait_for 60 no_children || fail "processes of the killed server stay"
    rm -f "$dir/db/postmaster.pid"
    start "$@"
    sql -t -c "SELECT count(*), md5(string_agg(v, ',' ORDER BY id)) FROM t" 2>&1
    kill -INT "$pid"
    wait "$pid" || fail "PostgreSQL ended with code $?: $(tail -n 3 "$dir/log")"
}

# They work in the data directory.
no_children() {
    ! find /proc/[0-9]*/cwd -maxdepth 0 -lname "$dir/db" 2>/dev/null | grep -q .
}

serve "$tmp/plain" >"$tmp/expected"
if grep -q ERROR "$tmp/expected"; then fail "without the library: $(grep -m 1 ERROR "$tmp/expected")"; fi
n=0
for setting in "${settings[@]}"; do
    n=$((n + 1))
    serve "$tmp/with.$n" LD_PRELOAD="$preload" MALLOC_CONF="$setting" >"$tmp/got"
    cmp "$tmp/expected" "$tmp/got" >&2 || fail "other results, MALLOC_CONF='$setting'"
done
