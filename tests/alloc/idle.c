/* SPDX-License-Identifier: BSD-2-Clause
 *
 * idle.c CASE: a process that has freed gets its memory back to the kernel while it does nothing,
 * and at once when it asks. Linked to the library; run with MALLOC_CONF=dirty_decay_ms:500.
 *
 * Nothing here calls malloc while it waits. No time is asserted but a generous end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>
#include <pagewise/alloc.h>

#include "cases.h"

#define KIB	 ((size_t)1 << 10)
#define MIB	 ((size_t)1 << 20)
#define END_S	 60
#define BLOCKS_N 8192

static void nap(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* Sleeps until at most this much is resident. */
static bool falls_to(size_t bytes)
{
	for (int i = 0; i < END_S * 20 && resident() > bytes; i++)
		nap(50);
	return resident() <= bytes;
}

/* ---- blocks ---- */

static void *v[BLOCKS_N];

static void fill(size_t n, size_t size)
{
	for (size_t i = 0; i < n; i++) {
		v[i] = malloc(size);
		if (!v[i])
			abort();
		memset(v[i], 1, size);
	}
}

static void drop(size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
}

/* ---- cases ---- */

/* 512 MiB in blocks that stay in jemalloc's caches until they decay. */
static int blocks(void)
{
	size_t before = resident();

	fill(BLOCKS_N, 64 * KIB);
	if (resident() < before + 500 * MIB)
		return wrong("512 MiB are not resident");
	drop(BLOCKS_N);
	return falls_to(before + 8 * MIB) ? 0 : wrong("the memory stays");
}

/* In a few large ones, between others that stay: it takes few calls of malloc and free, and the thread must
 * be there by the end of them. */
static int few_blocks(void)
{
	size_t before = resident(), stays = 19 * 3 * MIB;

	fill(38, 3 * MIB);
	if (resident() < before + 2 * stays)
		return wrong("114 MiB are not resident");
	for (size_t i = 0; i < 38; i += 2)
		free(v[i]);
	return falls_to(before + stays + 8 * MIB) ? 0 : wrong("the memory stays");
}

/* The same where the kernel may take it lazily first: resident memory falls all the same, later. */
static int lazily(void)
{
	if (blocks())
		return 1;
	if (stats().lazily_freed_bytes < 500 * MIB)
		return wrong("it was not freed lazily");
	for (int i = 0; i < END_S * 20 && stats().purged_bytes < 500 * MIB; i++)
		nap(50); /* it is counted a moment after it is gone */
	return stats().purged_bytes >= 500 * MIB ? 0 : wrong("it was not purged for good");
}

/* It stays with the kernel for ever, until somebody asks. */
static int lazy_for_ever(void)
{
	size_t before = resident();

	fill(512, 64 * KIB);
	drop(512);
	for (int i = 0; i < END_S * 20 && stats().lazily_freed_bytes < 30 * MIB; i++)
		nap(50);
	if (stats().lazily_freed_bytes < 30 * MIB || stats().purged_bytes)
		return wrong("it was not freed lazily alone");
	if (pgw_alloc_purge() || stats().lazy_bytes)
		return wrong("purge");
	return resident() <= before + 8 * MIB ? 0 : wrong("the memory stays");
}

/* Once it has nothing to do the purger rests; it notices that there is something again. */
static int again(void)
{
	size_t before = resident();

	for (int i = 0; i < 3; i++) {
		fill(512, 64 * KIB);
		drop(512);
		if (!falls_to(before + 8 * MIB))
			return wrong("the memory stays");
		nap(1500);
	}
	return stats().threads == 1 ? 0 : wrong("not one purger");
}

static void *fill_and_drop(void *arg)
{
	fill(512, 64 * KIB);
	drop(512);
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg); /* idle, with its arena, until the test ends */
	return NULL;
}

/* The memory is in the arena of a thread that does nothing any more. */
static int other_arena(void)
{
	size_t before = resident();
	pthread_barrier_t b;
	pthread_t t;
	int r;

	pthread_barrier_init(&b, NULL, 2);
	if (pthread_create(&t, NULL, fill_and_drop, &b))
		return wrong("pthread_create");
	pthread_barrier_wait(&b);
	r = falls_to(before + 8 * MIB) ? 0 : wrong("the memory stays");
	pthread_barrier_wait(&b);
	pthread_join(t, NULL);
	return r;
}

static void *drop_half(void *arg)
{
	for (size_t i = (size_t)arg; i < 512; i += 2)
		free(v[i]);
	return NULL;
}

/* Threads that only free: the purger cannot be made there, and is needed all the same. */
static int freeing_threads(void)
{
	size_t before = resident();
	pthread_t t[2];

	/* From here on the process counts as one with threads. */
	if (pthread_create(&t[0], NULL, drop_half, (void *)1) || pthread_join(t[0], NULL))
		return wrong("pthread_create");
	fill(512, 64 * KIB);
	for (size_t i = 0; i < 2; i++)
		if (pthread_create(&t[i], NULL, drop_half, (void *)i))
			return wrong("pthread_create");
	for (size_t i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return falls_to(before + 8 * MIB) ? 0 : wrong("the memory stays");
}

/* A little, in a process that is not young any more. */
static int little(void)
{
	struct pgw_alloc_stats s;
	size_t page, len = sizeof(page);

	if (mallctl("arenas.page", &page, &len, NULL, 0))
		return wrong("arenas.page");
	free(malloc(64 * KIB));
	nap(1500);
	fill(10, 8 * page + 1); /* each by itself, not in a slab with others */
	drop(10);
	if (stats().threads != 1)
		return wrong("no purger");
	for (int i = 0; i < END_S * 20; i++) {
		s = stats();
		if (s.given_bytes && s.pending_bytes + s.in_flight_bytes == 0)
			return s.purged_bytes >= 300 * KIB ? 0 : wrong("too little was purged");
		nap(50);
	}
	return wrong("the memory stays");
}

/* With background_thread:true jemalloc's own thread waits until there are 1024 pages to purge, or for long, and
 * then purges them at once. Less than that is given back little by little all the same, by our thread. */
static int beside_background(void)
{
	size_t before;
	uint64_t purges;

	before = resident();
	fill(96, 64 * KIB);
	for (size_t i = 0; i < 96;
	     i += 2) /* the others stay, and between them each is one of its own */
		free(v[i]);
	purges = stats().purges;
	if (!falls_to(before + 48 * 64 * KIB + MIB))
		return wrong("the memory stays");
	return stats().purges >= purges + 3 ? 0 : wrong("all of it went at once");
}

/* Run with a decay of ten minutes: what has just become unused is not given back after a moment. */
static int young(void)
{
	fill(96, 64 * KIB);
	for (size_t i = 0; i < 96; i += 2)
		free(v[i]);
	nap(2500); /* the purger looks once a second */
	if (stats().threads != 1)
		return wrong("no purger");
	return stats().given_bytes == 0 ? 0 : wrong("it was given back");
}

/* A short life costs no thread. */
static int no_thread(void)
{
	for (int i = 0; i < 20; i++) {
		fill(16, 32 * KIB + 1);
		drop(16);
	}
	return stats().threads == 0 ? 0 : wrong("a purger for nothing");
}

/* The status of the one thread beside the first. */
static bool find_purger(char *path, size_t cap)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		found = e->d_name[0] != '.' && strtol(e->d_name, NULL, 10) != getpid();
		if (found)
			snprintf(path, cap, "/proc/self/task/%s/status", e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

/* It ends when nothing is left for it, which takes a rest that nothing has disturbed, and comes again. */
static int ends(void)
{
	size_t before = resident();
	char path[300];

	for (unsigned round = 1; round <= 2; round++) {
		fill(512, 64 * KIB);
		drop(512);
		if (!find_purger(path, sizeof(path)) || stats().threads != round)
			return wrong("no purger");
		for (int i = 0; i < END_S && !access(path, F_OK); i++)
			nap(1000);
		if (!access(path, F_OK))
			return wrong("it does not end");
		if (resident() > before + 8 * MIB)
			return wrong("the memory stays");
	}
	return 0;
}

/* A process that holds much is idle for long, frees all of it, and is idle again. */
static int later(void)
{
	size_t before = resident();

	fill(512, 64 * KIB);
	drop(512);
	fill(512, 64 * KIB);
	nap(8000); /* longer than the purger rests before it ends, were there nothing to wait for */
	drop(512);
	return falls_to(before + 8 * MIB) ? 0 : wrong("the memory stays");
}

/* ---- cases: asking ---- */

static int asked(int (*give_back)(void))
{
	size_t before = resident();

	fill(2048, 64 * KIB);
	drop(2048);
	if (give_back())
		return wrong("not given back");
	return resident() <= before + 8 * MIB ? 0 : wrong("it returned before the memory was free");
}

static int trim(void)
{
	return malloc_trim(0) == 1 ? 0 : -1;
}

static int by_trim(void)
{
	if (asked(trim))
		return 1;
	errno = 0;
	(void)malloc_trim(0); /* what opening files has left in the cache of this thread */
	return malloc_trim(0) == 0 && errno == 0 ? 0 : wrong("nothing, but it says so not");
}

static int by_purge(void)
{
	return asked(pgw_alloc_purge);
}

static int arena_purge(void)
{
	return mallctl("arena.0.purge", NULL, NULL, NULL, 0);
}

static int by_arena(void)
{
	return asked(arena_purge);
}

static int all_arenas(void)
{
	size_t mib[3], n = 3;

	if (mallctlnametomib("arena.0.purge", mib, &n))
		return -1;
	mib[1] = MALLCTL_ARENAS_ALL;
	return mallctlbymib(mib, n, NULL, NULL, NULL, 0);
}

static int by_all_arenas(void)
{
	return asked(all_arenas);
}

static const struct test_case cases[] = {
	{ "blocks", blocks },
	{ "few-blocks", few_blocks },
	{ "lazily", lazily },
	{ "lazy-for-ever", lazy_for_ever },
	{ "again", again },
	{ "beside-background", beside_background },
	{ "young", young },
	{ "other-arena", other_arena },
	{ "freeing-threads", freeing_threads },
	{ "little", little },
	{ "no-thread", no_thread },
	{ "ends", ends },
	{ "later", later },
	{ "trim", by_trim },
	{ "purge", by_purge },
	{ "arena-purge", by_arena },
	{ "all-arenas-purge", by_all_arenas },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
