#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# fs-test.sh FS.SH PROGRAM FS - fs.sh in a folder of its own, which goes away with its mounts.
set -u
folder=$(mktemp -d "${TMPDIR:-/tmp}/pagewise-fs.XXXXXX") || exit 1
if [ "$(id -u)" = 0 ] && ! unshare -m true 2>/dev/null; then
	echo "fs-test.sh: skipped: no mount namespace of its own" >&2
	rm -rf "$folder"
	exit 77
fi
# A mount namespace: nothing stays mounted, however this ends.
if [ "$(id -u)" = 0 ]; then
	unshare -m sh "$1" "$2" "$folder" "$3" auto span writeout fdatasync per-range
else
	sh "$1" "$2" "$folder" "$3" auto
fi
code=$?
rm -rf "$folder"
exit $code
