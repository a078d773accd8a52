#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# PHP's dba. PHP opens its modules with RTLD_DEEPBIND: they see what is called liblmdb.so.0, and no
# preload of another name.
# packages: php8.2-cli php8.2-dba
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
php=$(command -v php8.2 || command -v php) || skip "php is not installed (Debian package php8.2-cli)"
"$php" -r 'exit(in_array("lmdb", dba_handlers()) ? 0 : 1);' 2>/dev/null ||
    skip "PHP has no handler for LMDB (Debian package php8.2-dba)"
program php8.2-dba "$("$php" -r 'echo ini_get("extension_dir");')/dba.so"
preload "$PGW_COMPAT"
records=400

cat >"$tmp/load.php" <<'END'
<?php
// load.php FILE LAST [ACKED]
$db = dba_open($argv[1], "c", "lmdb", 0644, 1 << 26);
for ($first = 1; dba_exists("key$first", $db); $first++)
    ;
for ($i = $first; $i <= $argv[2]; $i++) {
    dba_replace("newest", "$i", $db);
    dba_insert("key$i", str_repeat("$i ", $i % 300 + 1), $db) or exit(1);
    if (isset($argv[3])) {
        file_put_contents("$argv[3].new", "$i\n");
        rename("$argv[3].new", $argv[3]);
    }
}
dba_close($db);
END
cat >"$tmp/keys.php" <<'END'
<?php
$db = dba_open($argv[1], "w", "lmdb");
for ($key = dba_firstkey($db); $key !== false; $key = dba_nextkey($db)) {
    if ($key === "newest")
        continue;
    $i = substr($key, 3);
    if (dba_fetch($key, $db) !== str_repeat("$i ", $i % 300 + 1))
        exit(1);
    echo "$i\n";
}
dba_close($db);
END

"$php" "$tmp/load.php" "$tmp/plain.mdb" $records || fail "load, without the library"
background "${with[@]}" "$php" "$tmp/load.php" "$tmp/with.mdb" $records "$tmp/acked"
crash_at 100 "$pid"
"${with[@]}" "$php" "$tmp/keys.php" "$tmp/with.mdb" >"$tmp/there" || fail "after the kill"
survived <"$tmp/there"
"${with[@]}" "$php" "$tmp/load.php" "$tmp/with.mdb" $records || fail "load, after the kill"
dump "$tmp/plain.mdb" >"$tmp/expected"
dump "$tmp/with.mdb" >"$tmp/got"
same "$tmp/expected" "$tmp/got" dump
judge "$tmp/with.mdb"
fact ran "$records records, two transactions each, killed after $last; by the stand-in liblmdb.so.0"
used 150
