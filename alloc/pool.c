/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pool.c - see pool.h for the invariants.
 */
#include "pool.h"

#include <errno.h>

static int addr_cmp(struct pgw__extent *a, struct pgw__extent *b)
{
	return a->start < b->start ? -1 : a->start > b->start;
}

static int size_cmp(struct pgw__extent *a, struct pgw__extent *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return addr_cmp(a, b);
}

/* (RB_GENERATE_STATIC wants a macro of libbsd's own.) */
RB_GENERATE_INTERNAL(
    pgw__extent_addr_tree, pgw__extent, by_addr, addr_cmp, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(
    pgw__extent_size_tree, pgw__extent, by_size, size_cmp, __attribute__((unused)) static)

void pgw__pool_init(struct pgw__pool *p, struct pgw__extent_cache *cache)
{
	p->cache = cache;
	RB_INIT(&p->by_addr);
	RB_INIT(&p->by_size);
	TAILQ_INIT(&p->queue);
	p->bytes = p->count = p->bytes_peak = 0;
}

/* The last range that starts at addr or below it. */
static struct pgw__extent *at_or_below(struct pgw__pool *p, uint64_t addr)
{
	struct pgw__extent key = { .start = addr };
	struct pgw__extent *e = RB_NFIND(pgw__extent_addr_tree, &p->by_addr, &key);

	if (e && e->start == addr)
		return e;
	return e ? RB_PREV(pgw__extent_addr_tree, &p->by_addr, e)
		 : RB_MAX(pgw__extent_addr_tree, &p->by_addr);
}

static void drop(struct pgw__pool *p, struct pgw__extent *e)
{
	pgw__pool_remove(p, e);
	pgw__extent_free(p->cache, e);
}

/* Insert between neighbours in order: one of them has no child on that side. */
#define INSERT_BETWEEN(tree, head, below, above, e, field) \
	do {                                               \
		if ((below) && !RB_RIGHT(below, field)) {  \
			RB_SET(e, below, field);           \
			RB_RIGHT(below, field) = (e);      \
		} else if (above) {                        \
			RB_SET(e, above, field);           \
			RB_LEFT(above, field) = (e);       \
		} else {                                   \
			RB_SET(e, NULL, field);            \
			RB_ROOT(head) = (e);               \
		}                                          \
		tree##_RB_INSERT_COLOR(head, e);           \
	} while (0)

static void insert_size(struct pgw__pool *p, struct pgw__extent *e, struct pgw__extent *near)
{
	struct pgw__extent *above;

	if (near && size_cmp(near, e) < 0) {
		above = RB_NEXT(pgw__extent_size_tree, &p->by_size, near);
		if (!above || size_cmp(e, above) < 0) {
			INSERT_BETWEEN(pgw__extent_size_tree, &p->by_size, near, above, e, by_size);
			return;
		}
	}
	RB_INSERT(pgw__extent_size_tree, &p->by_size, e);
}

/* The neighbours that e would have. */
static void find_place(struct pgw__pool *p, const struct pgw__extent *e, struct pgw__extent *near,
    struct pgw__extent **below, struct pgw__extent **above)
{
	*below = near && near->start < e->start ? near : at_or_below(p, e->start);
	*above = *below ? RB_NEXT(pgw__extent_addr_tree, &p->by_addr, *below)
			: RB_MIN(pgw__extent_addr_tree, &p->by_addr);
	if (*below == near && *above && (*above)->start <= e->start) {
		*below = at_or_below(p, e->start);
		*above = RB_NEXT(pgw__extent_addr_tree, &p->by_addr, *below);
	}
}

int pgw__pool_add(struct pgw__pool *p, struct pgw__extent *e)
{
	return pgw__pool_add_near(p, e, NULL);
}

int pgw__pool_add_near(struct pgw__pool *p, struct pgw__extent *e, struct pgw__extent *near)
{
	struct pgw__extent *below, *above;
	bool joined = false;

	find_place(p, e, near, &below, &above);
	if ((below && pgw__extent_end(below) > e->start) ||
	    (above && pgw__extent_end(e) > above->start))
		return -EEXIST;
	if (above && pgw__extent_end(e) == above->start) {
		e->len += above->len;
		drop(p, above);
		joined = true;
	}
	if (below && pgw__extent_end(below) == e->start) {
		e->start = below->start;
		e->len += below->len;
		drop(p, below);
		joined = true;
	}
	if (joined) {
		RB_INSERT(pgw__extent_addr_tree, &p->by_addr, e);
		RB_INSERT(pgw__extent_size_tree, &p->by_size, e);
	} else {
		INSERT_BETWEEN(pgw__extent_addr_tree, &p->by_addr, below, above, e, by_addr);
		insert_size(p, e, near);
	}
	TAILQ_INSERT_TAIL(&p->queue, e, queue);
	p->count++;
	p->bytes += e->len;
	if (p->bytes > p->bytes_peak)
		p->bytes_peak = p->bytes;
	return 0;
}

void pgw__pool_remove(struct pgw__pool *p, struct pgw__extent *e)
{
	RB_REMOVE(pgw__extent_addr_tree, &p->by_addr, e);
	RB_REMOVE(pgw__extent_size_tree, &p->by_size, e);
	TAILQ_REMOVE(&p->queue, e, queue);
	p->count--;
	p->bytes -= e->len;
}

/* Change e's range, within what it covers: its place among the addresses and in the queue stays. */
static void resize(struct pgw__pool *p, struct pgw__extent *e, uint64_t start, uint64_t len)
{
	RB_REMOVE(pgw__extent_size_tree, &p->by_size, e);
	p->bytes -= e->len - len;
	e->start = start;
	e->len = len;
	RB_INSERT(pgw__extent_size_tree, &p->by_size, e);
}

/* Take r, which lies inside e. */
static int carve(struct pgw__pool *p, struct pgw__extent *e, struct pgw_range r)
{
	uint64_t end = pgw_range_end(r);
	uint64_t lead = r.start - e->start;
	uint64_t trail = pgw__extent_end(e) - end;

	if (lead && trail) {
		struct pgw__extent *t = pgw__extent_new(p->cache);

		if (!t)
			return -ENOMEM;
		resize(p, e, e->start, lead);
		t->start = end;
		t->len = trail;
		t->stamp = e->stamp;
		RB_INSERT(pgw__extent_addr_tree, &p->by_addr, t);
		RB_INSERT(pgw__extent_size_tree, &p->by_size, t);
		TAILQ_INSERT_AFTER(&p->queue, e, t, queue);
		p->count++;
		p->bytes += trail;
	} else if (lead) {
		resize(p, e, e->start, lead);
	} else if (trail) {
		resize(p, e, end, trail);
	} else {
		drop(p, e);
	}
	return 0;
}

/* Alignment above a page is rare (huge pages, aligned_alloc); after a few ranges whose place is
 * wrong, take one that is large enough wherever it starts. */
#define ALIGN_TRIES 8

bool pgw__pool_fit(
    struct pgw__pool *p, uint64_t size, uint64_t align, uint64_t rest, uint64_t *start)
{
	struct pgw__extent key = { .len = size };
	struct pgw__extent *e = RB_NFIND(pgw__extent_size_tree, &p->by_size, &key);

	for (int tries = 0; e && e->len - size <= rest; tries++) {
		uint64_t at = (e->start + align - 1) & ~(align - 1);

		if (at >= e->start && at - e->start <= e->len - size) {
			if (carve(p, e, (struct pgw_range){ at, size }))
				return false;
			*start = at;
			return true;
		}
		if (tries == ALIGN_TRIES) {
			key.len = size + align - 1;
			if (key.len < size)
				return false;
			e = RB_NFIND(pgw__extent_size_tree, &p->by_size, &key);
		} else {
			e = RB_NEXT(pgw__extent_size_tree, &p->by_size, e);
		}
	}
	return false;
}

uint64_t pgw__pool_run(struct pgw__pool *p, uint64_t addr)
{
	struct pgw__extent *e = at_or_below(p, addr);

	return e && pgw__extent_end(e) > addr ? pgw__extent_end(e) - addr : 0;
}

int pgw__pool_cut(struct pgw__pool *p, struct pgw_range r)
{
	return carve(p, at_or_below(p, r.start), r);
}

struct pgw__extent *pgw__pool_oldest(struct pgw__pool *p)
{
	return TAILQ_FIRST(&p->queue);
}

struct pgw__extent *pgw__pool_largest(struct pgw__pool *p)
{
	return RB_MAX(pgw__extent_size_tree, &p->by_size);
}
