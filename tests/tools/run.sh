#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pagewise run: what it sets, how the command ends, and what it says when it cannot.
#
# Works on a copy of the program in a tree of its own, with empty files for libraries where the
# loader is not to see them, so that it needs neither alloc nor store.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"
built=$(readlink -f "$1")
unset PAGEWISE_STATS LD_PRELOAD

# A build folder: DIR/tools/pagewise/pagewise and the libraries beside it.
tree() {
    mkdir -p "$1/tools/pagewise" "$1/alloc" "$1/store/compat"
    cp "$built" "$1/tools/pagewise/pagewise"
    : >"$1/alloc/libpagewise-alloc.so"
    : >"$1/store/compat/liblmdb.so.0"
}
tree "$tmp/build"
pagewise=$tmp/build/tools/pagewise/pagewise
alloc=$tmp/build/alloc/libpagewise-alloc.so
store=$tmp/build/store/compat/liblmdb.so.0
cd "$tmp" || exit 1

# shellcheck disable=SC2016 # the command's variables
show='printf "%s\n" "${LD_PRELOAD-unset}" "${PAGEWISE_STATS-unset}"'

# expect_environment PRELOAD STATS RUN-OPTIONS...; given is what pagewise itself is given.
given=()
expect_environment() {
    local preload=$1 stats=$2
    shift 2
    env "${given[@]}" "$pagewise" run "$@" /bin/sh -c "$show" >out 2>err || fail "run $*: $(cat err)"
    printf '%s\n' "$preload" "$stats" | diff - out >&2 || fail "environment of run $*"
}

# What is set.
expect_environment "$alloc:$store" unset
expect_environment "$alloc:$store" unset --
expect_environment "$store" unset --no-alloc
expect_environment "$alloc" unset --no-store
expect_environment unset unset --no-alloc --no-store
expect_environment "$alloc" 1 --no-store --stats
expect_environment "$alloc" "$tmp/s.%p" --no-store --stats=s.%p
expect_environment "$alloc" /s.%p --no-store --stats=/s.%p
given=(LD_PRELOAD=libother.so)
expect_environment "$alloc:$store:libother.so" unset
expect_environment libother.so unset --no-alloc --no-store
given=(PAGEWISE_STATS=kept)
expect_environment "$alloc" kept --no-store

# From here on without libraries: how the command ends.
bare() {
    "$pagewise" run --no-alloc --no-store "$@"
}

# Exit codes, arguments, signals.
for code in 0 1 77 125 255; do
    expect_code $code bare sh -c "exit $code"
done
[ "$(bare printf '%s|' a 'b c' --stats '')" = 'a|b c|--stats||' ] || fail "arguments"
# shellcheck disable=SC2016 # $$ is the command's
expect_code 143 bare sh -c 'kill -TERM $$'
# shellcheck disable=SC2016
bare sh -c 'echo $PPID' >ppid
[ "$(cat ppid)" = $$ ] || fail "there is a process between"
background bare sleep 60
kill -INT "$pid"
kill -TERM "$pid"
wait "$pid"
code=$?
[ $code = 143 ] || [ $code = 130 ] || fail "the signal did not reach the command: $code"

# What cannot be started.
expect_code 127 bare no-such-program
expect_message "no-such-program: command not found"
expect_code 127 bare ./no/such/file
expect_message "command not found"
echo 'exit 0' >plain
expect_code 126 bare ./plain
expect_message "cannot run ./plain: Permission denied"
expect_code 126 bare "$tmp"
expect_message "cannot run $tmp"
printf '#!/no/such/interpreter\n' >script
chmod +x script
expect_code 126 bare ./script
expect_message "its interpreter does not exist"
PATH='' expect_code 127 "$pagewise" run --no-alloc --no-store no-such-program

# Bad use.
expect_code 125 "$pagewise" run
expect_message "no command to run"
expect_code 125 "$pagewise" run --no-such-option true
expect_message "pagewise run --help"
expect_code 125 "$pagewise" run --stats= true
expect_message "needs the name of a file"

# A file that could not be written at exit: told now, and nothing is run.
mkdir dir
refused() {
    expect_code 125 bare "$1" touch ran
    expect_message "cannot write to $1: $2"
    [ ! -e ran ] || fail "$1: the command was run"
}
refused --stats=dir "Is a directory"
refused --stats=no/such/file "No such file or directory"
refused --stats=/dev/null/file "Not a directory"
refused "--stats=$(printf '%05000d' 0)" "File name too long"
if [ "$(id -u)" != 0 ]; then
    mkdir -m 555 locked
    refused --stats=locked/file "Permission denied"
fi
bare --stats=dir/new.%p true || fail "a file that can be made"
[ -z "$(ls dir)" ] || fail "--stats made a file: $(ls dir)"
echo kept >dir/old
bare --stats=dir/old true || fail "a file that is there"
[ "$(cat dir/old)" = kept ] || fail "--stats changed a file"
mkfifo fifo
expect_code 0 timeout 60 "$pagewise" run --no-alloc --no-store --stats=fifo true

# Libraries that are not there: named, with the way out.
rm "$alloc"
expect_code 125 "$pagewise" run true
expect_message "alloc library is not at $alloc"
expect_message "--no-alloc"
rm "$store"
expect_code 125 "$pagewise" run --no-alloc true
expect_message "store library is not at $store"
expect_message "--no-store"
tree "$tmp/a b"
expect_code 125 "$tmp/a b/tools/pagewise/pagewise" run true
expect_message "space or a colon"

# Programs that a preload does not reach are run, with a warning.
tree "$tmp/build"
program=$(type -P true)
if [ "$(id -u)" = 0 ]; then
    cp "$program" setuid
    chown nobody setuid
    chmod 4755 setuid
    expect_code 0 "$pagewise" run ./setuid
    expect_message "warning: ./setuid will run without the pagewise libraries: it is set-user-ID"
fi
command -v gcc >/dev/null || exit 0

# compile NAME OPTION...: a program that prints what is preloaded; false if the compiler cannot.
compile() {
    local name=$1
    shift
    printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' \
        'int main(void) { const char *p = getenv("LD_PRELOAD"); puts(p ? p : "unset"); return 5; }' |
        gcc -x c -o "$name" "$@" - 2>/dev/null
}

if compile static -static; then
    expect_code 5 "$pagewise" run ./static >out
    expect_message "./static will run without the pagewise libraries: it is statically linked"
    expect_code 5 "$pagewise" run --no-alloc --no-store ./static >out
    [ ! -s err ] || fail "warning without a preload: $(cat err)"
fi

# Those with a malloc of their own, or that start with nothing in front of it, run without.
unset ASAN_OPTIONS TSAN_OPTIONS
# runs_with PRELOAD WARNING ARGUMENT...
runs_with() {
    local preload=$1 warning=$2
    shift 2
    expect_code 5 "$pagewise" run "$@" >out
    [ "$(cat out)" = "$preload" ] || fail "run $* preloads $(cat out)"
    if [ "$warning" ]; then
        expect_message "$warning"
    elif grep -q 'pagewise: warning' err; then
        fail "run $*: $(cat err)"
    fi
}
compile plain-program && runs_with "$alloc:$store" "" ./plain-program
if compile tsan -fsanitize=thread && { setarch -R ./tsan >out; [ $? = 5 ]; }; then
    runs_with "$store" "tsan will run without the alloc library: .*ThreadSanitizer" ./tsan
    strip tsan
    runs_with "$store" ThreadSanitizer ./tsan
    runs_with "$store" "" --no-alloc ./tsan
    runs_with unset ThreadSanitizer --no-store ./tsan
fi
if compile asan -fsanitize=address && { ./asan >out; [ $? = 5 ]; }; then
    runs_with unset "asan will run without the pagewise libraries: .*AddressSanitizer" ./asan
    runs_with unset "" --no-alloc --no-store ./asan
fi
compile asan-static -fsanitize=address -static-libasan &&
    runs_with "$store" "without the alloc library: .*AddressSanitizer" ./asan-static
# Cut off anywhere, a program ends as it would without us.
for size in 3 16 64 100 1000 10000; do
    head -c $size plain-program >"$tmp/torso"
    chmod +x torso
    env ./torso >out 2>err
    code=$?
    expect_code $code "$pagewise" run ./torso >out
done
exit 0
