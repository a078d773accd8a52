/* SPDX-License-Identifier: BSD-2-Clause
 *
 * decay.c - see decay.h.
 */
#include "decay.h"

#include <pthread.h>
#include <stdatomic.h>

#include <pagewise/probe.h>

#include "jemalloc_private.h"

#define ARENAS MALLCTL_ARENAS_ALL /* as many as there can be */

/* jemalloc purges along a curve of 200 steps. A tenth of the decay time makes few and large steps,
 * and at most that much later than promised. */
#define STEPS	    10
#define STEP_MS_MIN 50
#define STEP_MS_MAX 1000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *_Atomic arenas[ARENAS]; /* removed under the lock */
static atomic_uint count;	     /* no arena is at this index or above */

void pgw__decay_add(unsigned ind, void *arena)
{
	unsigned n = atomic_load(&count);

	if (ind >= ARENAS)
		return;
	atomic_store(&arenas[ind], arena);
	while (n <= ind && !atomic_compare_exchange_weak(&count, &n, ind + 1))
		continue;
}

void pgw__decay_remove(void *arena)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = atomic_load(&count); i-- > 0;)
		if (atomic_load(&arenas[i]) == arena)
			atomic_store(&arenas[i], NULL);
	pthread_mutex_unlock(&lock);
}

void pgw__decay_hold(void)
{
	pthread_mutex_lock(&lock);
}

void pgw__decay_release(void)
{
	pthread_mutex_unlock(&lock);
}

void pgw__decay_in_child(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static uint64_t step_ms(ssize_t decay_ms)
{
	uint64_t step = (uint64_t)decay_ms / STEPS;

	if (step < STEP_MS_MIN)
		return STEP_MS_MIN;
	return step < STEP_MS_MAX ? step : STEP_MS_MAX;
}

/* Pages that will never decay do not count: somebody wants them kept. */
static void count_unused(size_t pages, ssize_t decay_ms, struct pgw__unused *u)
{
	if (!pages || decay_ms < 0)
		return;
	u->bytes += (uint64_t)pages * pgw_page_size();
	if (!u->step_ms || step_ms(decay_ms) < u->step_ms)
		u->step_ms = step_ms(decay_ms);
}

/* Returns whether its owner wants dirty pages to be kept for ever. */
static bool look(void *arena, struct pgw__unused *u)
{
	unsigned threads = 0;
	const char *dss;
	ssize_t dirty_ms, muzzy_ms;
	size_t active = 0, dirty = 0, muzzy = 0;

	je_arena_basic_stats_merge(
	    NULL, arena, &threads, &dss, &dirty_ms, &muzzy_ms, &active, &dirty, &muzzy);
	count_unused(dirty, dirty_ms, u);
	count_unused(muzzy, muzzy_ms, u);
	return dirty_ms < 0;
}

static bool unused(struct pgw__unused *u)
{
	*u = (struct pgw__unused){ 0 };
	if (pthread_mutex_trylock(&lock))
		return false;
	for (unsigned i = 0, n = atomic_load(&count); i < n; i++) {
		void *arena = atomic_load(&arenas[i]);

		if (arena)
			(void)look(arena, u);
	}
	pthread_mutex_unlock(&lock);
	return true;
}

/* What arena_decay, called by this thread, has found of the dirty pages' epoch (the first one it looks at). */
static __thread bool watching, epoch_over;

bool __wrap_je_decay_maybe_advance_epoch(void *decay, void *now, size_t pages)
{
	bool over = __real_je_decay_maybe_advance_epoch(decay, now, pages);

	if (watching) {
		epoch_over = over;
		watching = false;
	}
	return over;
}

/* Where the program has jemalloc's background threads (redis has them), nobody else's call purges, and
 * they leave what is less than 1024 pages for long. So the call is made again as one of theirs; but only if an
 * epoch was over just now, since such a call also purges what became dirty after that. */
static void decay_one(void *tsd, void *arena, bool all)
{
	watching = true;
	epoch_over = false;
	__real_je_arena_decay(tsd, arena, false, all);
	watching = false;
	if (epoch_over && __atomic_load_n(&je_background_thread_enabled_state, __ATOMIC_RELAXED))
		__real_je_arena_decay(tsd, arena, true, false);
}

/* For a thread that never calls malloc: it stays without a cache and an arena of its own. */
static void decay(bool all, struct pgw__unused *u)
{
	void *tsd = je_tsd_fetch_slow(je_tsd_tls, true);

	*u = (struct pgw__unused){ 0 };
	pthread_mutex_lock(&lock);
	for (unsigned i = 0, n = atomic_load(&count); i < n; i++) {
		void *arena = atomic_load(&arenas[i]);
		struct pgw__unused before = { 0 };

		if (!arena)
			continue;
		decay_one(tsd, arena, all && !look(arena, &before));
		(void)look(arena, u);
	}
	pthread_mutex_unlock(&lock);
}

const struct pgw__upstream pgw__decay_upstream = { .unused = unused, .decay = decay };
