/* SPDX-License-Identifier: BSD-2-Clause
 *
 * disk.h - a file on a disk with a volatile write cache, and what may be left of it after a cut.
 *
 * The model keeps the bytes that are durable and, in order, every write since that no completed
 * barrier covers. A write goes through three states:
 *
 *   dirty     in the page cache: the kernel may write it out at any time, or not
 *   written   write-out has completed: in the disk's cache, which may lose it
 *   durable   a flush of the disk came after that
 *
 * A cut leaves, of every 512-byte sector, the durable bytes or those of any later write to it: the
 * kernel writes pages in any order, the disk keeps sectors in any order, and a page that was
 * changed twice may have been written out in between. That is more than any one kernel does, on
 * purpose. What lies beyond the last byte that is kept does not exist: a file size is lost with its
 * data.
 *
 * One thread at a time; record.c has the lock.
 */
#ifndef PGW_TESTS_DISK_H
#define PGW_TESTS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_SECTOR 512u
#define DISK_PAGE   4096u

struct disk_write {
	uint64_t off;
	uint32_t len; /* within one page */
	bool written;
	uint8_t *data;
};

struct disk {
	size_t max; /* of the file; all three buffers have this size */
	uint8_t *durable;
	size_t durable_len;
	uint8_t *now; /* what the page cache holds */
	size_t now_len;
	struct disk_write *writes; /* not durable, in order */
	size_t n, cap;
};

/* How a cut chooses. Those that leave little out, or nearly everything, find what random choice
 * rarely does. */
enum disk_cut {
	CUT_NOTHING,	 /* only what is durable */
	CUT_EVERYTHING,	 /* all writes made it */
	CUT_PREFIX,	 /* writes made it in order, the last one torn */
	CUT_PAGES,	 /* each write or not */
	CUT_SECTORS,	 /* each sector of each write or not */
	CUT_META_ONLY,	 /* pages 0 and 1, nothing else */
	CUT_NO_META,	 /* all but pages 0 and 1 */
	CUT_ALL_BUT_ONE, /* all but the writes of one page */
	CUT_COUNT
};

/* A seeded generator: the same everywhere, so that a printed seed repeats a run. */
struct rng {
	uint64_t s;
};

uint64_t rng_next(struct rng *r);
/* In [0, n); n > 0. */
uint64_t rng_below(struct rng *r, uint64_t n);

/* max: bytes the file may grow to, whole pages. Exits the process when memory runs out, as all
 * functions here do: a test has nothing better to do. */
void disk_init(struct disk *d, size_t max);
void disk_finish(struct disk *d);

/* Bytes written to the file. */
void disk_write(struct disk *d, uint64_t off, const void *buf, size_t len);

/* Compare with the content of the whole file, which may have been changed through a mapping, and
 * record what differs. Returns the number of pages that did. */
size_t disk_observe(struct disk *d, const uint8_t *file, size_t len);

/* Write-out of a range has completed. */
void disk_written(struct disk *d, uint64_t off, uint64_t len);

/* The disk was flushed: what is written is durable. */
void disk_flush(struct disk *d);

/* What was written to the range so far is durable, nothing else: a write past the disk's cache. */
void disk_write_through(struct disk *d, uint64_t off, uint64_t len);

/* One image of what a cut leaves now. out: max bytes. Returns its length. */
size_t disk_cut(const struct disk *d, enum disk_cut how, struct rng *r, uint8_t *out);

const char *disk_cut_name(enum disk_cut how);

#endif
