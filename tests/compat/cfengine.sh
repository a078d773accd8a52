#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# CFEngine: classes that are to persist, each a transaction of the agent's state database; a later
# run finds them. The agent opens and closes its databases all the time, without syncing.
# packages: cfengine3
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
need cf-agent cf-promises cf-key
program cfengine3 "$(command -v cf-agent)"
records=800

# work DIR: where the agent keeps everything.
work() {
    export CFENGINE_TEST_OVERRIDE_WORKDIR=$1
    mkdir -p "$1/inputs" "$1/state" "$1/bin" "$1/ppkeys" "$1/outputs"
    chmod -R go= "$1"
    ln -s "$(command -v cf-promises)" "$1/bin/cf-promises"
    cf-key >/dev/null 2>&1 || fail "cf-key"
}

cat >"$tmp/load.cf" <<END
bundle agent main
{
vars:
  "n" slist => { expandrange("[1-$records]", 1) };
classes:
  "kept_\$(n)" expression => "any", persistence => "1000";
}
END
cat >"$tmp/list.cf" <<'END'
bundle agent main
{
vars:
  "kept" slist => classesmatching("kept_.*");
reports:
  "$(kept)";
}
END
chmod go= "$tmp"/*.cf

agent() {
    "${command[@]}" cf-agent -K -f "$tmp/$1.cf" 2>"$tmp/err"
}

kept() {
    agent list | sed -n 's/^R: kept_//p' | sort -n
}

# The agent says nothing: what a reader sees is what counts as acknowledged.
watch() {
    local n
    while kill -0 "$1" 2>/dev/null; do
        n=$(mdb_stat -n "$CFENGINE_TEST_OVERRIDE_WORKDIR/state/cf_state.lmdb" 2>/dev/null | sed -n 's/^ *Entries: //p')
        [ -z "$n" ] || ack "$n"
        sleep 0.02
    done
}

work "$tmp/plain"
command=(env)
agent load || fail "cf-agent, without the library: $(tail -n 3 "$tmp/err")"
kept >"$tmp/expected"
[ "$(wc -l <"$tmp/expected")" = $records ] || fail "$(wc -l <"$tmp/expected") classes are kept without the library"

work "$tmp/with"
command=("${with[@]}")
background "${with[@]}" cf-agent -K -f "$tmp/load.cf" >"$tmp/out" 2>&1
crash_at 200 "$pid" watch "$pid"
kept >"$tmp/there"
survived <"$tmp/there"
agent load || fail "cf-agent, after the kill: $(tail -n 3 "$tmp/err")"
kept >"$tmp/got"
same "$tmp/expected" "$tmp/got" "classes that are kept"
for file in "$tmp"/with/state/*.lmdb; do
    judge "$file"
done
[ -z "$(find "$tmp/with/state" -name '*broken*')" ] || fail "the agent found a database broken"
fact ran "$records persistent classes, killed after $last"
used 100
