#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# perl: hashes and strings of 200,000 lines, and children that change their copy of them.
# packages: perl
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need perl

cat >"$tmp/script" <<'END'
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);

my (%words, @lines);
my $x = 12345;
for my $i (1 .. 200000) {
	$x = ($x * 1103515245 + 12345) % 2147483648;
	push @{ $words{ $x % 5000 } }, $x;
	push @lines, "line $x" x (1 + $x % 7);
}
print sha256_hex(join "\n", sort @lines), "\n";
undef @lines;
print sha256_hex(join ",", map { "$_=" . scalar @{ $words{$_} } } sort keys %words), "\n";

# Children of a process with a large heap change and free their copy.
for my $i (1 .. 8) {
	my $pid = open(my $child, "-|") // die "fork: $!";
	if (!$pid) {
		delete @words{ grep { $_ % 8 == $i - 1 } keys %words };
		print scalar(keys %words), "\n";
		exit 0;
	}
	print <$child>;
	close $child or die "child $i: $?";
}
END
same perl "$tmp/script"
