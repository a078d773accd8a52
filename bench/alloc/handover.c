/* SPDX-License-Identifier: BSD-2-Clause
 *
 * handover.c [OPERATIONS] [ROUNDS] - what a thread pays to hand a free range over to the pool of those
 * that wait to be purged, and to get one from there: with a lock around the pool, as alloc/space.c has
 * it, and with a wait-free queue in front (liburcu's), into which who frees puts the range, and which
 * whoever takes the lock empties into the pool first, since he may be looking for just that range.
 *
 * The pools are the allocator's own (alloc/pool.c), the ranges are numbers: no memory, no system call.
 * Threads replace blocks of 4 to 96 KiB; one more takes all that waits, as soon as that is 2.25 MiB, and
 * puts it back as purged; where it cannot keep up they help. How it is woken is left out: it looks every
 * 50 us, both times.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <urcu/wfcqueue.h>

#include "pool.h"

#define BLOCKS	1000
#define NODES	16384 /* a power of two */
#define THREADS 4
#define ROUNDS	15
#define BATCH	1024
#define SLICE	32 /* ranges, after which the lock is let go for a moment */
#define LIMIT	(UINT64_C(2304) << 10)
#define PAGE	4096
#define SPACE	(UINT64_C(1) << 36)
#define LOOK_US 50

enum { LOCK, QUEUE, HANDOVERS };
enum { GIVE, REQUEST, CALLS };

static const char *const names[HANDOVERS] = { "a lock", "a queue, and the lock" };

/* A range in the queue. A thread uses its own in turn: one that was linked in behind another that is
 * just being linked stays there a little longer than the call that did it. */
struct node {
	struct cds_wfcq_node link;
	struct pgw_range r;
	atomic_bool queued;
};

static size_t operations = 200000;
static int handover;
static size_t n_threads;
static atomic_size_t working;

static pthread_mutex_t lock;
static struct pgw__extent_cache cache;
static struct pgw__pool pending, clean;
static struct __cds_wfcq_head head;
static struct cds_wfcq_tail tail;
static struct pgw_range blocks[THREADS][BLOCKS];
static struct node nodes[THREADS][NODES];
static uint32_t *times[THREADS][CALLS]; /* ns */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "bench-alloc-handover: %s\n", what);
	abort();
}

static void add(struct pgw__pool *p, struct pgw_range r)
{
	struct pgw__extent *e = pgw__extent_new(&cache);

	if (!e)
		die("no memory for an extent");
	e->start = r.start;
	e->len = r.len;
	e->stamp = 0;
	if (pgw__pool_add(p, e))
		die("a range was given twice");
}

/* The lock is held. Ends early at a range that somebody is just linking in: it is the next one's. */
static void drain(void)
{
	struct cds_wfcq_node *link;

	while (
	    (link = __cds_wfcq_dequeue_nonblocking(&head, &tail)) && link != CDS_WFCQ_WOULDBLOCK) {
		struct node *n = caa_container_of(link, struct node, link);

		add(&pending, n->r);
		atomic_store_explicit(&n->queued, false, memory_order_release);
	}
}

static void enter(void)
{
	pthread_mutex_lock(&lock);
	if (handover == QUEUE)
		drain();
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
}

static void give(struct pgw_range r, struct node *n)
{
	if (handover == QUEUE) {
		while (atomic_load_explicit(&n->queued, memory_order_acquire))
			sched_yield(); /* behind one whose thread lost the processor as it linked it */
		atomic_store_explicit(&n->queued, true, memory_order_relaxed);
		n->r = r;
		cds_wfcq_node_init(&n->link);
		(void)cds_wfcq_enqueue(&head, &tail, &n->link);
		return;
	}
	pthread_mutex_lock(&lock);
	add(&pending, r);
	pthread_mutex_unlock(&lock);
}

/* A pending range of about this size, or one that was purged. */
static struct pgw_range request(uint64_t size)
{
	struct pgw_range r = { 0, size };

	enter();
	if (!pgw__pool_fit(&pending, size, PAGE, size / 16, &r.start) &&
	    !pgw__pool_fit(&clean, size, PAGE, UINT64_MAX, &r.start))
		die("no range left");
	leave();
	return r;
}

static void breathe(size_t done)
{
	if (done % SLICE)
		return;
	leave();
	enter();
}

/* The purger, without its purge. */
static void take_and_put(void)
{
	struct pgw__extent *taken[BATCH];
	struct pgw__extent *e;
	size_t n = 0;

	enter();
	if (pending.bytes > LIMIT)
		while (n < BATCH && (e = pgw__pool_oldest(&pending))) {
			pgw__pool_remove(&pending, e);
			taken[n++] = e;
			breathe(n);
		}
	leave();
	if (!n)
		return;
	enter();
	for (size_t i = 0; i < n; i++) {
		if (pgw__pool_add(&clean, taken[i]))
			die("a range was purged twice");
		breathe(i + 1);
	}
	leave();
}

static void *purger(void *arg)
{
	while (atomic_load(&working)) {
		take_and_put();
		nanosleep(&(struct timespec){ 0, LOOK_US * 1000L }, NULL);
	}
	return arg;
}

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static uint64_t some_size(uint64_t *x)
{
	return (1 + next(x) % 24) * PAGE;
}

static void *churn(void *arg)
{
	size_t k = (size_t)(uintptr_t)arg;
	uint64_t x = 88172645463325252ull + k * 2654435761u;

	for (size_t i = 0; i < operations; i++) {
		struct pgw_range *b = &blocks[k][next(&x) % BLOCKS];
		uint64_t size = some_size(&x), t0 = now_ns(), t1, t2;

		give(*b, &nodes[k][i % NODES]);
		t1 = now_ns();
		*b = request(size);
		t2 = now_ns();
		times[k][GIVE][i] = (uint32_t)(t1 - t0);
		times[k][REQUEST][i] = (uint32_t)(t2 - t1);
		if (__atomic_load_n(&pending.bytes, __ATOMIC_RELAXED) > LIMIT + LIMIT / 4)
			take_and_put(); /* the purger gets no processor */
	}
	atomic_fetch_sub(&working, 1);
	return NULL;
}

static void set_up(void)
{
	lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	pgw__extent_cache_init(&cache);
	pgw__pool_init(&pending, &cache);
	pgw__pool_init(&clean, &cache);
	__cds_wfcq_init(&head, &tail);
	memset(nodes, 0, sizeof(nodes));
	add(&clean, (struct pgw_range){ SPACE, SPACE });
	for (size_t k = 0; k < n_threads; k++) {
		uint64_t x = k + 1;

		for (size_t i = 0; i < BLOCKS; i++)
			blocks[k][i] = request(some_size(&x));
	}
}

static double run(void)
{
	pthread_t t[THREADS + 1];
	uint64_t start;
	double s;

	set_up();
	atomic_store(&working, n_threads);
	start = now_ns();
	for (size_t k = 0; k < n_threads; k++)
		if (pthread_create(&t[k], NULL, churn, (void *)(uintptr_t)k))
			die("pthread_create");
	if (pthread_create(&t[n_threads], NULL, purger, NULL))
		die("pthread_create");
	for (size_t k = 0; k < n_threads; k++)
		pthread_join(t[k], NULL);
	s = (double)(now_ns() - start) / 1e9;
	pthread_join(t[n_threads], NULL);
	return (double)(n_threads * operations) / s;
}

/* ---- what came of it ---- */

static const double quantiles[] = { 0.5, 0.99, 0.999 };

#define QUANTILES (sizeof(quantiles) / sizeof(*quantiles))

struct result {
	double per_s, peak_mib, us[CALLS][QUANTILES];
};

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void summarize(struct result *r, uint32_t *all)
{
	size_t n = n_threads * operations;

	r->peak_mib = (double)pending.bytes_peak / (1 << 20);
	for (int call = 0; call < CALLS; call++) {
		for (size_t k = 0; k < n_threads; k++)
			memcpy(all + k * operations, times[k][call], operations * sizeof(*all));
		qsort(all, n, sizeof(*all), cmp_u32);
		for (size_t q = 0; q < QUANTILES; q++)
			r->us[call][q] = all[(size_t)((double)n * quantiles[q])] / 1e3;
	}
}

/* Of one field of the rounds' results. */
static double median(const struct result *r, size_t rounds, size_t field)
{
	double v[ROUNDS];

	for (size_t i = 0; i < rounds; i++)
		memcpy(&v[i], (const char *)&r[i] + field, sizeof(double));
	qsort(v, rounds, sizeof(*v), cmp_double);
	return v[rounds / 2];
}

static void print(const char *name, const struct result *r, size_t rounds)
{
	printf("| %zu | %s | %.0f |", n_threads, name,
	    median(r, rounds, offsetof(struct result, per_s)) / 1e3);
	for (size_t i = 0; i < CALLS * QUANTILES; i++)
		printf(
		    " %.2f |", median(r, rounds, offsetof(struct result, us) + i * sizeof(double)));
	printf(" %.1f |\n", median(r, rounds, offsetof(struct result, peak_mib)));
}

int main(int argc, char **argv)
{
	static struct result r[HANDOVERS][ROUNDS];
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 5;
	uint32_t *all;

	if (argc > 1)
		operations = strtoul(argv[1], NULL, 0);
	if (!operations || !rounds || rounds > ROUNDS) {
		fprintf(stderr, "usage: bench-alloc-handover [OPERATIONS [ROUNDS, at most %d]]\n",
		    ROUNDS);
		return 2;
	}
	all = calloc(THREADS * operations, sizeof(*all));
	for (size_t k = 0; all && k < THREADS; k++)
		for (int call = 0; call < CALLS; call++)
			if (!(times[k][call] = calloc(operations, sizeof(uint32_t))))
				return 1;
	if (!all)
		return 1;
	puts("| threads | handed over by | thousand a second | give, us: p50 | p99 | p99.9 "
	     "| request, us: p50 | p99 | p99.9 | waited at most, MiB |\n"
	     "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
	for (n_threads = 1; n_threads <= THREADS; n_threads *= 2) {
		for (size_t i = 0; i < rounds; i++)
			for (handover = 0; handover < HANDOVERS; handover++) {
				r[handover][i].per_s = run();
				summarize(&r[handover][i], all);
			}
		for (int h = 0; h < HANDOVERS; h++)
			print(names[h], r[h], rounds);
	}
	return 0;
}
