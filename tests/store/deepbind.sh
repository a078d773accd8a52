#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that open a module with RTLD_DEEPBIND, and LMDB with it: a preload of another name is not
# seen by them, the stand-in liblmdb.so.0 is.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
compat=$(dirname "$PGW_COMPAT")/liblmdb.so.0
ran=0

# commits FILE: of the part "store", of the last process that had one.
commits() {
    python3 -c 'import json, sys
n = [json.loads(l)["parts"]["store"]["commits"] for l in open(sys.argv[1]) if "store" in json.loads(l)["parts"]]
print(sum(n))' "$1" 2>/dev/null || echo 0
}

php=$(command -v php8.2 || command -v php)
if [ -n "$php" ] && "$php" -r 'exit(in_array("lmdb", dba_handlers()) ? 0 : 1);' 2>/dev/null; then
    cat >"$tmp/dba.php" <<'END'
<?php
$db = dba_open($argv[1], "n", "lmdb", 0644, 10485760);
for ($i = 0; $i < 200; $i++)
    dba_insert("key$i", str_repeat("v$i", 50), $db);
for ($i = 0; $i < 200; $i += 3)
    dba_delete("key$i", $db);
dba_close($db);
$db = dba_open($argv[1], "r", "lmdb");
$n = 0;
for ($k = dba_firstkey($db); $k !== false; $k = dba_nextkey($db)) {
    if (dba_fetch($k, $db) !== str_repeat("v" . substr($k, 3), 50))
        exit(1);
    $n++;
}
exit($n == 133 ? 0 : 1);
END
    LD_PRELOAD=$compat PAGEWISE_STATS=$tmp/php.stats "$php" "$tmp/dba.php" "$tmp/php.mdb" || fail "php dba"
    n=$(commits "$tmp/php.stats")
    [ "$n" -ge 267 ] || fail "php dba: $n commits through the stand-in"
    mdb_stat -n "$tmp/php.mdb" | grep -q 'Entries: 133' || fail "mdb_stat of php's file"
    echo "php dba: $n commits"
    ran=1
fi

if command -v ldbadd >/dev/null && [ -e "$(find /usr/lib -name mdb.so -path '*ldb*' 2>/dev/null | head -n 1)" ]; then
    # A database on LMDB must be indexed by GUID, and every record must have one.
    {
        printf 'dn: @INDEXLIST\n@IDXONE: 1\n@IDXGUID: objectUUID\n@IDX_DN_GUID: GUID\n\n'
        for i in $(seq 50); do
            printf 'dn: cn=user%d\nobjectClass: person\nnumber: %d\nobjectUUID: %016d\n\n' "$i" "$i" "$i"
        done
    } >"$tmp/in.ldif"
    LD_PRELOAD=$compat PAGEWISE_STATS=$tmp/ldb.stats ldbadd -H "mdb://$tmp/ldb.mdb" "$tmp/in.ldif" >/dev/null ||
        fail "ldbadd"
    found=$(LD_PRELOAD=$compat ldbsearch -H "mdb://$tmp/ldb.mdb" '(number=*)' dn | grep -c '^dn: cn=user')
    [ "$found" = 50 ] || fail "ldbsearch found $found records, not 50"
    n=$(commits "$tmp/ldb.stats")
    [ "$n" -ge 1 ] || fail "ldbadd: no commit through the stand-in"
    echo "ldb: $n commits"
    ran=1
fi

[ $ran = 1 ] || skip "neither PHP with an lmdb handler (Debian: php8.2-cli, php8.2-dba) nor ldb-tools is installed"
