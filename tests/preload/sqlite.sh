#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# sqlite3: a table of 60,000 rows in memory and in a file: indexed, thinned out, vacuumed, joined.
# packages: sqlite3
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need sqlite3

cat >"$tmp/script" <<'END'
CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT, v BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO t SELECT i, hex((i * 7919) % 60013), zeroblob(i % 300) FROM n;
CREATE INDEX tk ON t(k);
SELECT count(*), sum(length(v)), min(k), max(k) FROM t;
DELETE FROM t WHERE id % 3 = 0;
VACUUM;
SELECT k, count(*) FROM t GROUP BY substr(k, 1, 2) ORDER BY 2 DESC, 1 LIMIT 20;
SELECT group_concat(k) FROM (SELECT a.k FROM t a JOIN t b ON a.k = b.k ORDER BY a.k LIMIT 2000);
PRAGMA integrity_check;
END
in_memory() {
    sqlite3 :memory: <"$tmp/script"
}
in_file() {
    sqlite3 file.db <"$tmp/script"
}
export -f in_memory in_file
export tmp
for where in in_memory in_file; do
    rm -rf "$tmp"/plain "$tmp"/with.*
    same bash -c "$where"
    tail -n 1 "$tmp/got" | grep -qx ok || fail "integrity check"
done
