#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# fs.sh PROGRAM FOLDER FS STRATEGY... - pgw_sync on a file system of each kind, judged on a copy of its disk.
#
# PROGRAM is syncranges, FOLDER an empty one on a file system that takes loop devices over its files.
# FS is ext4, xfs, btrfs, tmpfs, overlay or fuse (fuse2fs, which writes the disk from a process);
# ext4-1k and xfs-1k have blocks smaller than a page, ext4-16k and xfs-16k larger ones than x86 has pages.
# For each strategy: rounds of writes and pgw_sync on a mounted disk, a copy of the disk taken while
# it is mounted, and every synced page looked for on the copy. Prints one line of JSON for each.
# Needs root. Runs under any POSIX shell, in a guest with busybox too. Leaves with 77 if this
# kernel or machine lacks the file system, its reason on standard error.
set -u
program=$1 folder=$2 fs=$3
shift 3
seed=${SEED:-1}
disk=$folder/disk copy=$folder/copy at=$folder/mnt
mkdir -p "$at"

skip() {
	echo "fs.sh: $fs: $1" >&2
	exit 77
}

die() {
	echo "fs.sh: $fs: $1" >&2
	exit 1
}

# overlay's upper layer lies on ext4; tmpfs has no disk to copy.
options=
case $fs in
overlay | fuse) below=ext4 ;;
ext4-1k) below=ext4 options="-b 1024" ;;
ext4-16k) below=ext4 options="-b 16384" ;;
xfs-1k) below=xfs options="-b size=1024" ;;
xfs-16k) below=xfs options="-b size=16384" ;;
*) below=$fs ;;
esac

made() { # FILE: a new file system in it
	rm -f "$1"
	truncate -s 400M "$1" || return 1
	# shellcheck disable=SC2086 # options are words
	case $below in
	ext4) mkfs.ext4 -q -F $options "$1" ;;
	xfs) mkfs.xfs -q -f $options "$1" ;;
	btrfs) mkfs.btrfs -q -f "$1" ;;
	esac >"$folder/mkfs" 2>&1
}

up() { # FILE: mounted, with the layer above if there is one
	if [ "$fs" = fuse ]; then
		fuse2fs -f -o fakeroot "$1" "$at" >"$folder/mount" 2>&1 &
		server=$!
		until grep -q " $at fuse" /proc/mounts; do
			kill -0 "$server" 2>/dev/null || return 1
			sleep 0.1
		done
		return
	fi
	mount -t "$below" -o loop "$1" "$at" 2>"$folder/mount" || return 1
	[ "$fs" != overlay ] && return
	mkdir -p "$at/lower" "$at/upper" "$at/work" "$at/merged"
	mount -t overlay -o "lowerdir=$at/lower,upperdir=$at/upper,workdir=$at/work" overlay "$at/merged" 2>"$folder/mount" ||
		{
			umount "$at"
			return 1
		}
}

down() {
	[ "$fs" = overlay ] && umount "$at/merged"
	umount "$at" || return
	[ "$fs" != fuse ] || wait "$server" # it writes on for a moment
}

where=$at
[ "$fs" = overlay ] && where=$at/merged
trap 'down 2>/dev/null' EXIT

[ "$(id -u)" = 0 ] || skip "mounting needs root"
if [ "$fs" = tmpfs ]; then
	for strategy; do
		mount -t tmpfs tmpfs "$at" || skip "cannot be mounted"
		"$program" write "$where/file" "$seed" "$strategy" || die "$strategy: pgw_sync failed"
		"$program" check "$where/file" "$seed" || die "$strategy: a synced page is not there"
		umount "$at"
	done
	exit 0
fi

if [ "$fs" = fuse ]; then
	[ -w /dev/fuse ] || skip "no /dev/fuse to write to"
	command -v fuse2fs >/dev/null || skip "fuse2fs is not installed"
fi
command -v "mkfs.$below" >/dev/null || skip "mkfs.$below is not installed"
made "$disk" || die "mkfs.$below failed: $(tail -n 1 "$folder/mkfs")"
up "$disk" || skip "cannot be mounted: $(head -n 1 "$folder/mount")"
down
# The control comes first: if nothing is ever missing, the copy proves nothing.
for strategy in none "$@"; do
	up "$disk" || die "cannot be mounted again"
	"$program" write "$where/file" "$seed" "$strategy" "$disk" "$copy" ||
		die "$strategy: pgw_sync, or the copy of the disk, failed"
	down
	up "$copy" || die "$strategy: the copy of the disk cannot be mounted: $(cat "$folder/mount")"
	"$program" check "$where/file" "$seed"
	code=$?
	down
	rm -f "$copy"
	if [ "$strategy" = none ]; then
		[ $code = 3 ] || die "the control lost nothing: this test cannot judge"
	elif [ $code != 0 ]; then
		die "$strategy: a synced page is not on the disk"
	fi
done
