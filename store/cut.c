/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cut.c - see cut.h.
 */
#include "cut.h"

#include <errno.h>
#include <string.h>

/* LMDB spills when the list of dirty pages of a transaction, 2^17 - 1 entries, is nearly full. A
 * transaction that dirtied less than half of that has not. */
#define SPILL_POSSIBLE 65536

/* The header of a page, as in dirty.c. */
struct page_header {
	uint64_t pgno;
	uint16_t pad;
	uint16_t flags;
	uint32_t overflow_pages;
};

#define PAGE_OVERFLOW 0x04
#define PAGE_DIRTY    0x10
#define PAGE_LOOSE    0x4000

#define FREE_DBI 0

void pgw__cut_init(struct pgw__cut *c)
{
	memset(c, 0, sizeof(*c));
	pgw_ranges_init(&c->dirty);
	pgw_ranges_init(&c->retired);
}

void pgw__cut_finish(struct pgw__cut *c)
{
	pgw_ranges_finish(&c->dirty);
	pgw_ranges_finish(&c->retired);
}

void pgw__cut_restart(struct pgw__cut *c, uint64_t d)
{
	pgw_ranges_clear(&c->dirty);
	pgw_ranges_clear(&c->retired);
	c->txnid = d;
	c->after = d;
	c->first = 0;
	c->commits = 0;
	c->bytes = 0;
	c->taken = 0;
	c->pin = NULL;
	c->reused = false;
	c->incomplete = false;
}

static void add(struct pgw__cut *c, uint64_t start, uint64_t len)
{
	if (pgw_ranges_add(&c->dirty, start, len))
		c->incomplete = true;
	c->bytes += len;
	c->taken += len;
}

/* A page that LMDB noted in a writable map. *next: the end of the run before, whose inside is not
 * looked at: a page noted there was given back and taken again as part of the run. */
static void add_mapped(struct pgw__cut *c, const struct pgw__map *map, uint64_t off, uint64_t *next)
{
	uint64_t len = map->psize;
	struct page_header h;

	memcpy(&h, (const char *)map->start + off, sizeof(h));
	/* A commit leaves neither flag on a page that belongs to the snapshot. */
	if (h.flags & PAGE_LOOSE)
		return;
	if (h.flags & PAGE_DIRTY) {
		c->reused = true;
		return;
	}
	if ((h.flags & PAGE_OVERFLOW) && h.pgno == off / map->psize && h.overflow_pages > 1)
		len = (uint64_t)h.overflow_pages * map->psize;
	if (len > map->len - off)
		len = map->len - off;
	add(c, off, len);
	*next = off + len;
}

static void add_noted(struct pgw__cut *c, struct pgw_ranges *noted, const struct pgw__map *map)
{
	uint64_t next = 0;

	pgw_ranges_normalize(noted);
	for (size_t i = 0; i < noted->n; i++) {
		struct pgw_range r = noted->v[i];

		for (uint64_t off = r.start; off < pgw_range_end(r); off += map->psize)
			if (off >= next && off + map->psize <= map->len)
				add_mapped(c, map, off, &next);
	}
}

void pgw__cut_add(
    struct pgw__cut *c, struct pgw__dirty *dirty, const struct pgw__map *map, bool spilled)
{
	struct pgw_ranges *set = &dirty->ranges;

	if (dirty->incomplete)
		c->incomplete = true;
	if (spilled || pgw_ranges_bytes(set) / map->psize >= SPILL_POSSIBLE)
		c->reused = true;
	if (map->writemap) {
		add_noted(c, set, map);
		return;
	}
	for (size_t i = 0; i < set->n; i++)
		add(c, set->v[i].start, set->v[i].len);
}

/* The pages of one free-list record: a count, then page numbers in descending order. */
static int add_record(struct pgw_ranges *freed, const MDB_val *data, uint32_t psize)
{
	const char *list = data->mv_data;
	uint64_t n;

	if (data->mv_size < sizeof(n))
		return -EIO;
	n = pgw__get64(list, 0);
	if (n > data->mv_size / sizeof(n) - 1)
		return -EIO;
	for (uint64_t i = n; i; i--)
		if (pgw_ranges_add(freed, pgw__get64(list, i * sizeof(n)) * psize, psize))
			return -ENOMEM;
	return 0;
}

/* Pages that the free-list records from key first on name, at the snapshot of the pin. */
static int read_freed(MDB_txn *txn, uint64_t first, uint32_t psize, struct pgw_ranges *freed)
{
	MDB_val key = { .mv_size = sizeof(first), .mv_data = &first }, data;
	MDB_cursor *cursor;
	int rc = mdb_cursor_open(txn, FREE_DBI, &cursor);

	if (rc)
		return rc == ENOMEM ? -ENOMEM : -EIO;
	rc = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
	while (!rc) {
		rc = add_record(freed, &data, psize);
		if (!rc)
			rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	if (rc == MDB_NOTFOUND)
		return 0;
	return rc == -ENOMEM || rc == ENOMEM ? -ENOMEM : -EIO;
}

/* Only a hint: without memory there is none. What was free before the cut is not among the records read
 * here, and d keeps what these list from being used again. freed: scratch. */
static int note_retired(struct pgw__cut *c, uint32_t psize, struct pgw_ranges *freed)
{
	int rc = read_freed(c->pin->txn, c->after + 1, psize, freed);

	if (rc)
		return rc;
	if (pgw_ranges_add_all(&c->retired, freed) || pgw_ranges_subtract(&c->retired, &c->dirty))
		pgw_ranges_clear(&c->retired);
	pgw_ranges_clear(freed);
	return 0;
}

int pgw__cut_reduce(struct pgw__cut *c, const struct pgw__map *map, struct pgw_ranges *freed)
{
	uint64_t end = (pgw__get64(c->meta, PGW__META_LAST_PG) + 1) * map->psize;
	int rc = 0;

	pgw_ranges_align_out(&c->dirty, map->psize);
	pgw_ranges_clear(freed);
	if (c->note_retired)
		rc = note_retired(c, map->psize, freed);
	if (!rc)
		rc = read_freed(c->pin->txn, c->reused ? 0 : c->after + 1, map->psize, freed);
	if (!rc && pgw_ranges_add(freed, 0, 2 * (uint64_t)map->psize))
		rc = -ENOMEM;
	if (!rc && pgw_ranges_add(freed, end, INT64_MAX - end))
		rc = -ENOMEM;
	if (!rc && pgw_ranges_subtract(&c->dirty, freed))
		rc = -ENOMEM;
	if (rc)
		return rc;
	c->after = c->txnid;
	c->reused = false; /* what is left is in use, and stays as it is */
	c->bytes = pgw_ranges_bytes(&c->dirty);
	return 0;
}

int pgw__cut_used(const struct pgw__cut *c, uint64_t *pages)
{
	uint64_t n = pgw__get64(c->meta, PGW__META_LAST_PG) + 1, free_pages = 0;
	MDB_val key, data;
	MDB_cursor *cursor;
	int rc = mdb_cursor_open(c->pin->txn, FREE_DBI, &cursor);

	if (rc)
		return -EIO;
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
		free_pages += data.mv_size < sizeof(uint64_t) ? 0 : pgw__get64(data.mv_data, 0);
	mdb_cursor_close(cursor);
	if (rc != MDB_NOTFOUND || free_pages > n)
		return -EIO;
	*pages = n - free_pages;
	return 0;
}
