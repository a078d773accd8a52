#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pagewise probe: the table, the JSON, and paths of every kind.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
pagewise=$(readlink -f "$1")
python=/usr/bin/python3
unset PAGEWISE_KERNEL PAGEWISE_SYNC PAGEWISE_STATS

# field EXPRESSION: of the JSON object j in $tmp/json.
field() {
    $python -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
        "$tmp/json" "$1"
}

probe_json() {
    expect_code 0 "$pagewise" probe --json "$@" >"$tmp/json"
    $python -m json.tool "$tmp/json" >/dev/null || fail "this is not JSON: $(cat "$tmp/json")"
}

expect_field() {
    local got
    got=$(field "$1")
    [ "$got" = "$2" ] || fail "$1 is '$got', not '$2'"
}

cd "$tmp" || exit 1
: >empty
head -c 10000 /dev/zero >file
cksum file >before

# Text: every advice once, the current directory by default.
expect_code 0 "$pagewise" probe >text
for advice in DONTNEED FREE DONTNEED_LOCKED COLD PAGEOUT WILLNEED POPULATE_READ POPULATE_WRITE \
    COLLAPSE DONTDUMP DODUMP; do
    [ "$(grep -c "^$advice " text)" = 1 ] || fail "$advice is not in the table once"
done
grep -q '^\. ' text || fail "the current directory is not in the table"

# JSON says the same.
probe_json
expect_field 'len(j["advice"])' 11
expect_field 'all(a["reason"] for a in j["advice"])' True
expect_field 'j["mode"]' auto
expect_field 'j["kernel"]["release"]' "$(uname -r)"
expect_field 'j["page_size"]' "$(getconf PAGESIZE)"
expect_field '[p["path"] for p in j["sync"]]' "['.']"
expect_field 'j["sync"][0]["strategy"] in ("span", "writeout", "fdatasync")' True
while read -r name route; do
    grep -q "^$name  *$route " text || fail "text and JSON differ about $name"
done < <(field '"\n".join(a["name"] + " " + a["route"] for a in j["advice"])')

# The modes.
PAGEWISE_KERNEL=loop probe_json
expect_field 'j["mode"]' loop
expect_field '[a["name"] for a in j["advice"] if a["route"] == "vectored"]' '[]'
PAGEWISE_KERNEL=off probe_json
expect_field 'j["mode"]' off
expect_field '[a["name"] for a in j["advice"] if a["proven"]]' '[]'

# With off, no probing call: strace sees no advice and no pidfd. (A sanitizer advises by itself.)
if [ "$2" = plain ] && strace -o /dev/null true 2>/dev/null; then
    PAGEWISE_KERNEL=off expect_code 0 strace -f -o trace \
        -e trace=madvise,process_madvise,pidfd_open "$pagewise" probe >/dev/null
    if grep -q -E 'madvise|pidfd_open' trace; then
        fail "PAGEWISE_KERNEL=off: $(grep -m 1 -E 'madvise|pidfd_open' trace)"
    fi
fi

# Paths: several, a file, an empty file; nothing is changed and nothing is left.
touch names
find . | sort >names
probe_json . file empty /tmp
expect_field 'len(j["sync"])' 4
expect_field '[p.get("error") for p in j["sync"]]' '[None, None, None, None]'
find . | sort | diff names - >&2 || fail "probe left a file behind"
cksum file | diff before - >&2 || fail "probe changed a file"
PAGEWISE_SYNC=fdatasync probe_json file
expect_field 'j["sync"][0]["strategy"], j["sync"][0]["forced"]' "('fdatasync', True)"

# Paths that cannot be examined: the others are still told, and the exit code says so.
mkfifo fifo
for bad in missing fifo /dev/null file/below; do
    expect_code 1 "$pagewise" probe "$bad" . >out
    grep -q "^$bad " out || fail "$bad is not in the table"
    grep -q '^\. ' out || fail "a bad path hid the next one"
    expect_code 1 "$pagewise" probe --json "$bad" . >json
    expect_field '"error" in j["sync"][0], "error" in j["sync"][1]' "(True, False)"
done

# A name that is no UTF-8 still gives JSON that can be read.
odd=$(printf 'odd\377\n"name')
: >"$odd"
probe_json "$odd"
expect_field 'j["sync"][0]["path"]' "$(printf 'odd\357\277\275\n"name')"

# Options after a path; bad options; output that cannot be written.
expect_code 0 "$pagewise" probe . --json >json
expect_field 'len(j["sync"])' 1
expect_code 2 "$pagewise" probe --no-such-option
expect_message "pagewise probe --help"
if [ -c /dev/full ]; then
    expect_code 1 "$pagewise" probe >/dev/full
    expect_message "cannot write the output"
fi
