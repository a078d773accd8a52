#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# OpenLDAP's slapd on back_mdb: as it is, with MDB_WRITEMAP, and with MDB_NOSYNC, which is served as
# relaxed here. back_mdb carries an LMDB and calls it by symbols that a preload answers; at start it
# compares versions and takes none older than its own. The library says honestly which LMDB is inside, so
# where that is an older one (Debian 12, 13 and sid) slapd does not start; that is tested, and then, with
# an object that answers another version, the rest.
# packages: slapd ldap-utils
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/compat/lib/slapd.sh
. "$(dirname "$0")/lib/slapd.sh"
need slapd slapcat ldapadd
program slapd "$(find /usr/lib/ldap -name 'back_mdb.so' 2>/dev/null | head -n 1)"
records=150

entries() {
    local i
    for ((i = $1; i <= $2; i++)); do
        printf 'dn: cn=user%d,dc=test\nchangetype: add\nobjectClass: person\nsn: name%d\ndescription: %s\n\n' \
            "$i" $((i % 20)) "$(seq -s. "$i")"
        printf 'dn: dc=test\nchangetype: modify\nreplace: o\no: newest %d\n\n' "$i"
    done
}

# load FROM TO: an add and a modify each, ten records an ldapmodify.
load() {
    local i
    for ((i = $1; i <= $2; i += 10)); do
        entries "$i" $((i + 9 < $2 ? i + 9 : $2)) | ldap modify >"$tmp/out" 2>&1 || return 1
        ack $((i + 9 < $2 ? i + 9 : $2))
    done
}

tree() {
    ldap search -LLL -o ldif-wrap=no -b dc=test '(objectClass=*)' '*'
}

version_of_lmdb() {
    python3 -c 'import ctypes, sys
f = ctypes.CDLL(sys.argv[1]).mdb_version
parts = [ctypes.c_int() for _ in range(3)]
f(*map(ctypes.byref, parts))
print(".".join(str(p.value) for p in parts))' "$library"
}

inside=$(version_of_lmdb)
front='' note=''
dir=$tmp/version
configure
slaptest -u -f "$dir/slapd.conf" >"$dir/log" 2>&1 || fail "slapd, without the library: $(cat "$dir/log")"
if ! "${with[@]}" slaptest -u -f "$dir/slapd.conf" >"$dir/log" 2>&1; then
    wanted=$(sed -n "s/.*version mismatch: expected LMDB \([0-9.]*\):.*got LMDB $inside:.*/\1/p" "$dir/log")
    [ -n "$wanted" ] || fail "slapd: $(cat "$dir/log")"
    [ "$(printf '%s\n%s\n' "$inside" "$wanted" | sort -V | tail -n 1)" = "$wanted" ] ||
        fail "slapd wants LMDB $wanted and refuses $inside"
    fact refused "back_mdb wants LMDB $wanted or later; the library has $inside inside, says so, and slapd does not start"
    # To see how far it would come: an object in front of the library answers what slapd wants to hear.
    command -v cc >/dev/null || skip "slapd wants LMDB $wanted or later and refuses the library, which has $inside inside"
    cat >"$tmp/version.c" <<END
#include <stdio.h>
char *mdb_version(int *major, int *minor, int *patch)
{
	int v[3];

	sscanf("$wanted", "%d.%d.%d", v, v + 1, v + 2);
	if (major)
		*major = v[0];
	if (minor)
		*minor = v[1];
	if (patch)
		*patch = v[2];
	return "LMDB $wanted, says a test";
}
END
    cc -shared -fPIC -o "$tmp/version.so" "$tmp/version.c" || fail "cc"
    front="$tmp/version.so "
    note="; started by an object that answers $wanted to mdb_version, without which it refuses LMDB $inside"
fi

for how in plain writemap nosync; do
    case $how in
    plain) options= ;;
    *) options="envflags $how" ;;
    esac
    dir=$tmp/without.$how
    configure "$options"
    serve env
    base
    load 1 $records || fail "load, without the library, $how: $(cat "$tmp/out")"
    tree >"$tmp/expected"
    finish "$pid"
    rm "$tmp/acked"

    dir=$tmp/with.$how
    configure "$options"
    asked=$mode
    if [ $how = nosync ]; then
        mode=relaxed
        preload "$library"
        with+=(PAGEWISE_STORE=nosync:relaxed)
    fi
    [ -z "$front" ] || with+=(LD_PRELOAD="$front$library")
    serve "${with[@]}"
    base
    crash_at 50 "$pid" load 1 $records
    serve "${with[@]}"
    tree | sed -n 's/^cn: user\([0-9]*\)$/\1/p' >"$tmp/there"
    survived <"$tmp/there"
    load $((last + 1)) $records || fail "load, after the kill, $how: $(cat "$tmp/out")"
    tree >"$tmp/got"
    finish "$pid"
    same "$tmp/expected" "$tmp/got" "what ldapsearch finds, $how"
    judge "$dir/db"
    mode=$asked
    preload "$library"
done
fact ran "$records adds and modifies each, as it is, with writemap, with nosync as relaxed, killed after $last$note"
used 100
