/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purger.c - see purger.h.
 */
#include "purger.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "options.h"
#include "purge.h"
#include "sys.h"

/* Less than this is not worth a thread (whose stacks and task cost some 30 KiB): it stays pending
 * until there is more. */
#define SPAWN_BYTES (UINT64_C(256) << 10)

/* Memory that a child would copy at its or the parent's next write. Purging it costs a few hundred
 * ns a page, which is less, but also a system call for a process that forks all the time. */
#define FORK_BYTES (UINT64_C(256) << 10)

/* The thread cannot keep up when this many times the limit is pending; then each thread that frees
 * helps with a batch. */
#define HARD	       2
#define HELP_RANGES    128
#define STACK_BYTES    (64u << 10)
#define RETRY_AFTER_MS 1000

static _Atomic uint64_t running; /* the generation the thread is (being) made in; 0: none */
static _Atomic uint64_t wanted;	 /* the generation in which the hook asked for it; 0: not asked */
static _Atomic uint64_t retry_ms;
static atomic_bool exiting;

bool pgw__purger_running(void)
{
	return atomic_load_explicit(&running, memory_order_relaxed) == pgw__space_generation();
}

/* ---- the thread ---- */

/* Returns with the lock released. Sleeps at most once. */
static void purge_or_sleep(bool *idle)
{
	struct pgw__space_view v = pgw__space_lock_and_view();
	uint64_t age = pgw__option(PGW_ALLOC_AGE);
	uint64_t now = pgw__now_ms();

	if (pgw__space_over(&v)) {
		/* All of it: what is left would only make the next call a smaller one. */
		pgw__space_unlock();
		pgw__purge_all(0, UINT64_MAX);
	} else if (v.pending_ranges && v.oldest_ms + age <= now) {
		/* With it goes what would be due soon: fewer, larger batches. */
		pgw__space_unlock();
		pgw__purge_all(UINT64_MAX, now - age / 2);
	} else if (v.pending_ranges) {
		*idle = false;
		pgw__space_wait_and_unlock(v.oldest_ms + age);
	} else if (!*idle) {
		/* Freeing and reusing in turn empties and fills the pool all the time. Stay for one
		 * more age, in which nobody has to wake us. */
		*idle = true;
		pgw__space_wait_and_unlock(now + age);
	} else {
		pgw__space_wait_and_unlock(0);
	}
}

static void *purger(void *arg)
{
	bool idle = false;

	(void)arg;
	(void)prctl(PR_SET_NAME, "pagewise");
	for (;;)
		purge_or_sleep(&idle);
	return NULL;
}

static int make_thread(void)
{
	pthread_attr_t attr;
	pthread_t t;
	sigset_t all;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	sigfillset(&all); /* the program's signals are for its own threads */
	err = pthread_attr_setsigmask_np(&attr, &all);
	if (!err)
		err = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (!err)
		err = pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (!err)
		err = pthread_create(&t, &attr, purger, NULL);
	if (err == EINVAL && !pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN + (1u << 20)))
		err = pthread_create(&t, &attr, purger, NULL); /* large static TLS */
	(void)pthread_attr_destroy(&attr);
	return err;
}

static void start(uint64_t generation)
{
	uint64_t old = atomic_load(&running);
	int saved = errno;

	/* pthread_create allocates, and comes by here: the claim sends it away. */
	if (old == generation || !atomic_compare_exchange_strong(&running, &old, generation))
		return;
	if (make_thread()) {
		atomic_store(&retry_ms, pgw__now_ms() + RETRY_AFTER_MS);
		atomic_store(&running, 0);
		PGW__ALLOC_COUNT(thread_fails, 1);
	} else {
		atomic_store(&wanted, 0);
		PGW__ALLOC_COUNT(threads, 1);
	}
	errno = saved;
}

void pgw__purger_poll(bool in_malloc)
{
	uint64_t asked = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (!asked || asked != pgw__space_generation() || atomic_load(&exiting))
		return;
	if (!in_malloc && !__libc_single_threaded)
		return;
	if (!pgw__option(PGW_ALLOC_THREAD) || pgw__now_ms() < atomic_load(&retry_ms))
		return;
	if (pgw__sys.getpid() != pgw__space_pid())
		return; /* in a vfork child it would run in the wrong process */
	start(asked);
}

void pgw__purger_exit(void)
{
	atomic_store(&exiting, true);
}

/* ---- threads that free ---- */

void pgw__purger_notice(const struct pgw__space_view *v)
{
	bool over = pgw__space_over(v);

	if (pgw__purger_running()) {
		if (v->pending_bytes / HARD > v->limit)
			pgw__purge_inline(v->limit, 0, HELP_RANGES);
		return;
	}
	if (over) {
		pgw__purge_inline(0, UINT64_MAX, SIZE_MAX);
	} else if (!pgw__option(PGW_ALLOC_THREAD) || atomic_load(&retry_ms)) {
		uint64_t now = pgw__now_ms(), age = pgw__option(PGW_ALLOC_AGE);

		if (v->oldest_ms + age <= now)
			pgw__purge_inline(UINT64_MAX, now - age / 2, SIZE_MAX);
	}
	if (v->pending_bytes >= SPAWN_BYTES && pgw__option(PGW_ALLOC_THREAD))
		atomic_store_explicit(&wanted, pgw__space_generation(), memory_order_relaxed);
}

void pgw__purger_before_fork(void)
{
	struct pgw__space_view v = pgw__space_look();

	if (v.pending_bytes < FORK_BYTES)
		return;
	pgw__purge_all(0, UINT64_MAX);
	PGW__ALLOC_COUNT(fork_flushes, 1);
}
