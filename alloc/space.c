/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.c - states of free address space; space.h has the picture and the invariants S1 to S5.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/probe.h>

#include "forkmark.h"
#include "options.h"
#include "prefault.h"
#include "space_private.h"
#include "sys.h"

/* The share of pending memory stops growing here: what jemalloc holds may be sparse, and a batch of
 * more is no better. */
#define SHARE_MAX (UINT64_C(64) << 20)

/* So many ranges are worth a call, when most of what may be pending is (three quarters). Bounded by
 * bytes alone, a batch would have fewer where they happen to be large, and memory would wait for
 * nothing where they happen to be small. */
#define BATCH_RANGES 34

/* How long the report at exit waits for the lock. A purger that has it and is not scheduled lets go
 * of it sooner; an interrupted thread never does. */
#define EXIT_WAIT_S 1

struct pgw__space pgw__space;
void (*pgw__space_in_child)(void);

static uint64_t clock_ms(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t pgw__space_stamp(void)
{
	return clock_ms(CLOCK_MONOTONIC_COARSE);
}

uint64_t pgw__now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

/* ---- lock, first use, and forked children ---- */

static void forget(void)
{
	pgw__extent_cache_init(&pgw__space.cache);
	for (int s = 0; s < POOLS; s++)
		pgw__pool_init(&pgw__space.pool[s], &pgw__space.cache);
	TAILQ_INIT(&pgw__space.in_flight);
	pgw__space.in_flight_bytes = 0;
}

static void set_up(bool handled)
{
	uint64_t g = atomic_load(&pgw__space.generation);

	pgw__space.lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	pgw__space.work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	pgw__space.idle = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	pgw__space.sleeper = AWAKE;
	pgw__space.pid = pgw__sys.getpid();
	pgw__space.born_ms = pgw__space_stamp();
	if (g == 0 || (pgw__space.torn && !handled))
		forget();
	else
		pgw__space_land();
	pgw__space.torn = false;
	if (g) /* a child counts its own work; the arenas are its own as well */
		pgw__space.n = (struct pgw_alloc_stats){
			.arenas = pgw__space.n.arenas,
			.arenas_foreign = pgw__space.n.arenas_foreign,
			.raw_forks = !handled && !pgw__space.fork_alone,
		};
	if (g && pgw__space_in_child)
		pgw__space_in_child();
	atomic_store(&pgw__space.generation, g + 1);
}

void pgw__space_lock(void)
{
	if (__builtin_expect(!pgw__forkmark_is_set(), 0) && pgw__forkmark_claim()) {
		set_up(false);
		pgw__forkmark_set();
	}
	pthread_mutex_lock(&pgw__space.lock);
	pgw__space.torn = true;
}

void pgw__space_unlock(void)
{
	pgw__space.torn = false;
	pthread_mutex_unlock(&pgw__space.lock);
}

bool pgw__space_breathe(size_t done)
{
	if (done % PGW__SLICE)
		return false;
	pgw__space_unlock();
	pgw__space_lock();
	return true;
}

void pgw__space_fork_alone(bool alone)
{
	if (pgw__space.fork_alone != alone)
		pgw__space.fork_alone = alone;
}

bool pgw__space_is_fork_alone(void)
{
	return pgw__space.fork_alone;
}

uint64_t pgw__space_pending_alone(void)
{
	return pgw__space.pool[PENDING].bytes;
}

bool pgw__space_fork_prepare_asleep(void)
{
	pgw__space_lock();
	if (pgw__space.sleeper != AWAKE)
		return true;
	pgw__space_unlock();
	return false;
}

void pgw__space_fork_prepare(void)
{
	pgw__space_lock();
}

void pgw__space_fork_parent(void)
{
	pgw__space_unlock();
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
	return atomic_load_explicit(&pgw__space.generation, memory_order_relaxed);
}

uint64_t pgw__space_born_ms(void)
{
	return pgw__space.born_ms;
}

uint64_t pgw__space_held(void)
{
	return atomic_load_explicit(&pgw__space.held, memory_order_relaxed);
}

pid_t pgw__space_pid(void)
{
	return pgw__space.pid;
}

void pgw__space_reset(void)
{
	pgw__space_lock();
	forget();
	pgw__space_set_held(0);
	memset(&pgw__space.n, 0, sizeof(pgw__space.n));
	pgw__space_unlock();
}

/* ---- pools ---- */

void pgw__space_add(enum pgw__state s, struct pgw_range r)
{
	struct pgw__extent *e;

	if (!r.len)
		return;
	e = pgw__extent_new(&pgw__space.cache);
	if (!e) {
		(void)pgw__sys.unmap((void *)r.start, r.len);
		return;
	}
	e->start = r.start;
	e->len = r.len;
	e->stamp = pgw__space_stamp();
	if (pgw__pool_add(&pgw__space.pool[s], e))
		pgw__space_given_twice();
}

void pgw__space_note_clean(void)
{
	uint64_t now = pgw__space.pool[CLEAN].bytes + pgw__space.pool[HIDDEN].bytes;

	if (now > pgw__space.n.clean_bytes_peak)
		pgw__space.n.clean_bytes_peak = now;
}

/* Unmap from the largest ranges of a pool, from their upper ends, until it has at most keep bytes.
 * Returns the bytes. */
static uint64_t unmap_pool(enum pgw__state s, uint64_t keep)
{
	struct pgw__pool *p = &pgw__space.pool[s];
	uint64_t done = 0;
	int err = 0;

	pgw__space_lock();
	while (!err && p->bytes > keep) {
		struct pgw__extent *e = pgw__pool_largest(p);
		uint64_t len = p->bytes - keep < e->len ? p->bytes - keep : e->len;
		struct pgw_range r = { pgw__extent_end(e) - len, len };

		if (pgw__pool_cut(p, r))
			break;
		pgw__space_unlock();
		err = pgw__sys.unmap((void *)r.start, r.len);
		pgw__space_lock();
		if (err) { /* at the limit of mappings: a hole would make one more */
			pgw__space_add(s, r);
		} else {
			done += r.len;
			pgw__space.n.unmaps++;
			pgw__space.n.unmapped_bytes += r.len;
		}
	}
	pgw__space_unlock();
	return done;
}

void pgw__space_trim(void)
{
	/* Down to three quarters, so that it is not at the limit again at once. */
	uint64_t most = pgw__option(PGW_ALLOC_CLEAN);
	uint64_t keep = (most - most / 4) & ~(uint64_t)(pgw_page_size() - 1);
	uint64_t clean, hidden, stale, lazy;

	pgw__space_lock();
	clean = pgw__space.pool[CLEAN].bytes;
	hidden = pgw__space.pool[HIDDEN].bytes;
	stale = pgw__space.pool[STALE].bytes;
	lazy = pgw__space.pool[LAZY].bytes;
	pgw__space_unlock();
	if (clean + hidden > most) { /* hidden space first: what is large is not needed soon */
		(void)unmap_pool(HIDDEN, keep > clean ? keep - clean : 0);
		(void)unmap_pool(CLEAN, keep);
	}
	if (stale > most)
		(void)unmap_pool(STALE, keep);
	if (lazy > most)
		(void)unmap_pool(LAZY, keep);
	pgw__space_hide();
}

uint64_t pgw__space_reclaim(void)
{
	uint64_t got = 0;

	for (int s = 0; s < POOLS; s++)
		got += unmap_pool(s, 0);
	PGW__ALLOC_COUNT(reclaims, 1);
	return got;
}

/* ---- memory from jemalloc ---- */

/* The lock is held. */
static struct pgw__space_view view(void)
{
	struct pgw__pool *p = &pgw__space.pool[PENDING];
	struct pgw__extent *oldest = pgw__pool_oldest(p);
	struct pgw__extent *lazy = pgw__pool_oldest(&pgw__space.pool[LAZY]);
	uint64_t share = pgw__space_held() / 100 * pgw__option(PGW_ALLOC_SHARE);
	uint64_t least = pgw__option(PGW_ALLOC_PENDING);

	if (share > SHARE_MAX)
		share = SHARE_MAX;
	return (struct pgw__space_view){
		.pending_bytes = p->bytes,
		.pending_ranges = p->count,
		.oldest_ms = oldest ? oldest->stamp : 0,
		.limit = share > least ? share : least,
		.lazy_ranges = pgw__space.pool[LAZY].count,
		.lazy_oldest_ms = lazy ? lazy->stamp : 0,
	};
}

bool pgw__space_over(const struct pgw__space_view *v)
{
	return v->pending_bytes > v->limit || v->pending_ranges > pgw__option(PGW_ALLOC_RANGES) ||
	       (v->pending_bytes > v->limit / 4 * 3 && v->pending_ranges >= BATCH_RANGES);
}

void pgw__space_given_twice(void)
{
	static const char text[] = "pagewise: the same memory was given back twice; the heap is "
				   "corrupt. Aborting.\n";

	pgw__space_unlock(); /* nothing was changed, and a handler of SIGABRT may want memory */
	(void)pgw__sys_write_all(STDERR_FILENO, text, sizeof(text) - 1);
	abort();
}

/* There is no memory for an extent: let the range itself make room. */
static int give_unmapped(struct pgw_range r, struct pgw__space_view *v)
{
	int err = pgw__sys.unmap((void *)r.start, r.len);

	if (err)
		return err;
	pgw__space_lock();
	pgw__space.n.given++;
	pgw__space.n.given_bytes += r.len;
	pgw__space.n.unmaps++;
	pgw__space.n.unmapped_bytes += r.len;
	pgw__space_set_held(pgw__space_held() - r.len);
	*v = view();
	pgw__space_unlock();
	return 0;
}

int pgw__space_give(void *addr, size_t size, struct pgw__space_view *v)
{
	struct pgw__extent *e;
	bool wake;

	pgw__prefault_learn((struct pgw_range){ (uint64_t)addr, size });
	pgw__space_lock();
	e = pgw__extent_new(&pgw__space.cache);
	if (!e) {
		pgw__space_unlock();
		return give_unmapped((struct pgw_range){ (uint64_t)addr, size }, v);
	}
	e->start = (uint64_t)addr;
	e->len = size;
	e->stamp = pgw__space_stamp();
	if (pgw__pool_add(&pgw__space.pool[PENDING], e))
		pgw__space_given_twice();
	pgw__space.n.given++;
	pgw__space.n.given_bytes += size;
	pgw__space_set_held(pgw__space_held() - size);
	*v = view();
	wake =
	    pgw__space.sleeper == IF_ANY || (pgw__space.sleeper == IF_OVER && pgw__space_over(v));
	if (wake)
		pgw__space.sleeper = AWAKE; /* one call is enough */
	pgw__space_unlock();
	if (wake)
		pthread_cond_signal(&pgw__space.work);
	return 0;
}

/* ---- waiting ---- */

struct pgw__space_view pgw__space_lock_and_view(void)
{
	pgw__space_lock();
	return view();
}

void pgw__space_wait_and_unlock(uint64_t deadline_ms, bool any)
{
	struct timespec t = { (time_t)(deadline_ms / 1000), (long)(deadline_ms % 1000) * 1000000 };

	pgw__space.sleeper = any ? IF_ANY : IF_OVER;
	pgw__space.torn = false; /* waiting is no danger to a child */
	if (deadline_ms)
		(void)pthread_cond_clockwait(
		    &pgw__space.work, &pgw__space.lock, CLOCK_MONOTONIC, &t);
	else
		(void)pthread_cond_wait(&pgw__space.work, &pgw__space.lock);
	pgw__space.sleeper = AWAKE;
	pgw__space_unlock();
}

void pgw__space_wake(void)
{
	pgw__space_lock();
	pgw__space.sleeper = AWAKE;
	pgw__space_unlock();
	pthread_cond_signal(&pgw__space.work);
}

struct pgw__space_view pgw__space_look(void)
{
	struct pgw__space_view v;

	pgw__space_lock();
	v = view();
	pgw__space_unlock();
	return v;
}

/* ---- counters ---- */

void pgw__space_count(size_t offset, uint64_t n)
{
	pgw__space_lock();
	*(uint64_t *)((char *)&pgw__space.n + offset) += n;
	pgw__space_unlock();
}

/* The lock is held. */
static void copy_stats(struct pgw_alloc_stats *out)
{
	*out = pgw__space.n;
	out->held_bytes = pgw__space_held();
	out->pending_bytes = pgw__space.pool[PENDING].bytes;
	out->pending_ranges = pgw__space.pool[PENDING].count;
	out->pending_bytes_peak = pgw__space.pool[PENDING].bytes_peak;
	out->in_flight_bytes = pgw__space.in_flight_bytes;
	out->clean_bytes = pgw__space.pool[CLEAN].bytes + pgw__space.pool[HIDDEN].bytes;
	out->clean_ranges = pgw__space.pool[CLEAN].count + pgw__space.pool[HIDDEN].count;
	out->lazy_bytes = pgw__space.pool[LAZY].bytes;
	out->lazy_ranges = pgw__space.pool[LAZY].count;
	out->stale_bytes = pgw__space.pool[STALE].bytes;
	out->stale_ranges = pgw__space.pool[STALE].count;
	out->hidden_bytes = pgw__space.pool[HIDDEN].bytes;
	out->hidden_ranges = pgw__space.pool[HIDDEN].count;
}

void pgw_alloc_stats_get(struct pgw_alloc_stats *out)
{
	pgw__space_lock();
	copy_stats(out);
	pgw__space_unlock();
}

bool pgw__space_stats_at_exit(struct pgw_alloc_stats *out)
{
	struct timespec t;

	*out = (struct pgw_alloc_stats){ 0 };
	if (!pgw__forkmark_is_set()) /* nothing was allocated; to set up now could wait as well */
		return true;
	out->held_bytes = pgw__space_held();
	/* CLOCK_REALTIME, because sanitizers do not know pthread_mutex_clocklock. */
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += EXIT_WAIT_S;
	if (pthread_mutex_timedlock(&pgw__space.lock, &t))
		return false;
	copy_stats(out);
	pthread_mutex_unlock(&pgw__space.lock);
	return true;
}
