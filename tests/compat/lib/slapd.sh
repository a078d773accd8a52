# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# slapd.sh - slapd on back_mdb, for the tests of both libraries: all in the folder $dir, on a Unix socket.
# Sourced by bash, after a lib.sh.
#
# shellcheck disable=SC2154 # $dir

# configure [LINE]: with this line in its configuration as well.
configure() {
    mkdir -p "$dir/db"
    cat >"$dir/slapd.conf" <<END
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $dir/pid
database mdb
suffix "dc=test"
rootdn "cn=admin,dc=test"
rootpw secret
directory $dir/db
maxsize 268435456
index objectClass,sn eq
${1-}
END
}

socket() {
    printf 'ldapi://%s' "${dir//\//%2F}%2Fsock"
}

# ldap add|modify|search ARGUMENTS...
ldap() {
    "ldap$1" -x -H "$(socket)" -D cn=admin,dc=test -w secret "${@:2}"
}

answers() {
    ldap search -s base -b ''
}

# serve COMMAND...: start it by "COMMAND... slapd"; its process id is in $pid.
serve() {
    background "$@" slapd -d 0 -h "$(socket)" -f "$dir/slapd.conf" 2>>"$dir/log"
    wait_for 20 answers || fail "slapd does not answer: $(tail -n 5 "$dir/log")"
}

# The entry that all others are under.
base() {
    printf 'dn: dc=test\nobjectClass: organization\nobjectClass: dcObject\ndc: test\no: newest 0\n' |
        ldap add >"$dir/out" 2>&1 || fail "the base could not be added: $(cat "$dir/out")"
}
