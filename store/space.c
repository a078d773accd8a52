/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.c - see space.h.
 *
 * With MDB_WRITEMAP the file is as long as the map, and sparse. LMDB takes pages that were freed
 * before, or, if there are none, the next ones behind the last page in use; it stores into them
 * while it works. It gives up (MDB_MAP_FULL) where the map ends, before it stores anything.
 *
 * S1  Pages before `have` have blocks on the disk, and so have all others that can be in the same
 *     folio of the page cache as one of them: a store asks for blocks for all of a folio. So `have` is
 *     at a multiple of the largest folio, or at the end of the map. It starts at zero for each open
 *     and each move of the map: the file may come from anywhere, with holes in it. It is found to be
 *     too large if the file is shorter (another process that opens it with a smaller map cuts it).
 * S2  While a write transaction works, LMDB's own limit of pages is at most `have`. So LMDB never
 *     stores into a page without a block. It is put back before the writer lock is let go of.
 *     Meanwhile it is not below what is in use, for LMDB also asks it whether a snapshot that another
 *     process has made is inside of the map.
 * S3  `end` is at least the page behind the last one that LMDB has taken. It tells of each page,
 *     and of a run of pages the first one; the call that takes it says how long it can be. `end`
 *     only decides when to ask the disk for more.
 * S4  To be able to free and to commit on a full disk, calls that add data stop before calls that
 *     remove some do, and these before the commit. Pages that were freed before are for all.
 *
 * LMDB's limit is a member of its environment, which it keeps to itself. It is found by what is around
 * it: the size of the map, then another word, then the limit. If it is not there, nothing is done, and
 * that is noted.
 *
 * Blocks are asked for ahead, so that it is one call for many transactions. A file system that copies
 * on write (btrfs, ZFS; XFS for shared blocks) may need another block for a page that has one:
 * there a full disk can still be SIGBUS, unless the file is exempt from it (btrfs: chattr +C, which gives up
 * its checksums, and Linux 6.18).
 *
 * LMDB stores into its lock file in each transaction, whatever the flags. Blocks are asked for when it is
 * mapped (seam.c), and on btrfs it is made exempt: nothing in it is worth a checksum.
 */
#include "space.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "env.h"
#include "stats.h"
#include "sys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* What a call takes at most beside runs: the pages from the root to a leaf of three trees (main
 * database, named database, duplicates), each split, and one page on top of each. */
#define CALL_PAGES 64u

/* Pages of the system in the largest folio: what an entry of the second level of page tables maps, or
 * what two levels of the page cache's tree hold (6.18), whichever is less. */
#define FOLIO_PAGES(page) ((page) == 4096 ? 512u : 2048u)

/* Ask for this part of the file ahead, up to so many bytes. */
#define AHEAD_PART 32u
#define AHEAD_MAX  (UINT64_C(64) << 20)

/* After the disk was full, so many commits count as short of space, and then it is looked at. */
#define CAREFUL 256u

/* Words at the beginning of LMDB's environment among which its limit must be. */
#define SEARCH_WORDS 32u

static uint64_t map_bytes(const struct pgw__env *e)
{
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	uintptr_t end = atomic_load_explicit(&e->map_end, memory_order_relaxed);

	return end - start;
}

static uint64_t map_pages(const struct pgw__env *e)
{
	return map_bytes(e) / e->psize;
}

static uint64_t at_most(uint64_t pages, uint64_t limit)
{
	return pages < limit ? pages : limit;
}

/* S1. From a number of pages, up, and not behind the map. */
static uint64_t whole_folios(const struct pgw__env *e, uint64_t pages)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t unit = FOLIO_PAGES(page) * page / e->psize;

	return at_most((pages + unit - 1) / unit * unit, map_pages(e));
}

/* NULL if it is not there, or not clear which word it is. */
static _Atomic uint64_t *find_limit(const struct pgw__env *e)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)atomic_load(&e->lmdb), *found = NULL;

	for (unsigned i = 0; i + 2 < SEARCH_WORDS; i++) {
		if (word[i] != map_bytes(e) || word[i + 2] != map_pages(e))
			continue;
		if (found)
			return NULL;
		found = &word[i + 2];
	}
	return found;
}

static void trust(struct pgw__env *e, const char *why)
{
	e->space.way = PGW__SPACE_TRUST;
	pgw__note_fallback("disk space ahead of a writable map", why);
}

void pgw__space_reset(struct pgw__env *e)
{
	e->space = (struct pgw__space){ .way = PGW__SPACE_ALLOCATE, .run = 1 };
	if (!e->writemap)
		return;
	e->space.limit = find_limit(e);
	if (!e->space.limit)
		trust(e, "LMDB's environment is not laid out as expected: a full disk is SIGBUS");
}

void pgw__space_begin(struct pgw__env *e, uint64_t end)
{
	struct pgw__space *s = &e->space;
	struct stat st;

	s->end = end;
	s->run = 1;
	s->why = 0;
	if (!s->have)
		return;
	if (pgw__env_examine(atomic_load_explicit(&e->fd, memory_order_relaxed), &st) ||
	    (uint64_t)st.st_size < s->have * e->psize)
		s->have = 0; /* S1 */
}

void pgw__space_end(struct pgw__env *e)
{
	if (e->space.limit)
		atomic_store_explicit(e->space.limit, map_pages(e), memory_order_relaxed);
}

/* Fault pages in as a store would. A fault that would be SIGBUS is EFAULT. */
static int populate(const struct pgw__env *e, uint64_t from, uint64_t to)
{
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	void *addr = (void *)(start + from * e->psize);
	int rc;

	do
		rc = pgw__sys.madvise(addr, (to - from) * e->psize, MADV_POPULATE_WRITE);
	while (rc == -EINTR || rc == -EAGAIN);
	return rc == -EFAULT ? -ENOSPC : rc;
}

static int allocate(struct pgw__env *e, uint64_t from, uint64_t to)
{
	int fd = atomic_load_explicit(&e->fd, memory_order_relaxed), rc;

	do {
		PGW__ENV_COUNT(e, allocate_calls, 1);
		rc = pgw__sys.allocate(fd, from * e->psize, (to - from) * e->psize);
	} while (rc == -EINTR);
	return rc;
}

/* An answer that is about the disk, and not about whether this can be done here. */
static bool is_final(int rc)
{
	return !rc || rc == -ENOSPC || rc == -EDQUOT || rc == -EIO || rc == -EFBIG;
}

static bool copies_on_write(const struct pgw__env *e)
{
	return !strcmp(e->file.fs, "btrfs");
}

/* Does this part of the file have blocks of its own? */
static bool has_blocks(int fd, uint64_t at, uint64_t end)
{
	union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + 32 * sizeof(struct fiemap_extent)];
	} m;

	while (at < end) {
		uint64_t before = at;

		m.map =
		    (struct fiemap){ .fm_start = at, .fm_length = end - at, .fm_extent_count = 32 };
		if (ioctl(fd, FS_IOC_FIEMAP, &m.map))
			return false;
		for (unsigned i = 0; i < m.map.fm_mapped_extents; i++) {
			const struct fiemap_extent *x = &m.map.fm_extents[i];

			if (x->fe_logical > at || (x->fe_flags & FIEMAP_EXTENT_SHARED))
				return false;
			at = x->fe_logical + x->fe_length;
		}
		if (at <= before)
			return false;
	}
	return true;
}

/* On a full disk xfs refuses to allocate what it has already. */
static bool allocated_before(const struct pgw__env *e, uint64_t from, uint64_t to)
{
	int fd = atomic_load_explicit(&e->fd, memory_order_relaxed);

	return !copies_on_write(e) && has_blocks(fd, from * e->psize, to * e->psize);
}

/* S1 for pages before `to`. Pages in use that have no block are only covered by fallocate: faulting all
 * of them in would dirty the whole file. 0 or -errno. */
static int extend(struct pgw__env *e, uint64_t to)
{
	struct pgw__space *s = &e->space;
	uint64_t from = s->have;
	int rc = 0;

	if (s->way == PGW__SPACE_ALLOCATE) {
		rc = allocate(e, from, to);
		if (rc == -ENOSPC && allocated_before(e, from, to))
			rc = 0;
		if (!is_final(rc))
			s->way = PGW__SPACE_POPULATE;
	}
	if (s->way == PGW__SPACE_POPULATE) {
		from = from < s->end ? s->end : from;
		rc = from < to ? populate(e, from, to) : 0;
		if (!is_final(rc))
			trust(e, "neither fallocate nor MADV_POPULATE_WRITE works on this file: a "
				 "full disk is SIGBUS");
	}
	if (rc)
		return rc;
	PGW__ENV_COUNT(e, allocated_bytes, (to - from) * e->psize);
	s->have = to;
	return 0;
}

/* Is so little left on the disk that it must not be asked for ahead of need? */
static bool nearly_full(const struct pgw__env *e)
{
	struct statvfs v;

	if (fstatvfs(atomic_load_explicit(&e->fd, memory_order_relaxed), &v))
		return false;
	return (uint64_t)v.f_bavail < 4 * AHEAD_MAX / v.f_frsize;
}

/* How far to go, at least to `need`. While little is left on the disk others may need it more; and what is
 * populated is written. */
static uint64_t go_ahead(const struct pgw__env *e, uint64_t need)
{
	uint64_t bytes = e->space.end * e->psize / AHEAD_PART;

	if (e->space.way != PGW__SPACE_ALLOCATE || nearly_full(e))
		return need;
	if (bytes > AHEAD_MAX)
		bytes = AHEAD_MAX;
	return whole_folios(e, need + bytes / e->psize);
}

/* S4. A commit writes the numbers of all free pages, at worst twice, because their list grows meanwhile.
 */
static uint64_t kept(const struct pgw__env *e, enum pgw__space_for what)
{
	uint64_t commit = CALL_PAGES + e->space.end * 2 * sizeof(uint64_t) / e->psize;

	switch (what) {
	case PGW__SPACE_TO_TAKE:
		return commit + 2 * CALL_PAGES;
	case PGW__SPACE_TO_FREE:
		return commit;
	default:
		return 0;
	}
}

/* S2, S4. Behind the last page of the map nothing is taken, so nothing is kept there. */
static void set_limit(struct pgw__env *e, enum pgw__space_for what)
{
	const struct pgw__space *s = &e->space;
	uint64_t keep = kept(e, what), limit = s->have;

	if (s->have < map_pages(e))
		limit = s->have > s->end + keep ? s->have - keep : at_most(s->end, s->have);
	if (s->limit && s->way != PGW__SPACE_TRUST)
		atomic_store_explicit(s->limit, limit, memory_order_relaxed);
	else
		pgw__space_end(e);
}

void pgw__space_committed(struct pgw__env *e, int rc)
{
	unsigned n = atomic_load_explicit(&e->short_of_space, memory_order_relaxed);

	if (rc == ENOSPC || rc == EDQUOT)
		n = CAREFUL;
	else if (n > 1 && !rc)
		n--;
	else if (n && !rc)
		n = nearly_full(e) ? CAREFUL : 0;
	else
		return;
	atomic_store_explicit(&e->short_of_space, n, memory_order_relaxed);
}

/* 0 or -errno, and then `have` may be larger nevertheless. */
static int grow(struct pgw__env *e, uint64_t need)
{
	struct pgw__space *s = &e->space;
	uint64_t used = whole_folios(e, s->end), more;
	int rc = 0;

	if (s->have < used) /* fill the holes, even if there is no space for more */
		rc = extend(e, used);
	if (rc || s->have >= need)
		return rc;
	rc = extend(e, go_ahead(e, need));
	if (!rc)
		return 0;
	more = whole_folios(e, s->have + 1);
	if (more < need)
		(void)extend(e, more);
	return extend(e, need);
}

int pgw__space_prepare(struct pgw__env *e, enum pgw__space_for what, uint64_t run, uint64_t more)
{
	struct pgw__space *s = &e->space;
	uint64_t need = whole_folios(e, s->end + run + more + CALL_PAGES + kept(e, what) + 1);
	int rc;

	s->run = run ? run : 1;
	if (s->have < need && !s->why && s->way != PGW__SPACE_TRUST) {
		rc = grow(e, need);
		s->why = s->way == PGW__SPACE_TRUST ? 0 : -rc;
		if (s->why)
			pgw__space_committed(e, s->why);
	}
	if (s->why && s->have < s->end)
		return s->why;
	set_limit(e, what);
	return 0;
}

int pgw__space_result(struct pgw__env *e, int rc)
{
	return rc == MDB_MAP_FULL && e->space.why ? e->space.why : rc;
}

void pgw__space_give_back(struct pgw__env *e, MDB_env *lmdb)
{
	int fd = atomic_load_explicit(&e->fd, memory_order_relaxed);
	MDB_envinfo info;

	if (e->writemap || !copies_on_write(e) || mdb_env_info(lmdb, &info))
		return;
	if (ftruncate(fd, (off_t)((info.me_last_pgno + 1) * e->psize)))
		pgw__note_fallback("space of a failed transaction", "the file cannot be cut");
}

/* The number of a page is at its beginning and never changes, so this races with nobody. */
int pgw__space_for_meta(struct pgw__env *e, unsigned which)
{
	int fd = atomic_load_explicit(&e->fd, memory_order_relaxed);

	if (e->writemap || !copies_on_write(e))
		return 0;
	for (uint64_t pgno = 0; pgno < 2; pgno++) {
		const struct iovec v = { .iov_base = &pgno, .iov_len = sizeof(pgno) };
		int64_t r = which >> pgno & 1 ? pgw__sys.pwritev(fd, &v, 1, pgno * e->psize) : 0;

		if (r == -ENOSPC || r == -EDQUOT)
			return (int)r;
	}
	return 0;
}

void pgw__space_lock_file(int fd)
{
	uint64_t magic;
	struct stat st;
	int flags;

	if (fstat(fd, &st) || st.st_size) /* with data in it, it is too late */
		return;
	if (pgw__sys.fs_magic(fd, &magic) || magic != BTRFS_SUPER_MAGIC)
		return;
	if (!ioctl(fd, FS_IOC_GETFLAGS, &flags) && !(flags & FS_NOCOW_FL)) {
		flags |= FS_NOCOW_FL;
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
}
