/* SPDX-License-Identifier: BSD-2-Clause
 *
 * request.c - address space for jemalloc: from the pools, or fresh (pgw__space_alloc).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "growth.h"
#include "options.h"
#include "prefault.h"
#include "space_private.h"
#include "sys.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Zeroed memory of up to this size is taken from pending and cleared by hand: cheaper than a fault
 * for each page, and the pages are resident already. Above it the caller may well not touch all of
 * it, so it gets memory that costs nothing until then. */
#define ZERO_BY_HAND (UINT64_C(256) << 10)

/* A pending range serves a request of its own size, or of a sixteenth less. To cut up larger ones
 * saves more faults, but moves the ends of blocks about: the slack at the end of each, which its
 * last owner had never touched, becomes pages that the owner before had (docs/design.md has the
 * figures). */
#define PENDING_REST 16

/* Fresh address space comes in pieces that grow with the process, as a sixteenth of what jemalloc
 * holds, so that mmap calls and mappings stay few. */
#define CHUNK_SHARE 16
#define CHUNK_MAX   (UINT64_C(64) << 20)

/* Places for a block that grows: how many are tried, before it is placed like any other. */
#define GROWTH_TRIES 8

/* A request for one place may be served from so many ranges that lie there side by side. */
#define PIECES_MAX 8

struct piece {
	struct pgw_range r;
	enum pgw__state from;
};

void (*pgw__space_mapped)(void *addr, size_t len);

/* ---- from the pools ---- */

/* From the first of n pools that has it. whole_rest: of what was used last. */
static bool take_fit(const enum pgw__state *order, size_t n, uint64_t size, uint64_t align,
    uint64_t whole_rest, struct piece *got)
{
	for (size_t i = 0; i < n; i++) {
		bool whole = order[i] == PENDING || order[i] == LAZY;
		uint64_t rest = whole ? whole_rest : UINT64_MAX;

		got->from = order[i];
		got->r.len = size;
		if (pgw__pool_fit(&pgw__space.pool[order[i]], size, align, rest, &got->r.start))
			return true;
	}
	return false;
}

static bool fit(uint64_t size, uint64_t align, bool zero, struct piece *got)
{
	static const enum pgw__state any[] = { PENDING, LAZY, STALE, CLEAN };
	static const enum pgw__state small_zero[] = { PENDING, LAZY, CLEAN, STALE };
	static const enum pgw__state large_zero[] = { CLEAN };

	/* Resident memory first. */
	if (!zero)
		return take_fit(any, 4, size, align, size / PENDING_REST, got);
	if (size <= ZERO_BY_HAND)
		return take_fit(small_zero, 4, size, align, size / PENDING_REST, got);
	return take_fit(large_zero, 1, size, align, 0, got);
}

/* Take what lies at r, from its start on, out of the pools. Returns the number of pieces. */
static size_t take_at(struct pgw_range r, struct piece *got)
{
	size_t n = 0;

	while (r.len && n < PIECES_MAX) {
		struct piece *p = &got[n];
		uint64_t run = 0;

		for (int s = 0; s < POOLS && !run; s++) {
			run = pgw__pool_run(&pgw__space.pool[s], r.start);
			p->from = s;
		}
		if (!run)
			break;
		p->r = (struct pgw_range){ r.start, run < r.len ? run : r.len };
		if (pgw__pool_cut(&pgw__space.pool[p->from], p->r))
			break;
		n++;
		r.start += p->r.len;
		r.len -= p->r.len;
	}
	return n;
}

static int map_at(struct pgw_range r)
{
	void *p;
	int err = pgw__sys.map_anon((void *)r.start, r.len, PROT_READ | PROT_WRITE,
	    MAP_FIXED_NOREPLACE | MAP_NORESERVE, &p);

	if (err)
		return err;
	if ((uint64_t)p != r.start) { /* a kernel before 4.17 takes the address as a hint */
		(void)pgw__sys.unmap(p, r.len);
		return -EEXIST;
	}
	return 0;
}

/* Count a request that was served. s: where (most of) it came from; POOLS: fresh. */
static void serve(enum pgw__state s, uint64_t size)
{
	switch (s) {
	case PENDING:
		pgw__space.n.pending_hits++;
		break;
	case LAZY:
		pgw__space.n.lazy_hits++;
		break;
	case STALE:
		pgw__space.n.stale_hits++;
		break;
	case CLEAN:
		pgw__space.n.clean_hits++;
		break;
	case HIDDEN:
		pgw__space.n.hidden_hits++;
		break;
	default:
		pgw__space.n.fresh_hits++;
	}
	pgw__space_set_held(pgw__space_held() + size);
}

/* Outside of the lock: the pieces are ours alone. */
static void settle(const struct piece *got, size_t n, bool *zero)
{
	uint64_t cleared = 0;
	bool clean = true;

	for (size_t i = 0; i < n; i++) {
		if (got[i].from == HIDDEN) /* refused: it stays out of dumps, and serves as well */
			(void)pgw__space_reveal(got[i].r);
		if (got[i].from == CLEAN || got[i].from == HIDDEN)
			continue;
		clean = false;
		if (*zero) {
			memset((void *)got[i].r.start, 0, got[i].r.len);
			cleared += got[i].r.len;
		}
	}
	if (clean)
		*zero = true;
	if (cleared)
		PGW__ALLOC_COUNT(zeroed_bytes, cleared);
}

static void *alloc_at(struct pgw_range r, bool *zero)
{
	struct piece got[PIECES_MAX];
	struct pgw_range rest = r;
	size_t n;
	int err = 0;

	pgw__space_lock();
	n = take_at(r, got);
	if (n)
		rest.start = pgw_range_end(got[n - 1].r);
	rest.len = pgw_range_end(r) - rest.start;
	if (rest.len) {
		pgw__space_unlock();
		err = map_at(rest);
		if (err == -ENOMEM && pgw__space_reclaim())
			err = map_at(rest); /* to move the block would take even more */
		if (!err && pgw__space_mapped)
			pgw__space_mapped((void *)rest.start, rest.len);
		pgw__space_lock();
		pgw__space.n.fresh_maps += !err;
		pgw__space.n.fresh_bytes += err ? 0 : rest.len;
	}
	if (err) {
		for (size_t i = 0; i < n; i++)
			pgw__space_add(got[i].from, got[i].r);
		pgw__space.n.failed++;
	} else {
		serve(n ? got[0].from : POOLS, r.len);
		pgw__space.n.grown++;
	}
	pgw__space_unlock();
	if (err) {
		pgw__growth_failed(r);
		return NULL;
	}
	settle(got, n, zero);
	return (void *)r.start;
}

/* ---- fresh memory, and hidden ---- */

uint64_t pgw__space_chunk(uint64_t need)
{
	uint64_t chunk = pgw__space_held() / CHUNK_SHARE;
	uint64_t least = pgw__option(PGW_ALLOC_CHUNK);

	if (chunk > CHUNK_MAX)
		chunk = CHUNK_MAX;
	if (chunk < least)
		chunk = least;
	chunk &= ~(uint64_t)(pgw_page_size() - 1);
	return chunk > need ? chunk : need;
}

/* A chunk, or if that is too much, what is needed. Without reservation, as jemalloc does it: under
 * heuristic overcommit a sparse block may be larger than memory. */
static int map_fresh(uint64_t need, uint64_t *chunk, void **p)
{
	int prot = PROT_READ | PROT_WRITE;
	int err;

	*chunk = pgw__space_chunk(need);
	err = pgw__sys.map_anon(NULL, *chunk, prot, MAP_NORESERVE, p);
	if (err && *chunk > need) {
		*chunk = need;
		err = pgw__sys.map_anon(NULL, need, prot, MAP_NORESERVE, p);
	}
	return err;
}

/* The same from hidden space. */
static bool take_hidden(uint64_t need, uint64_t *chunk, void **p)
{
	struct pgw__pool *hidden = &pgw__space.pool[HIDDEN];
	uint64_t page = pgw_page_size();
	struct pgw_range r = { 0, pgw__space_chunk(need) };
	bool ok;

	pgw__space_lock();
	ok = pgw__pool_fit(hidden, r.len, page, UINT64_MAX, &r.start);
	if (!ok) {
		r.len = need;
		ok = pgw__pool_fit(hidden, r.len, page, UINT64_MAX, &r.start);
	}
	pgw__space_unlock();
	if (ok && !pgw__space_reveal(r)) {
		pgw__space_lock();
		pgw__space_add(HIDDEN, r);
		pgw__space_unlock();
		return false;
	}
	*chunk = r.len;
	*p = (void *)r.start;
	return ok;
}

static void *alloc_chunk(uint64_t size, uint64_t align)
{
	uint64_t need = size + align - pgw_page_size();
	uint64_t chunk, start, at;
	bool hidden;
	void *p;

	if (need < size)
		return NULL;
	hidden = take_hidden(need, &chunk, &p);
	if (!hidden && map_fresh(need, &chunk, &p))
		return NULL;
	if (!hidden && pgw__space_mapped)
		pgw__space_mapped(p, chunk);
	/* The low end: the rest lies where the block would grow. */
	start = (uint64_t)p;
	at = (start + align - 1) & ~(align - 1);
	pgw__space_lock();
	pgw__space_add(CLEAN, (struct pgw_range){ start, at - start });
	pgw__space_add(CLEAN, (struct pgw_range){ at + size, start + chunk - (at + size) });
	pgw__space_note_clean();
	pgw__space.n.fresh_maps += !hidden;
	pgw__space.n.fresh_bytes += hidden ? 0 : chunk;
	serve(hidden ? HIDDEN : POOLS, size);
	pgw__space_unlock();
	return (void *)at;
}

/* A block that has grown, and will again. */
static void *alloc_growing(struct pgw_range failed, uint64_t size, uint64_t align)
{
	struct pgw_range r = { pgw__growth_behind(failed, size, align), size };
	int err = r.start ? map_at(r) : -EEXIST;

	for (int i = 0; i < GROWTH_TRIES && err == -EEXIST; i++) {
		r.start = pgw__growth_place(size, align);
		err = r.start ? map_at(r) : -ENOMEM;
	}
	if (err)
		return NULL;
	if (pgw__space_mapped)
		pgw__space_mapped((void *)r.start, r.len);
	pgw__space_lock();
	pgw__space.n.head_rooms++;
	pgw__space.n.fresh_maps++;
	pgw__space.n.fresh_bytes += size;
	serve(POOLS, size);
	pgw__space_unlock();
	return (void *)r.start;
}

/* pressed: nothing more can be mapped, so that anything will do, and zeroes are written by hand. */
static bool alloc_pooled(uint64_t size, uint64_t align, bool zero, bool pressed, struct piece *got)
{
	static const enum pgw__state dirty[] = { STALE, LAZY, PENDING };
	bool ok;

	pgw__space_lock();
	ok = pressed ? take_fit(dirty, 3, size, align, UINT64_MAX, got)
		     : fit(size, align, zero, got);
	if (ok)
		serve(got->from, size);
	pgw__space_unlock();
	return ok;
}

/* Nothing can be mapped, and no single range will do: make room by unmapping what is free, then also
 * what is about to be. To wait for that is better than to fail. */
static void *alloc_reclaimed(uint64_t size, uint64_t align)
{
	void *p = NULL;

	if (pgw__space_reclaim())
		p = alloc_chunk(size, align);
	if (p || !pgw__space_in_flight())
		return p;
	pgw__space_drain();
	return pgw__space_reclaim() ? alloc_chunk(size, align) : NULL;
}

void *pgw__space_alloc(void *addr, size_t size, size_t align, bool *zero)
{
	struct pgw_range failed;
	struct piece got;
	void *p;

	if (addr)
		return alloc_at((struct pgw_range){ (uint64_t)addr, size }, zero);
	if (pgw__growth_seen(size, &failed) && (p = alloc_growing(failed, size, align))) {
		*zero = true;
		return p;
	}
	if (alloc_pooled(size, align, *zero, false, &got)) {
		if (got.from == CLEAN && !*zero)
			pgw__prefault(got.r);
		settle(&got, 1, zero);
		return (void *)got.r.start;
	}
	p = alloc_chunk(size, align);
	if (!p && alloc_pooled(size, align, *zero, true, &got)) {
		settle(&got, 1, zero);
		return (void *)got.r.start;
	}
	if (!p)
		p = alloc_reclaimed(size, align);
	if (p)
		*zero = true;
	else
		PGW__ALLOC_COUNT(failed, 1);
	return p;
}
