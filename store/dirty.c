/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dirty.c - see dirty.h.
 *
 * Why the collected set covers everything with MDB_WRITEMAP: LMDB notes each page before it stores
 * into it, a run of overflow pages by its first page. A run that is in use at commit has its header
 * intact, so its length is right. A noted page that is no longer the head of a run (freed, and used
 * again inside of another run) holds arbitrary bytes; read as a header they can only add ranges,
 * and those are cut at the end of the map.
 */
#include "dirty.h"

#include <errno.h>
#include <string.h>

/* 1 MiB of ranges. */
#define KEEP_RANGES 65536

/* The header of a page in the data file; the same in every LMDB 0.9 with 64-bit page numbers. */
struct page_header {
	uint64_t pgno;
	uint16_t pad;
	uint16_t flags;
	uint32_t overflow_pages; /* only with PAGE_OVERFLOW */
};

#define PAGE_OVERFLOW 0x04

void pgw__dirty_init(struct pgw__dirty *d)
{
	pgw_ranges_init(&d->ranges);
	d->incomplete = false;
}

void pgw__dirty_finish(struct pgw__dirty *d)
{
	pgw_ranges_finish(&d->ranges);
	d->incomplete = false;
}

void pgw__dirty_clear(struct pgw__dirty *d)
{
	if (d->ranges.cap > KEEP_RANGES)
		pgw_ranges_finish(&d->ranges);
	else
		pgw_ranges_clear(&d->ranges);
	d->incomplete = false;
}

void pgw__dirty_add(struct pgw__dirty *d, uint64_t start, uint64_t len)
{
	if (pgw_ranges_add(&d->ranges, start, len))
		d->incomplete = true;
}

/* Bytes of the run that starts at off, if the page there is the head of one; else a page. */
static uint64_t run_length(const void *map, uint64_t map_len, uint64_t off, uint32_t psize)
{
	struct page_header h;
	uint64_t len;

	memcpy(&h, (const char *)map + off, sizeof(h));
	if (!(h.flags & PAGE_OVERFLOW) || h.pgno != off / psize)
		return psize;
	len = (uint64_t)h.overflow_pages * psize;
	if (len < psize)
		return psize;
	return len < map_len - off ? len : map_len - off;
}

static int collect_runs(const struct pgw_ranges *heads, const void *map, uint64_t map_len,
    uint32_t psize, struct pgw_ranges *out)
{
	for (size_t i = 0; i < heads->n; i++) {
		struct pgw_range r = heads->v[i];

		for (uint64_t off = r.start; off < pgw_range_end(r); off += psize) {
			uint64_t len = psize;

			if (off + psize <= map_len)
				len = run_length(map, map_len, off, psize);
			if (pgw_ranges_add(out, off, len))
				return -ENOMEM;
		}
	}
	return 0;
}

int pgw__dirty_collect(const struct pgw__dirty *d, const void *map, uint64_t map_len,
    uint32_t psize, struct pgw_ranges *out)
{
	int rc;

	pgw_ranges_clear(out);
	if (d->incomplete)
		return -ENOMEM;
	if (map)
		rc = collect_runs(&d->ranges, map, map_len, psize, out);
	else
		rc = pgw_ranges_add_all(out, &d->ranges);
	if (rc)
		return -ENOMEM;
	pgw_ranges_align_out(out, psize);
	return 0;
}
