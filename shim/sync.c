/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sync.c - make ranges of a file durable with one barrier (pagewise/sync.h).
 *
 * What holds for every strategy:
 *
 *  S1  A success means that a barrier succeeded after every page of the ranges had been written:
 *      the barrier is always the last call, and it covers pages of the ranges.
 *  S2  writeout starts the write-out of all ranges before it waits for any, and waits for every one
 *      before the barrier. The barrier alone waits for the pages it covers and for nothing else
 *      (docs/design.md has the power cuts that show it).
 *  S3  The first failure ends it. Nothing later is called, and nothing is tried again: after EIO the
 *      kernel may count the dirty pages as clean, and a second try would succeed and prove nothing.
 */
#include <pagewise/sync.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "report.h"
#include "stats.h"
#include "sys.h"

/* Ranges that make up at least 1/DENSE of their span are synced as the span: at worst the kernel
 * then looks at DENSE times the pages, which is cheap as it visits dirty ones only, and writes what
 * others have dirtied in between. It saves two calls a range. */
#define DENSE 2

/* More ranges than this are synced by fdatasync. On ext4 (6.18, virtio disk) the two calls cost 7 to
 * 22 microseconds a range, nearly all of it the request to the device, and fdatasync 11 a page: with
 * 4096 scattered pages both take about 50 ms. Beyond that a transaction's ranges are most of what is
 * dirty in the file, and what writeout spares is little. A bound, not an optimum. */
#define MANY_RANGES 4096

/* A call that keeps answering EINTR is given up; no kernel does that. */
#define EINTR_MAX 100

#define RETRY(err, call)                                         \
	do {                                                     \
		int tries_ = 0;                                  \
		do                                               \
			(err) = (call);                          \
		while ((err) == -EINTR && ++tries_ < EINTR_MAX); \
	} while (0)

/* --- which strategy --- */

/* KNOWN_STACKED: the pages belong to another inode, of the file below, and sync_file_range looks at
 * this one's: it answers 0 and writes nothing. */
enum kind { KNOWN_RANGES, KNOWN_WHOLE, KNOWN_STACKED, KNOWN_NONE };

static const struct file_system {
	uint64_t magic;
	const char *name;
	enum kind kind;
	const char *reason;
} file_systems[] = {
	{ 0xef53, "ext4", KNOWN_RANGES, "ext2, ext3, ext4: ranges are written, then one barrier" },
	{ 0x58465342, "xfs", KNOWN_RANGES, "xfs: ranges are written, then one barrier" },
	{ 0x01021994, "tmpfs", KNOWN_NONE, "tmpfs: there is no device to flush" },
	{ 0x858458f6, "ramfs", KNOWN_NONE, "ramfs: there is no device to flush" },
	{ 0x9123683e, "btrfs", KNOWN_WHOLE, "btrfs has no range sync: every sync is of the file" },
	{ 0x2fc12fc1, "zfs", KNOWN_WHOLE, "zfs has no range sync: every sync is of the file" },
	{ 0x794c7630, "overlayfs", KNOWN_STACKED,
	    "overlayfs: sync_file_range does nothing to the file below" },
	{ 0x65735546, "fuse", KNOWN_WHOLE, "fuse: what is below is not known to sync ranges" },
	{ 0x6969, "nfs", KNOWN_WHOLE, "nfs: only a sync of the file commits on the server" },
	{ 0xff534d42, "cifs", KNOWN_WHOLE, "cifs: only a sync of the file reaches the server" },
	{ 0xfe534d42, "smb2", KNOWN_WHOLE, "smb2: only a sync of the file reaches the server" },
	{ 0x01021997, "9p", KNOWN_WHOLE, "9p: only a sync of the file reaches the server" },
	{ 0xf2f52010, "f2fs", KNOWN_WHOLE, "f2fs: syncing ranges is not proven on it" },
	{ 0xca451a4e, "bcachefs", KNOWN_WHOLE, "bcachefs: syncing ranges is not proven on it" },
};

static const struct file_system unknown_fs = { 0, "unknown", KNOWN_WHOLE,
	"syncing ranges is not proven on this file system" };

static const struct file_system *find_file_system(uint64_t magic)
{
	for (size_t i = 0; i < sizeof(file_systems) / sizeof(*file_systems); i++)
		if (file_systems[i].magic == magic)
			return &file_systems[i];
	return &unknown_fs;
}

static const char *const strategy_names[PGW_SYNC_STRATEGY_COUNT] = {
	[PGW_SYNC_AUTO] = "auto",
	[PGW_SYNC_SPAN] = "span",
	[PGW_SYNC_WRITEOUT] = "writeout",
	[PGW_SYNC_FDATASYNC] = "fdatasync",
	[PGW_SYNC_PER_RANGE] = "per-range",
};

const char *pgw_sync_strategy_name(enum pgw_sync_strategy s)
{
	return (unsigned)s < PGW_SYNC_STRATEGY_COUNT ? strategy_names[s] : NULL;
}

int pgw_sync_strategy_parse(const char *name, enum pgw_sync_strategy *out)
{
	for (int s = 0; name && s < PGW_SYNC_STRATEGY_COUNT; s++) {
		if (!strcmp(name, strategy_names[s])) {
			*out = (enum pgw_sync_strategy)s;
			return 0;
		}
	}
	return -EINVAL;
}

static enum pgw_sync_strategy environment(void)
{
	enum pgw_sync_strategy s;

	return pgw_sync_strategy_parse(secure_getenv("PAGEWISE_SYNC"), &s) ? PGW_SYNC_AUTO : s;
}

__attribute__((constructor)) static void check_environment(void)
{
	const char *value = secure_getenv("PAGEWISE_SYNC");
	enum pgw_sync_strategy ignored;

	if (value && value[0] && pgw_sync_strategy_parse(value, &ignored))
		pgw__warn_setting(value, ": PAGEWISE_SYNC is auto, span, writeout, fdatasync, or "
					 "per-range; auto is used");
}

static bool has_sync_file_range(int fd)
{
	return pgw__sys.sync_file_range(fd, 0, 1, 0) == 0; /* no flags: nothing happens */
}

/* What to do once the file is mapped. */
static void choose(struct pgw_sync_file *f, const struct file_system *fs)
{
	f->if_mapped = PGW_SYNC_FDATASYNC;
	f->if_mapped_reason = fs->reason;
	if (fs->kind == KNOWN_RANGES && !has_sync_file_range(f->fd))
		f->if_mapped_reason = "sync_file_range is refused: a seccomp filter or an emulator";
	else if (fs->kind == KNOWN_RANGES)
		f->if_mapped = PGW_SYNC_WRITEOUT;
}

static const char *forced_reason(bool by_environment)
{
	return by_environment ? "forced by PAGEWISE_SYNC" : "forced by the caller";
}

int pgw_sync_init(
    struct pgw_sync_file *f, int fd, void *map, uint64_t map_len, enum pgw_sync_strategy want)
{
	struct pgw_sync_file new = { .fd = fd };
	const struct file_system *fs;
	bool by_environment;
	uint64_t magic;
	mode_t mode;
	int err, flags;

	if (!pgw_sync_strategy_name(want))
		return -EINVAL;
	flags = pgw__sys.fd_flags(fd);
	if (flags < 0)
		return flags;
	err = pgw__sys.fd_mode(fd, &mode);
	if (!err)
		err = pgw__sys.fs_magic(fd, &magic);
	if (err)
		return err;

	/* A device node answers with the file system it lies on, which is a tmpfs. */
	fs = S_ISREG(mode) ? find_file_system(magic) : &unknown_fs;
	by_environment = want == PGW_SYNC_AUTO && environment() != PGW_SYNC_AUTO;
	if (by_environment)
		want = environment();
	new.fs = fs->name;
	new.forced = want != PGW_SYNC_AUTO;
	new.no_barrier = fs->kind == KNOWN_NONE && !new.forced;
	if (new.forced) {
		new.if_mapped = want;
		new.if_mapped_reason = forced_reason(by_environment);
	} else {
		choose(&new, fs);
	}
	if (fs->kind == KNOWN_STACKED && new.if_mapped == PGW_SYNC_WRITEOUT) {
		new.if_mapped = PGW_SYNC_FDATASYNC;
		new.if_mapped_reason = fs->reason;
	}
	if ((flags & O_ACCMODE) != O_RDWR && new.if_mapped != PGW_SYNC_FDATASYNC) {
		new.if_mapped = PGW_SYNC_FDATASYNC;
		new.if_mapped_reason = "the descriptor is not open for reading and writing: msync "
				       "through its mapping does nothing";
	}
	pgw_sync_remap(&new, map, map_len);
	*f = new;
	return 0;
}

void pgw_sync_remap(struct pgw_sync_file *f, void *map, uint64_t map_len)
{
	f->map = map;
	f->map_len = map ? map_len : 0;
	f->strategy = f->if_mapped;
	f->reason = f->if_mapped_reason;
	if (!f->map_len && f->strategy != PGW_SYNC_FDATASYNC) {
		f->strategy = PGW_SYNC_FDATASYNC;
		f->reason = "the file is not mapped: a barrier on a page needs a mapping";
	}
}

/* --- the calls, counted --- */

static int write_out(const struct pgw_sync_file *f, struct pgw_range r, unsigned flags,
    struct pgw_sync_report *report)
{
	int err;

	RETRY(err, pgw__sys.sync_file_range(f->fd, r.start, r.len, flags));
	report->sync_file_range_calls++;
	report->sync_file_range_bytes += r.len;
	PGW__COUNT(sync_file_range_calls, 1);
	PGW__COUNT(sync_file_range_bytes, r.len);
	return err;
}

static int barrier(
    const struct pgw_sync_file *f, struct pgw_range r, struct pgw_sync_report *report)
{
	int err;

	RETRY(err, pgw__sys.msync((char *)f->map + r.start, (size_t)r.len, MS_SYNC));
	report->msync_calls++;
	report->msync_bytes += r.len;
	PGW__COUNT(msync_calls, 1);
	PGW__COUNT(msync_bytes, r.len);
	if (!err) {
		report->barriers++;
		PGW__COUNT(barriers, 1);
	}
	return err;
}

static int barrier_file(const struct pgw_sync_file *f, struct pgw_sync_report *report)
{
	int err;

	RETRY(err, pgw__sys.fdatasync(f->fd));
	report->fdatasync_calls++;
	PGW__COUNT(fdatasync_calls, 1);
	if (!err) {
		report->barriers++;
		PGW__COUNT(barriers, 1);
	}
	return err;
}

/* --- the strategies --- */

/* The part of r that lies in the mapping. */
static struct pgw_range mapped_part(const struct pgw_sync_file *f, struct pgw_range r)
{
	uint64_t whole =
	    pgw_range_align_out((struct pgw_range){ 0, f->map_len }, pgw_page_size()).len;

	if (r.start >= whole)
		return (struct pgw_range){ r.start, 0 };
	if (r.len > whole - r.start)
		r.len = whole - r.start;
	return r;
}

/* S1: a page of the ranges, and not just any page: with large folios a barrier on another page
 * writes its whole folio. */
static bool barrier_page(
    const struct pgw_sync_file *f, const struct pgw_ranges *ranges, struct pgw_range *out)
{
	/* In ascending order: if the first is not in the mapping, none is. */
	struct pgw_range r = mapped_part(f, ranges->v[0]);

	*out = pgw_range_take(&r, pgw_page_size());
	return out->len != 0;
}

/* The ranges are in ascending order. */
static int start_ranges(
    const struct pgw_sync_file *f, const struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	const struct pgw_range first = ranges->v[0], last = ranges->v[ranges->n - 1];
	const struct pgw_range span = { first.start, pgw_range_end(last) - first.start };
	int err = 0;

	/* Four scattered pages on a virtio disk: 215 us for the whole sync, 257 with a call for each. */
	if (f->alone && !f->forced)
		return write_out(f, span, SYNC_FILE_RANGE_WRITE, report);
	for (size_t i = 0; i < ranges->n && !err; i++)
		err = write_out(f, ranges->v[i], SYNC_FILE_RANGE_WRITE, report);
	return err;
}

static int sync_writeout(
    const struct pgw_sync_file *f, const struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	struct pgw_range page;
	int err;

	/* fdatasync would write everything anyway: do not tell it ranges first. */
	if (!barrier_page(f, ranges, &page))
		return barrier_file(f, report);
	err = start_ranges(f, ranges, report);
	/* The last one first: by the time it is done most others are, and need no sleep. In the order
	 * of the writes each page would be a sleep of its own. */
	for (size_t i = ranges->n; i-- && !err;)
		err = write_out(f, ranges->v[i],
		    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			SYNC_FILE_RANGE_WAIT_AFTER,
		    report);
	return err ? err : barrier(f, page, report);
}

static int sync_span(
    const struct pgw_sync_file *f, struct pgw_range span, struct pgw_sync_report *report)
{
	if (mapped_part(f, span).len != span.len)
		return barrier_file(f, report);
	return barrier(f, span, report);
}

static int sync_per_range(
    const struct pgw_sync_file *f, const struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	int err = 0;

	if (mapped_part(f, ranges->v[ranges->n - 1]).len != ranges->v[ranges->n - 1].len)
		return barrier_file(f, report);
	for (size_t i = 0; i < ranges->n && !err; i++)
		err = barrier(f, ranges->v[i], report);
	return err;
}

static int sync_ranges(
    const struct pgw_sync_file *f, struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	struct pgw_range span = pgw_ranges_span(ranges);

	switch (f->strategy) {
	case PGW_SYNC_SPAN:
		return sync_span(f, span, report);
	case PGW_SYNC_PER_RANGE:
		return sync_per_range(f, ranges, report);
	case PGW_SYNC_WRITEOUT:
		if (!f->forced && mapped_part(f, span).len == span.len &&
		    (f->only || span.len / DENSE <= report->range_bytes))
			return barrier(f, span, report);
		if (!f->forced && !f->ranges_only && ranges->n > MANY_RANGES)
			return barrier_file(f, report);
		return sync_writeout(f, ranges, report);
	default:
		return barrier_file(f, report);
	}
}

/* Grow the ranges to whole pages. -EINVAL if a page of them is beyond any file: offsets are signed for
 * the kernel. Looked at before, because what is at the end of 64 bits is clipped away then. */
static int whole_pages(struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	uint64_t page = pgw_page_size();
	uint64_t end = pgw_range_end(pgw_ranges_span(ranges));

	pgw_ranges_align_out(ranges, page);
	report->ranges = ranges->n;
	report->range_bytes = pgw_ranges_bytes(ranges);
	return end > (uint64_t)INT64_MAX + 1 - page ? -EINVAL : 0;
}

int pgw_sync(
    const struct pgw_sync_file *f, struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	struct pgw_sync_report own;
	int err;

	if (!report)
		report = &own;
	memset(report, 0, sizeof(*report));
	err = whole_pages(ranges, report);
	if (!err && (!ranges->n || f->no_barrier))
		return 0;
	if (!err)
		err = sync_ranges(f, ranges, report);
	if (err)
		PGW__COUNT(sync_failed, 1);
	return err;
}

int pgw_sync_all(const struct pgw_sync_file *f, struct pgw_sync_report *report)
{
	struct pgw_sync_report own;
	int err;

	if (!report)
		report = &own;
	memset(report, 0, sizeof(*report));
	if (f->no_barrier)
		return 0;
	err = barrier_file(f, report);
	if (err)
		PGW__COUNT(sync_failed, 1);
	return err;
}

int pgw_sync_start(
    const struct pgw_sync_file *f, struct pgw_ranges *ranges, struct pgw_sync_report *report)
{
	struct pgw_sync_report own;
	int err;

	if (!report)
		report = &own;
	memset(report, 0, sizeof(*report));
	err = whole_pages(ranges, report);
	if (err || f->strategy != PGW_SYNC_WRITEOUT || !ranges->n)
		return err;
	return start_ranges(f, ranges, report);
}
