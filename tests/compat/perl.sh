#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Perl's LMDB_File: a nested transaction in each transaction, every second one aborted; and a copy
# made by mdb_env_copy while the environment is in use.
# packages: liblmdb-file-perl
# shellcheck source=tests/compat/lib.sh
. "$(dirname "$0")/lib.sh"
perl=/usr/bin/perl
$perl -MLMDB_File -e 1 2>/dev/null || skip "$perl has no LMDB_File (Debian package liblmdb-file-perl)"
program liblmdb-file-perl "$($perl -MLMDB_File -e 'print grep { /LMDB_File.so/ } @DynaLoader::dl_shared_objects')"
records=500

cat >"$tmp/load.pl" <<'END'
use strict;
use LMDB_File qw(:all);
my ($path, $last, $acked) = @ARGV;
mkdir $path;
my $env = LMDB::Env->new($path, { mapsize => 1 << 28, maxdbs => 2 });
my $txn = $env->BeginTxn();
my $db = $txn->OpenDB({ dbname => 'table', flags => MDB_CREATE });
my $first = $db->stat->{entries} || 1; # one of them is 'newest'
$txn->commit;
for my $i ($first .. $last) {
    $txn = $env->BeginTxn();
    $db->Txn = $txn;
    $db->put(sprintf('%08d', $i), "$i " x ($i % 900));
    my $nested = $txn->SubTxn();
    $db->Txn = $nested;
    $db->put('newest', $i % 2 ? $i : 'aborted');
    if ($i % 2) { $nested->commit } else { $nested->abort }
    $txn->commit;
    if ($acked) {
        open(my $f, '>', "$acked.new") or die;
        print $f "$i\n";
        close($f);
        rename("$acked.new", $acked) or die;
    }
}
mkdir "$path.copy";
$env->copy("$path.copy");
END
cat >"$tmp/keys.pl" <<'END'
use strict;
use LMDB_File qw(:all);
my $env = LMDB::Env->new($ARGV[0], { mapsize => 1 << 28, maxdbs => 2 });
my $txn = $env->BeginTxn();
my $cursor = $txn->OpenDB({ dbname => 'table' })->Cursor;
my ($key, $value, $n, $newest);
while (eval { $cursor->get($key, $value, MDB_NEXT); 1 }) {
    if ($key eq 'newest') { $newest = $value; next }
    $n = $key + 0;
    die "value of $n" if $value ne "$n " x ($n % 900);
    print "$n\n";
}
die "newest is $newest, the last is $n" if $newest != ($n % 2 ? $n : $n - 1);
$txn->abort;
END

$perl "$tmp/load.pl" "$tmp/plain" $records || fail "load, without the library"
background "${with[@]}" $perl "$tmp/load.pl" "$tmp/with" $records "$tmp/acked"
crash_at 150 "$pid"
"${with[@]}" $perl "$tmp/keys.pl" "$tmp/with" >"$tmp/there" || fail "after the kill"
survived <"$tmp/there"
"${with[@]}" $perl "$tmp/load.pl" "$tmp/with" $records || fail "load, after the kill"
dump "$tmp/plain" >"$tmp/expected"
for db in with with.copy; do
    dump "$tmp/$db" >"$tmp/got"
    same "$tmp/expected" "$tmp/got" "dump of $db"
    judge "$tmp/$db"
done
fact ran "$records transactions with a nested one in each, killed after $last; a copy"
used 150
