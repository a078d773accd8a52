#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# PHP opens its extensions with RTLD_DEEPBIND; dba's handler for LMDB hands memory across.
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need php
php -r 'exit(function_exists("dba_handlers") && in_array("lmdb", dba_handlers()) ? 0 : 1);' ||
    skip "php has no dba with lmdb"

cat >"$tmp/script.php" <<'END'
<?php
$db = dba_open("db", "n", "lmdb", 0644, 64 << 20) or exit(1);
mt_srand(7);
for ($i = 0; $i < 500; $i++)
	dba_replace("key" . mt_rand(0, 200), str_repeat(chr(97 + $i % 26), mt_rand(1, 1500)), $db);
for ($i = 0; $i < 200; $i += 3)
	if (dba_exists("key$i", $db))
		dba_delete("key$i", $db);
dba_close($db);
$db = dba_open("db", "r", "lmdb") or exit(1);
$all = [];
for ($k = dba_firstkey($db); $k !== false; $k = dba_nextkey($db))
	$all[$k] = dba_fetch($k, $db);
dba_close($db);
ksort($all);
$words = [];
for ($i = 0; $i < 20000; $i++)
	$words[] = md5((string)$i);
sort($words);
echo count($all), " ", md5(serialize($all)), " ", md5(implode($words)), "\n";
END
same php "$tmp/script.php"
