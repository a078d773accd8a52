/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.c - states of free address space; space.h has the picture and the invariants S1 to S5.
 */
#include "space.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/probe.h>

#include "forkmark.h"
#include "options.h"
#include "pool.h"
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

/* The share of pending memory stops growing here: what jemalloc holds may be sparse, and a batch of
 * more is no better. */
#define SHARE_MAX (UINT64_C(64) << 20)

/* A request for one place may be served from so many ranges that lie there side by side. */
#define PIECES_MAX 8

enum state { PENDING, STALE, CLEAN, POOLS };

struct piece {
	struct pgw_range r;
	enum state from;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work; /* the purger sleeps here */
	pthread_cond_t idle; /* in_flight has become empty */
	bool torn;	     /* somebody is between lock and unlock */
	enum { AWAKE, TIMED, ASLEEP } sleeper;

	struct pgw__extent_cache cache;
	struct pgw__pool pool[POOLS];
	struct pgw__extent_queue in_flight;
	uint64_t in_flight_bytes;
	_Atomic uint64_t held; /* written under the lock */
	struct pgw_alloc_stats n;

	_Atomic uint64_t generation;
	pid_t pid;
} space;

void (*pgw__space_mapped)(void *addr, size_t len);

static uint64_t clock_ms(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t pgw__now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

static uint64_t held(void)
{
	return atomic_load_explicit(&space.held, memory_order_relaxed);
}

static void set_held(uint64_t v)
{
	atomic_store_explicit(&space.held, v, memory_order_relaxed);
}

/* ---- lock, first use, and forked children ---- */

static void forget(void)
{
	pgw__extent_cache_init(&space.cache);
	for (int s = 0; s < POOLS; s++)
		pgw__pool_init(&space.pool[s], &space.cache);
	TAILQ_INIT(&space.in_flight);
	space.in_flight_bytes = 0;
}

/* S5: whoever was purging is not in this process. What they had may be purged or not. */
static void land(void)
{
	struct pgw__extent *e;

	while ((e = TAILQ_FIRST(&space.in_flight))) {
		TAILQ_REMOVE(&space.in_flight, e, queue);
		e->stamp = clock_ms(CLOCK_MONOTONIC_COARSE);
		if (pgw__pool_add(&space.pool[PENDING], e))
			abort();
	}
	space.in_flight_bytes = 0;
}

static void set_up(bool handled)
{
	uint64_t g = atomic_load(&space.generation);

	space.lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	space.work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	space.idle = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	space.sleeper = AWAKE;
	space.pid = pgw__sys.getpid();
	if (g == 0 || (space.torn && !handled))
		forget();
	else
		land();
	space.torn = false;
	if (g) /* a child counts its own work; the arenas are its own as well */
		space.n = (struct pgw_alloc_stats){
			.arenas = space.n.arenas,
			.arenas_foreign = space.n.arenas_foreign,
			.raw_forks = !handled,
		};
	atomic_store(&space.generation, g + 1);
}

static void lock(void)
{
	if (__builtin_expect(!pgw__forkmark_is_set(), 0) && pgw__forkmark_claim()) {
		set_up(false);
		pgw__forkmark_set();
	}
	pthread_mutex_lock(&space.lock);
	space.torn = true;
}

static void unlock(void)
{
	space.torn = false;
	pthread_mutex_unlock(&space.lock);
}

/* Let others in, in the middle of something long (S3). */
static void breathe(size_t done)
{
	if (done % PGW__SLICE == 0) {
		unlock();
		lock();
	}
}

void pgw__space_fork_prepare(void)
{
	lock();
}

void pgw__space_fork_parent(void)
{
	unlock();
}

void pgw__space_fork_child(void)
{
	pgw__forkmark_wipe();
	if (pgw__forkmark_claim()) {
		set_up(true);
		pgw__forkmark_set();
	}
}

uint64_t pgw__space_generation(void)
{
	return atomic_load_explicit(&space.generation, memory_order_relaxed);
}

pid_t pgw__space_pid(void)
{
	return space.pid;
}

void pgw__space_reset(void)
{
	lock();
	forget();
	set_held(0);
	memset(&space.n, 0, sizeof(space.n));
	unlock();
}

/* ---- requests from jemalloc ---- */

/* Put a range into a pool. Without an extent for it the memory is unmapped: that is what clean
 * space comes to anyway. The lock is held. */
static void add(enum state s, struct pgw_range r)
{
	struct pgw__extent *e;

	if (!r.len)
		return;
	e = pgw__extent_new(&space.cache);
	if (!e) {
		(void)pgw__sys.unmap((void *)r.start, r.len);
		return;
	}
	e->start = r.start;
	e->len = r.len;
	e->stamp = clock_ms(CLOCK_MONOTONIC_COARSE);
	if (pgw__pool_add(&space.pool[s], e))
		abort();
}

/* From the first of n pools that has it. */
static bool take_fit(const enum state *order, size_t n, uint64_t size, uint64_t align,
    uint64_t pending_rest, struct piece *got)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t rest = order[i] == PENDING ? pending_rest : UINT64_MAX;

		got->from = order[i];
		got->r.len = size;
		if (pgw__pool_fit(&space.pool[order[i]], size, align, rest, &got->r.start))
			return true;
	}
	return false;
}

static bool fit(uint64_t size, uint64_t align, bool zero, struct piece *got)
{
	static const enum state any[] = { PENDING, STALE, CLEAN };
	static const enum state small_zero[] = { PENDING, CLEAN, STALE };
	static const enum state large_zero[] = { CLEAN };

	/* Resident memory first. */
	if (!zero)
		return take_fit(any, 3, size, align, size / PENDING_REST, got);
	if (size <= ZERO_BY_HAND)
		return take_fit(small_zero, 3, size, align, size / PENDING_REST, got);
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
			run = pgw__pool_run(&space.pool[s], r.start);
			p->from = s;
		}
		if (!run)
			break;
		p->r = (struct pgw_range){ r.start, run < r.len ? run : r.len };
		if (pgw__pool_cut(&space.pool[p->from], p->r))
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
static void serve(enum state s, uint64_t size)
{
	switch (s) {
	case PENDING:
		space.n.pending_hits++;
		break;
	case STALE:
		space.n.stale_hits++;
		break;
	case CLEAN:
		space.n.clean_hits++;
		break;
	default:
		space.n.fresh_hits++;
	}
	set_held(held() + size);
}

/* Outside of the lock: the pieces are ours alone. */
static void settle(const struct piece *got, size_t n, bool *zero)
{
	uint64_t cleared = 0;
	bool clean = true;

	for (size_t i = 0; i < n; i++) {
		if (got[i].from == CLEAN)
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

	lock();
	n = take_at(r, got);
	if (n)
		rest.start = pgw_range_end(got[n - 1].r);
	rest.len = pgw_range_end(r) - rest.start;
	if (rest.len) {
		unlock();
		err = map_at(rest);
		if (!err && pgw__space_mapped)
			pgw__space_mapped((void *)rest.start, rest.len);
		lock();
		space.n.fresh_maps += !err;
		space.n.fresh_bytes += err ? 0 : rest.len;
	}
	if (err) {
		for (size_t i = 0; i < n; i++)
			add(got[i].from, got[i].r);
		space.n.failed++;
	} else {
		serve(n ? got[0].from : POOLS, r.len);
	}
	unlock();
	if (err)
		return NULL;
	settle(got, n, zero);
	return (void *)r.start;
}

/* ---- fresh memory ---- */

static uint64_t chunk_bytes(uint64_t need)
{
	uint64_t chunk = held() / CHUNK_SHARE;
	uint64_t least = pgw__option(PGW_ALLOC_CHUNK);

	if (chunk > CHUNK_MAX)
		chunk = CHUNK_MAX;
	if (chunk < least)
		chunk = least;
	chunk &= ~(uint64_t)(pgw_page_size() - 1);
	return chunk > need ? chunk : need;
}

/* Unmap from the largest ranges of a pool, from their upper ends, until it has at most keep bytes.
 * Returns the bytes. */
static uint64_t unmap_pool(enum state s, uint64_t keep)
{
	struct pgw__pool *p = &space.pool[s];
	uint64_t done = 0;
	int err = 0;

	lock();
	while (!err && p->bytes > keep) {
		struct pgw__extent *e = pgw__pool_largest(p);
		uint64_t len = p->bytes - keep < e->len ? p->bytes - keep : e->len;
		struct pgw_range r = { pgw__extent_end(e) - len, len };

		if (pgw__pool_cut(p, r))
			break;
		unlock();
		err = pgw__sys.unmap((void *)r.start, r.len);
		lock();
		if (err) { /* at the limit of mappings: a hole would make one more */
			add(s, r);
		} else {
			done += r.len;
			space.n.unmaps++;
			space.n.unmapped_bytes += r.len;
		}
	}
	unlock();
	return done;
}

void pgw__space_trim(void)
{
	/* Down to three quarters, so that it is not at the limit again at once. */
	uint64_t most = pgw__option(PGW_ALLOC_CLEAN);
	uint64_t keep = (most - most / 4) & ~(uint64_t)(pgw_page_size() - 1);
	bool clean, stale;

	lock();
	clean = space.pool[CLEAN].bytes > most;
	stale = space.pool[STALE].bytes > most;
	unlock();
	if (clean)
		(void)unmap_pool(CLEAN, keep);
	if (stale)
		(void)unmap_pool(STALE, keep);
}

uint64_t pgw__space_reclaim(void)
{
	uint64_t got = 0;

	for (int s = 0; s < POOLS; s++)
		got += unmap_pool(s, 0);
	PGW__ALLOC_COUNT(reclaims, 1);
	return got;
}

/* A chunk, or if that is too much, what is needed. Without reservation, as jemalloc does it: under
 * heuristic overcommit a sparse block may be larger than memory. */
static int map_fresh(uint64_t need, uint64_t *chunk, void **p)
{
	int prot = PROT_READ | PROT_WRITE;
	int err;

	*chunk = chunk_bytes(need);
	err = pgw__sys.map_anon(NULL, *chunk, prot, MAP_NORESERVE, p);
	if (err && *chunk > need) {
		*chunk = need;
		err = pgw__sys.map_anon(NULL, need, prot, MAP_NORESERVE, p);
	}
	return err;
}

static void *alloc_fresh(uint64_t size, uint64_t align)
{
	uint64_t need = size + align - pgw_page_size();
	uint64_t chunk, start, at;
	void *p;

	if (need < size || map_fresh(need, &chunk, &p))
		return NULL;
	if (pgw__space_mapped)
		pgw__space_mapped(p, chunk);
	/* The low end: the rest lies where the block would grow. */
	start = (uint64_t)p;
	at = (start + align - 1) & ~(align - 1);
	lock();
	add(CLEAN, (struct pgw_range){ start, at - start });
	add(CLEAN, (struct pgw_range){ at + size, start + chunk - (at + size) });
	space.n.fresh_maps++;
	space.n.fresh_bytes += chunk;
	serve(POOLS, size);
	unlock();
	return (void *)at;
}

/* pressed: nothing more can be mapped, so that anything will do, and zeroes are written by hand. */
static bool alloc_pooled(uint64_t size, uint64_t align, bool zero, bool pressed, struct piece *got)
{
	static const enum state dirty[] = { STALE, PENDING };
	bool ok;

	lock();
	ok = pressed ? take_fit(dirty, 2, size, align, UINT64_MAX, got)
		     : fit(size, align, zero, got);
	if (ok)
		serve(got->from, size);
	unlock();
	return ok;
}

void *pgw__space_alloc(void *addr, size_t size, size_t align, bool *zero)
{
	struct piece got;
	void *p;

	if (addr)
		return alloc_at((struct pgw_range){ (uint64_t)addr, size }, zero);
	if (alloc_pooled(size, align, *zero, false, &got)) {
		settle(&got, 1, zero);
		return (void *)got.r.start;
	}
	p = alloc_fresh(size, align);
	if (!p && alloc_pooled(size, align, *zero, true, &got)) {
		settle(&got, 1, zero);
		return (void *)got.r.start;
	}
	if (!p && pgw__space_reclaim())
		p = alloc_fresh(size, align);
	if (p)
		*zero = true;
	else
		PGW__ALLOC_COUNT(failed, 1);
	return p;
}

/* ---- memory from jemalloc ---- */

/* The lock is held. */
static struct pgw__space_view view(void)
{
	struct pgw__pool *p = &space.pool[PENDING];
	struct pgw__extent *oldest = pgw__pool_oldest(p);
	uint64_t share = held() / 100 * pgw__option(PGW_ALLOC_SHARE);
	uint64_t least = pgw__option(PGW_ALLOC_PENDING);

	if (share > SHARE_MAX)
		share = SHARE_MAX;
	return (struct pgw__space_view){
		.pending_bytes = p->bytes,
		.pending_ranges = p->count,
		.oldest_ms = oldest ? oldest->stamp : 0,
		.limit = share > least ? share : least,
	};
}

bool pgw__space_over(const struct pgw__space_view *v)
{
	return v->pending_bytes > v->limit || v->pending_ranges > pgw__option(PGW_ALLOC_RANGES);
}

/* Two threads own the same memory: going on would hand it out twice. */
static void given_twice(void)
{
	static const char text[] = "pagewise: the same memory was given back twice; the heap is "
				   "corrupt. Aborting.\n";

	(void)pgw__sys_write_all(STDERR_FILENO, text, sizeof(text) - 1);
	abort();
}

/* There is no memory for an extent: let the range itself make room. */
static int give_unmapped(struct pgw_range r, struct pgw__space_view *v)
{
	int err = pgw__sys.unmap((void *)r.start, r.len);

	if (err)
		return err;
	lock();
	space.n.given++;
	space.n.given_bytes += r.len;
	space.n.unmaps++;
	space.n.unmapped_bytes += r.len;
	set_held(held() - r.len);
	*v = view();
	unlock();
	return 0;
}

int pgw__space_give(void *addr, size_t size, struct pgw__space_view *v)
{
	struct pgw__extent *e;
	bool wake;

	lock();
	e = pgw__extent_new(&space.cache);
	if (!e) {
		unlock();
		return give_unmapped((struct pgw_range){ (uint64_t)addr, size }, v);
	}
	e->start = (uint64_t)addr;
	e->len = size;
	e->stamp = clock_ms(CLOCK_MONOTONIC_COARSE);
	if (pgw__pool_add(&space.pool[PENDING], e))
		given_twice();
	space.n.given++;
	space.n.given_bytes += size;
	set_held(held() - size);
	*v = view();
	wake = space.sleeper == ASLEEP || (space.sleeper == TIMED && pgw__space_over(v));
	if (wake)
		space.sleeper = AWAKE; /* one call is enough */
	unlock();
	if (wake)
		pthread_cond_signal(&space.work);
	return 0;
}

/* ---- purging ---- */

size_t pgw__space_take(struct pgw__batch *b, uint64_t target, uint64_t cutoff)
{
	struct pgw__pool *pending = &space.pool[PENDING];
	struct pgw__extent *e;
	size_t i = 0;

	RB_INIT(&b->extents);
	b->n = 0;
	lock();
	while (b->n < b->cap && (e = pgw__pool_oldest(pending)) &&
	       (pending->bytes > target || e->stamp < cutoff)) {
		pgw__pool_remove(pending, e);
		RB_INSERT(pgw__extent_addr_tree, &b->extents, e);
		TAILQ_INSERT_TAIL(&space.in_flight, e, queue);
		space.in_flight_bytes += e->len;
		breathe(++b->n);
	}
	unlock();
	RB_FOREACH (e, pgw__extent_addr_tree, &b->extents) {
		b->ranges[i++] = (struct pgw_range){ e->start, e->len };
	}
	return b->n;
}

void pgw__space_put(struct pgw__batch *b)
{
	bool zeroes = pgw_dontneed_zeroes();
	struct pgw__extent *e, *next;
	size_t i = 0;

	lock();
	space.n.purges++;
	for (e = RB_MIN(pgw__extent_addr_tree, &b->extents); e; e = next, i++) {
		bool clean = zeroes && b->status[i] == 0;

		next = RB_NEXT(pgw__extent_addr_tree, &b->extents, e);
		TAILQ_REMOVE(&space.in_flight, e, queue);
		RB_REMOVE(pgw__extent_addr_tree, &b->extents, e);
		space.in_flight_bytes -= e->len;
		space.n.purged_ranges++;
		space.n.purged_bytes += e->len;
		space.n.kept_ranges += !clean;
		e->stamp = clock_ms(CLOCK_MONOTONIC_COARSE);
		if (pgw__pool_add(&space.pool[clean ? CLEAN : STALE], e))
			abort();
		breathe(i + 1);
	}
	if (TAILQ_EMPTY(&space.in_flight))
		pthread_cond_broadcast(&space.idle);
	unlock();
}

void pgw__space_drain(void)
{
	int old;

	/* The wait is a cancellation point, and would end with the lock held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	lock();
	while (!TAILQ_EMPTY(&space.in_flight)) {
		space.torn = false;
		pthread_cond_wait(&space.idle, &space.lock);
		space.torn = true;
	}
	unlock();
	pthread_setcancelstate(old, NULL);
}

struct pgw__space_view pgw__space_lock_and_view(void)
{
	lock();
	return view();
}

void pgw__space_unlock(void)
{
	unlock();
}

void pgw__space_wait_and_unlock(uint64_t deadline_ms)
{
	struct timespec t = { (time_t)(deadline_ms / 1000), (long)(deadline_ms % 1000) * 1000000 };

	space.sleeper = deadline_ms ? TIMED : ASLEEP;
	space.torn = false; /* waiting is no danger to a child */
	if (deadline_ms)
		(void)pthread_cond_clockwait(&space.work, &space.lock, CLOCK_MONOTONIC, &t);
	else
		(void)pthread_cond_wait(&space.work, &space.lock);
	space.sleeper = AWAKE;
	unlock();
}

struct pgw__space_view pgw__space_look(void)
{
	struct pgw__space_view v;

	lock();
	v = view();
	unlock();
	return v;
}

/* ---- counters ---- */

void pgw__space_count(size_t offset, uint64_t n)
{
	lock();
	*(uint64_t *)((char *)&space.n + offset) += n;
	unlock();
}

void pgw_alloc_stats_get(struct pgw_alloc_stats *out)
{
	lock();
	*out = space.n;
	out->held_bytes = held();
	out->pending_bytes = space.pool[PENDING].bytes;
	out->pending_ranges = space.pool[PENDING].count;
	out->pending_bytes_peak = space.pool[PENDING].bytes_peak;
	out->in_flight_bytes = space.in_flight_bytes;
	out->clean_bytes = space.pool[CLEAN].bytes;
	out->clean_ranges = space.pool[CLEAN].count;
	out->clean_bytes_peak = space.pool[CLEAN].bytes_peak;
	out->stale_bytes = space.pool[STALE].bytes;
	out->stale_ranges = space.pool[STALE].count;
	unlock();
}
