#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# samba's ldb opens its modules with RTLD_DEEPBIND: entries added, changed, searched and deleted.
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need ldbadd ldbsearch ldbmodify ldbdel

# The back end for LMDB wants its index by a 16-byte identifier of each entry.
printf 'dn: @INDEXLIST\n@IDXGUID: objectUUID\n@IDX_DN_GUID: GUID\n@IDXATTR: mail\n\n' >"$tmp/index.ldif"
for i in $(seq 1 150); do
    printf 'dn: cn=user%d,dc=example\nobjectUUID: 0123456789%06d\nobjectClass: person\nmail: user%d@example.com\ndescription: %*s\n\n' \
        "$i" "$i" "$i" $((i * 7)) "$i"
done >"$tmp/add.ldif"
for i in $(seq 1 3 150); do
    printf 'dn: cn=user%d,dc=example\nchangetype: modify\nreplace: mail\nmail: changed%d@example.com\n\n' "$i" "$i"
done >"$tmp/modify.ldif"

export tmp

session() {
    local url
    for url in mdb://users.ldb tdb://users.tdb; do
        ldbadd -H $url "$tmp/index.ldif" && ldbadd -H $url "$tmp/add.ldif" &&
            ldbmodify -H $url "$tmp/modify.ldif" &&
            ldbdel -H $url cn=user7,dc=example cn=user8,dc=example &&
            ldbsearch -H $url --sorted '(mail=changed*)' && ldbsearch -H $url '(cn=user7)' || return
    done
}
export -f session
same bash -c session
