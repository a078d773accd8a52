#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# slapd on back_mdb: 600 entries added, changed and searched over four connections at once.
# packages: slapd ldap-utils
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/../preload/lib.sh"
# shellcheck source=tests/compat/lib/slapd.sh
. "$(dirname "$0")/lib/slapd.sh"
export PATH=$PATH:/usr/sbin
need slapd ldapmodify ldapsearch

entries() {
    local i
    for ((i = $1; i < $2; i++)); do
        printf 'dn: cn=user%d,dc=test\nchangetype: add\nobjectClass: person\nsn: name%d\ndescription: %s\n\n' \
            "$i" $((i % 20)) "$(seq -s. $((i % 150)) $((i % 150 + 100)))"
        printf 'dn: cn=user%d,dc=test\nchangetype: modify\nadd: description\ndescription: second %d\n\n' "$i" "$i"
    done
}
for i in 0 1 2 3; do
    entries $((i * 150)) $((i * 150 + 150)) >"$tmp/$i.ldif"
done

# served DIR [SETTING...]: what is found at the end, on standard output.
served() {
    dir=$1
    shift
    local server i pids=()
    mkdir -p "$dir"
    configure dbnosync
    serve env "$@"
    server=$pid
    if [ $# -gt 0 ]; then
        process_has_it "$server" || fail "slapd runs without the library"
    fi
    base
    for i in 0 1 2 3; do
        { ldap modify <"$tmp/$i.ldif" && ldap search -b dc=test "(sn=name$i)"; } >"$dir/out.$i" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do
        wait "$i" || fail "a client failed: $(tail -n 2 "$dir"/out.?)"
    done
    ldap search -LLL -o ldif-wrap=no -b dc=test '(objectClass=person)' '*' | awk -v RS= '{ print | "sort" }'
    finish "$server" || fail "slapd ended with code $?"
}

served "$tmp/plain" >"$tmp/expected"
[ -s "$tmp/expected" ] || fail "nothing was found without the library"
n=0
for setting in "${settings[@]}"; do
    n=$((n + 1))
    served "$tmp/with.$n" LD_PRELOAD="$preload" MALLOC_CONF="$setting" >"$tmp/got"
    cmp "$tmp/expected" "$tmp/got" >&2 || fail "other results, MALLOC_CONF='$setting'"
done
