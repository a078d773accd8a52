/* SPDX-License-Identifier: BSD-2-Clause
 *
 * threads.c - threads that take and give ranges while one purges and one forks, without jemalloc:
 * no two may own a byte at a time, and zeroes must be zeroes. Meant for the thread sanitizer too.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"
#include "purge.h"
#include "purger.h"
#include "space.h"

#define PAGE	((size_t)4096)
#define THREADS 4
#define BLOCKS	64
#define ROUNDS	20000

static atomic_bool stop;
static atomic_bool bad;

struct block {
	uint64_t *p;
	size_t size;
};

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* First and last word of each page. */
static void fill(struct block *b, uint64_t value)
{
	for (size_t i = 0; i < b->size / PAGE; i++) {
		b->p[i * PAGE / 8] = value;
		b->p[(i + 1) * PAGE / 8 - 1] = ~value;
	}
}

static void check(const struct block *b, uint64_t a, uint64_t z)
{
	for (size_t i = 0; i < b->size / PAGE; i++)
		if (b->p[i * PAGE / 8] != a || b->p[(i + 1) * PAGE / 8 - 1] != z)
			atomic_store(&bad, true);
}

static void give(struct block *b)
{
	struct pgw__space_view v;

	if (pgw__space_give(b->p, b->size, &v)) {
		atomic_store(&bad, true);
		return;
	}
	pgw__purger_notice(&v);
	b->p = NULL;
}

/* Grow in place, if that is possible. */
static void grow(struct block *b, uint64_t value)
{
	bool zero = true;
	void *end = (char *)b->p + b->size;
	struct block tail = { end, PAGE };

	if (!pgw__space_alloc(end, PAGE, PAGE, &zero))
		return;
	check(&tail, 0, 0);
	b->size += PAGE;
	fill(b, value);
}

static void *work(void *arg)
{
	struct block v[BLOCKS] = { { NULL, 0 } };
	uint64_t x = 0x9e3779b97f4a7c15u * ((uintptr_t)arg + 1);

	for (int i = 0; i < ROUNDS && !atomic_load(&bad); i++) {
		struct block *b = &v[next(&x) % BLOCKS];
		uint64_t value = (uint64_t)(uintptr_t)b;
		bool want = next(&x) % 2, zero = want;

		if (b->p) {
			check(b, value, ~value);
			if (next(&x) % 4 == 0)
				grow(b, value);
			else
				give(b);
			continue;
		}
		b->size = PAGE * (1 + next(&x) % 24);
		b->p = pgw__space_alloc(NULL, b->size, PAGE << next(&x) % 3, &zero);
		if (!b->p || (want && !zero)) {
			atomic_store(&bad, true);
			break;
		}
		if (zero)
			check(b, 0, 0);
		fill(b, value);
		pgw__purger_poll(true, b->size);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (v[i].p)
			give(&v[i]);
	return NULL;
}

static void *purge(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		pgw__purge_inline(0, UINT64_MAX, SIZE_MAX);
		usleep(500);
	}
	return NULL;
}

/* Children, by fork with its handlers, that use the space once. */
static void *forker(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		int st;
		pid_t pid = fork();

		if (pid == 0) {
			bool zero = true;
			struct block b = { pgw__space_alloc(NULL, 4 * PAGE, PAGE, &zero),
				4 * PAGE };

			alarm(30);
			if (!b.p)
				_exit(1);
			check(&b, 0, 0);
			_exit(atomic_load(&bad));
		}
		if (pid < 0 || waitpid(pid, &st, 0) != pid || st)
			atomic_store(&bad, true);
		usleep(2000);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS], purger, fork_thread;
	struct pgw_alloc_stats s;

	/* Bounds so tight that every way is taken. */
	pgw__option_set(PGW_ALLOC_PENDING, 64 * PAGE);
	pgw__option_set(PGW_ALLOC_SHARE, 0);
	pgw__option_set(PGW_ALLOC_RANGES, 32);
	pgw__option_set(PGW_ALLOC_AGE, 1);
	pgw__option_set(PGW_ALLOC_CLEAN, 512 * PAGE);
	pgw__option_set(PGW_ALLOC_CHUNK, 64 * PAGE);
	if (pthread_atfork(pgw__space_fork_prepare, pgw__space_fork_parent, pgw__space_fork_child))
		return 1;
	pthread_create(&purger, NULL, purge, NULL);
	pthread_create(&fork_thread, NULL, forker, NULL);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, work, (void *)i);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	atomic_store(&stop, true);
	pthread_join(fork_thread, NULL);
	pthread_join(purger, NULL);
	pgw__purge_all(0, UINT64_MAX);
	pgw__space_drain();
	pgw_alloc_stats_get(&s);
	printf("pending %lu, clean %lu, fresh %lu hits; %lu ranges in %lu purges (%lu inline); "
	       "%lu unmaps; %lu threads\n",
	    s.pending_hits, s.clean_hits, s.fresh_hits, s.purged_ranges, s.purges, s.inline_purges,
	    s.unmaps, s.threads);
	if (s.held_bytes || s.pending_bytes || s.in_flight_bytes)
		fprintf(stderr, "left over: %lu held, %lu pending, %lu in flight\n", s.held_bytes,
		    s.pending_bytes, s.in_flight_bytes);
	return atomic_load(&bad) || s.held_bytes || s.pending_bytes || s.in_flight_bytes ||
	       !s.pending_hits || !s.clean_hits || !s.fresh_hits || !s.purges || !s.unmaps;
}
