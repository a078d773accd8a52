/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purger.c - see purger.h.
 */
#include "purger.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "options.h"
#include "pressure.h"
#include "purge.h"
#include "sys.h"

/* Unused memory that is worth a thread, whose stacks and task cost some 30 KiB, and which takes some
 * 50 us to make. A process that has just begun may end soon, or fork, or want to be the only thread
 * (unshare): there it takes more, and most of all where jemalloc is to keep the memory for a while
 * (SPAWN_YOUNG_UNUSED) rather than to give it back at once (SPAWN_YOUNG_PENDING). */
#define YOUNG_MS	    1000
#define SPAWN_BYTES	    (UINT64_C(64) << 10)
#define SPAWN_YOUNG_PENDING (UINT64_C(256) << 10)
#define SPAWN_YOUNG_UNUSED  (UINT64_C(1) << 20)

/* A process with threads that holds as much gets the thread before it frees: see purger.h. */
#define SPAWN_HELD (UINT64_C(1) << 20)

/* To look at all arenas takes some hundred instructions: at first early, then at most so often that it
 * costs a thousandth of a malloc and a free. Traffic is counted in events: one that frees 7 MiB is no
 * more than one that frees 64 KiB. */
#define CHECK_BYTES	(UINT64_C(128) << 10)
#define CHECK_BYTES_MAX (UINT64_C(512) << 10)

/* With traffic, but nothing unused, the thread looks as often. */
#define LOOK_MS 1000

/* A thread that has rested for so long ends. The next one costs 50 us; but a process whose own
 * threads have all ended, without exit(3), must not live on for ours. */
#define REST_MS 5000

/* A process that holds as much keeps the thread for as long as it lives: the program may free it all
 * and call malloc no more, and the thread cannot be made anew in free. */
#define STAY_HELD (UINT64_C(8) << 20)

/* Memory that a child would copy at its or the parent's next write. Purging it costs a few hundred
 * ns a page, which is less, but also a system call for a process that forks all the time. */
#define FORK_BYTES (UINT64_C(256) << 10)

/* The thread cannot keep up, or does not get a processor, when a quarter more than the limit is
 * pending; then a thread that frees purges a batch. Of all that is pending, not of what is too much:
 * that would be a batch of a few ranges. */
#define HELP_SHARE     4
#define HELP_RANGES    128
#define STACK_BYTES    (64u << 10)
#define RETRY_AFTER_MS 1000

const struct pgw__upstream *pgw__purger_upstream;

static _Atomic uint64_t running; /* the generation the thread is (being) made in; 0: none */
static _Atomic uint64_t wanted;	 /* the generation in which somebody asked for it; 0: not asked */
static _Atomic uint64_t retry_ms;
static _Atomic uint64_t traffic; /* bytes since the arenas were last looked at; no thread yet */
static _Atomic uint64_t check_at = CHECK_BYTES; /* when to look next */
static atomic_bool exiting;
static _Atomic uint64_t left;	/* the generation whose main thread has ended; 0: none */
static _Atomic uint64_t paused; /* the generation that is to have no thread for now; 0: none */

/* The generation of the thread, once it can be joined; 0: none, or somebody has taken it, and joins
 * or detaches it. */
static _Atomic uint64_t joinable;
static pthread_t thread;
static _Atomic pid_t thread_id;

/* Has there been traffic since the thread last looked? RESTING: no, and it sleeps until there is. */
static _Atomic enum activity { BUSY, QUIET, RESTING } activity;

bool pgw__purger_running(void)
{
	return atomic_load_explicit(&running, memory_order_relaxed) == pgw__space_generation();
}

/* ---- the thread ---- */

struct watch {
	uint64_t decay_ms; /* when to decay next; 0: resting */
	uint64_t end_ms;   /* resting: until then; 0: not resting */
	bool idle;	   /* nothing was pending a moment ago either */
};

static bool main_has_left(void)
{
	uint64_t g = atomic_load(&left);

	return g && g == pgw__space_generation();
}

/* There is to be no thread. A child that is forked meanwhile is not meant. */
static bool unwanted(void)
{
	uint64_t g = atomic_load(&paused);

	return main_has_left() || (g && g == pgw__space_generation());
}

static void decay(struct watch *w, uint64_t now)
{
	struct pgw__unused u = { 0 };
	bool pressed = pgw__pressure(now);
	enum activity quiet = QUIET;

	atomic_store(&activity, QUIET); /* whoever frees from here on says so */
	if (pgw__purger_upstream)
		pgw__purger_upstream->decay(pressed, &u);
	if (pressed) {
		(void)pgw__purge_now();
		PGW__ALLOC_COUNT(pressure_purges, 1);
	}
	if (u.step_ms)
		w->decay_ms = now + u.step_ms;
	else
		w->decay_ms =
		    atomic_compare_exchange_strong(&activity, &quiet, RESTING) ? 0 : now + LOOK_MS;
}

/* 0 is never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return b && (!a || b < a) ? b : a;
}

/* When lazily freed memory is to be purged for good; 0: never. */
static uint64_t lazy_due(const struct pgw__space_view *v)
{
	uint64_t after = pgw__option(PGW_ALLOC_LAZY);

	return after && v->lazy_ranges ? v->lazy_oldest_ms + after : 0;
}

static void purge_lazy_due(uint64_t now)
{
	pgw__purge_lazy(now - pgw__option(PGW_ALLOC_LAZY) / 2);
}

static bool take_thread(void)
{
	uint64_t g = pgw__space_generation();

	return atomic_compare_exchange_strong(&joinable, &g, 0);
}

/* True: this thread has rested long enough, and there is none from here on. False if there was traffic
 * meanwhile: whoever has seen the thread left word for it (note_traffic), or pending memory, which
 * the caller looked for under the lock. */
static bool retire(void)
{
	uint64_t mine = pgw__space_generation(), none = 0;
	enum activity resting = RESTING;

	if (!take_thread())
		return false; /* somebody waits for this thread to end */
	atomic_store(&running, 0);
	if (!atomic_compare_exchange_strong(&activity, &resting, BUSY) &&
	    atomic_compare_exchange_strong(&running, &none, mine)) {
		thread = pthread_self();
		atomic_store(&joinable, mine);
		return false;
	}
	(void)pthread_detach(pthread_self());
	return true;
}

/* The lock is held. True: something was due, and is purged; the lock is not held any more. */
static bool purge_what_is_due(const struct pgw__space_view *v, uint64_t now)
{
	uint64_t age = pgw__option(PGW_ALLOC_AGE), lazy = lazy_due(v);

	if (pgw__space_over(v)) {
		/* All of it: what is left would only make the next call a smaller one. */
		pgw__space_unlock();
		pgw__purge_all(0, UINT64_MAX);
	} else if (v->pending_ranges && v->oldest_ms + age <= now) {
		/* With it goes what would be due soon: fewer, larger batches. */
		pgw__space_unlock();
		pgw__purge_all(UINT64_MAX, now - age / 2);
	} else if (lazy && lazy <= now) {
		pgw__space_unlock();
		purge_lazy_due(now);
	} else {
		return false;
	}
	return true;
}

/* The lock is held, and let go. Nothing waits for this thread, and there has been no traffic.
 * false: this thread has rested long enough. */
static bool rest(struct watch *w, uint64_t now)
{
	bool over;

	if (!w->end_ms || now < w->end_ms) {
		w->end_ms = w->end_ms ? w->end_ms : now + REST_MS;
		pgw__space_wait_and_unlock(w->end_ms, true);
		return true;
	}
	if (pgw__space_held() >= STAY_HELD) {
		pgw__space_wait_and_unlock(0, true);
		return true;
	}
	over = retire();
	pgw__space_unlock();
	return !over;
}

/* Sleeps at most once. false: this thread's time is over. */
static bool turn(struct watch *w)
{
	uint64_t age = pgw__option(PGW_ALLOC_AGE);
	uint64_t now = pgw__now_ms();
	struct pgw__space_view v;
	uint64_t next;

	if (!w->decay_ms && atomic_load(&activity) != RESTING)
		w->decay_ms = now + LOOK_MS;
	if (w->decay_ms && w->decay_ms <= now)
		decay(w, now); /* and says when next: later than now */

	v = pgw__space_lock_and_view();
	next = earlier(w->decay_ms, lazy_due(&v));
	if (next || v.pending_ranges)
		w->end_ms = 0;
	if (unwanted()) {
		pgw__space_unlock();
		return false;
	}
	if (purge_what_is_due(&v, now))
		return true;
	if (v.pending_ranges) {
		w->idle = false;
		pgw__space_wait_and_unlock(earlier(v.oldest_ms + age, next), false);
	} else if (!w->idle) {
		/* Freeing and reusing in turn empties and fills the pool all the time. Stay for one
		 * more age, in which nobody has to wake us. */
		w->idle = true;
		pgw__space_wait_and_unlock(earlier(now + age, next), false);
	} else if (next) {
		pgw__space_wait_and_unlock(next, true);
	} else if (atomic_load(&activity) != RESTING) { /* traffic, just now */
		pgw__space_unlock();
	} else {
		return rest(w, now);
	}
	return true;
}

static void *purger(void *arg)
{
	struct watch w = { .decay_ms = pgw__now_ms() };

	(void)arg;
	atomic_store(&thread_id, gettid());
	(void)prctl(PR_SET_NAME, "pagewise");
	if (pgw__option(PGW_ALLOC_PRESSURE))
		pgw__pressure_init();
	while (turn(&w))
		continue;
	return NULL;
}

static int make_thread(void)
{
	pthread_attr_t attr;
	sigset_t all;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	sigfillset(&all); /* the program's signals are for its own threads */
	err = pthread_attr_setsigmask_np(&attr, &all);
	if (!err)
		err = pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (!err)
		err = pthread_create(&thread, &attr, purger, NULL);
	if (err == EINVAL && !pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN + (1u << 20)))
		err = pthread_create(&thread, &attr, purger, NULL); /* large static TLS */
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
	if (unwanted()) {
		atomic_store(&running, 0);
	} else if (make_thread()) {
		atomic_store(&retry_ms, pgw__now_ms() + RETRY_AFTER_MS);
		atomic_store(&running, 0);
		PGW__ALLOC_COUNT(thread_fails, 1);
	} else {
		atomic_store(&joinable, generation);
		atomic_store(&wanted, 0);
		atomic_store(&check_at, CHECK_BYTES); /* for a child */
		PGW__ALLOC_COUNT(threads, 1);
	}
	errno = saved;
}

/* ---- safe points ---- */

/* The thread sleeps on what is pending; this wakes it for what may be unused. */
static void note_traffic(void)
{
	if (atomic_load_explicit(&activity, memory_order_relaxed) == BUSY)
		return;
	if (atomic_exchange(&activity, BUSY) == RESTING)
		pgw__space_wake();
}

/* pthread_join returns when the thread has let go of its memory, which the kernel counts as one of the process's
 * for a little longer. The bound is for a number that was given to another thread at once. */
static void wait_until_gone(void)
{
	pid_t id = atomic_load(&thread_id);

	for (int i = 0; i < 100000 && tgkill(pgw__sys.getpid(), id, 0) == 0; i++)
		(void)sched_yield();
}

/* The thread ends, if it is there; what makes it unwanted has been said, and is not taken back before.
 * pthread_join is a cancellation point, and what calls here is none. */
static void end_thread(void)
{
	bool taken = false;
	int cancel;

	while (pgw__purger_running() && !(taken = take_thread()))
		(void)sched_yield(); /* it is being made, or about to end */
	if (!taken)
		return;
	pgw__space_wake();
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	(void)pthread_join(thread, NULL);
	(void)pthread_setcancelstate(cancel, NULL);
	wait_until_gone();
	atomic_store(&running, 0);
}

/* The last thread to end runs exit(3)'s handlers. That must not be ours, whose descriptors are not
 * the program's (pressure.c). */
void pgw__purger_main_leaves(void)
{
	if (!pgw__space_generation())
		return;
	atomic_store(&left, pgw__space_generation());
	end_thread();
}

/* One caller at a time. A second one is another thread of the program, for which the kernel refuses
 * both, whatever is done here. In a vfork child the thread is not this process's, which has one thread
 * as it is. */
bool pgw__purger_pause(void)
{
	uint64_t g = pgw__space_generation(), before = atomic_load(&paused);

	if (!pgw__purger_running() || pgw__sys.getpid() != pgw__space_pid() || before == g ||
	    !atomic_compare_exchange_strong(&paused, &before, g))
		return false;
	end_thread();
	return true;
}

/* At once, for the program may not come by again: what it left unused is to go back. */
void pgw__purger_resume(bool paused_here)
{
	if (!paused_here)
		return;
	atomic_store(&paused, 0);
	if (!atomic_load(&exiting))
		start(pgw__space_generation());
}

static bool young(void)
{
	return pgw__now_ms() < pgw__space_born_ms() + YOUNG_MS;
}

/* Is there enough for a thread to do? */
static bool worth_it(bool in_malloc)
{
	struct pgw__unused u;

	if (!pgw__purger_upstream)
		return false;
	if (in_malloc && !__libc_single_threaded && pgw__space_held() >= SPAWN_HELD)
		return true;
	if (!pgw__purger_upstream->unused(&u))
		return false;
	u.bytes +=
	    __libc_single_threaded ? pgw__space_pending_alone() : pgw__space_look().pending_bytes;
	return u.bytes >= SPAWN_YOUNG_UNUSED || (u.bytes >= SPAWN_BYTES && !young());
}

static bool asked_for(bool in_malloc, uint64_t bytes)
{
	uint64_t at;

	if (atomic_load_explicit(&wanted, memory_order_relaxed) == pgw__space_generation())
		return true;
	at = atomic_load_explicit(&check_at, memory_order_relaxed);
	if (atomic_fetch_add_explicit(&traffic, bytes, memory_order_relaxed) + bytes < at)
		return false;
	atomic_store_explicit(&traffic, 0, memory_order_relaxed);
	if (at < CHECK_BYTES_MAX)
		atomic_store_explicit(&check_at, 2 * at, memory_order_relaxed);
	return worth_it(in_malloc);
}

void pgw__purger_poll(bool in_malloc, uint64_t bytes)
{
	if (pgw__purger_running()) {
		note_traffic();
		if (pgw__purger_running()) /* still: it has been told */
			return;
	}
	if (atomic_load(&exiting) || main_has_left() || !pgw__space_generation() ||
	    !pgw__option(PGW_ALLOC_THREAD))
		return;
	if (!in_malloc && !__libc_single_threaded)
		return;
	if (!asked_for(in_malloc, bytes) || pgw__now_ms() < atomic_load(&retry_ms))
		return;
	if (pgw__sys.getpid() != pgw__space_pid())
		return; /* in a vfork child it would run in the wrong process */
	start(pgw__space_generation());
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
		if (v->pending_bytes > v->limit + v->limit / HELP_SHARE)
			pgw__purge_inline(0, 0, HELP_RANGES);
		return;
	}
	if (over) {
		pgw__purge_inline(0, UINT64_MAX, SIZE_MAX);
	} else if (!pgw__option(PGW_ALLOC_THREAD) || atomic_load(&retry_ms) || main_has_left()) {
		uint64_t now = pgw__now_ms(), age = pgw__option(PGW_ALLOC_AGE);

		if (v->oldest_ms + age <= now)
			pgw__purge_inline(UINT64_MAX, now - age / 2, SIZE_MAX);
		if (lazy_due(v) && lazy_due(v) <= now)
			purge_lazy_due(now);
	}
	if (v->pending_bytes >= SPAWN_YOUNG_PENDING && pgw__option(PGW_ALLOC_THREAD))
		atomic_store_explicit(&wanted, pgw__space_generation(), memory_order_relaxed);
}

void pgw__purger_before_fork(bool alone)
{
	uint64_t pending = alone ? pgw__space_pending_alone() : pgw__space_look().pending_bytes;

	if (pending < FORK_BYTES)
		return;
	(void)pgw__purge_now();
	PGW__ALLOC_COUNT(fork_flushes, 1);
}
