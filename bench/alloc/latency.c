/* SPDX-License-Identifier: BSD-2-Clause
 *
 * latency.c [OPERATIONS] [THREADS] - how long a free takes: threads replace blocks of 4 to 96 KiB, and
 * every free is timed, and every malloc, so that it shows if one is short at the other's cost. Prints a
 * line of JSON: microseconds, of all threads together; malloc's have names that begin with malloc_.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS	1000
#define THREADS 16

enum { FREE, MALLOC, CALLS };

static size_t operations = 100000;
static uint32_t *times[CALLS][THREADS]; /* ns */

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Since start. */
static uint32_t elapsed_ns(uint64_t start)
{
	uint64_t t = now_ns() - start;

	return t < UINT32_MAX ? (uint32_t)t : UINT32_MAX;
}

static void *run(void *arg)
{
	uintptr_t k = (uintptr_t)arg;
	char *v[BLOCKS] = { NULL };
	uint64_t x = 88172645463325252ull + k * 2654435761u;

	for (size_t i = 0; i < operations; i++) {
		char **b = &v[next(&x) % BLOCKS];
		size_t n = 4096 + next(&x) % (92 * 1024);
		uint64_t t = now_ns();

		free(*b);
		times[FREE][k][i] = elapsed_ns(t);
		t = now_ns();
		*b = malloc(n);
		times[MALLOC][k][i] = elapsed_ns(t);
		if (!*b)
			abort();
		for (size_t at = 0; at < n; at += 4096)
			(*b)[at] = 1;
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(v[i]);
	return NULL;
}

static int cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void print(const char *prefix, uint32_t *all, size_t n)
{
	static const double quantiles[] = { 0.5, 0.99, 0.999, 0.9999, 1 };
	static const char *const names[] = { "p50", "p99", "p999", "p9999", "max" };

	qsort(all, n, sizeof(*all), cmp);
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++) {
		size_t at = (size_t)((double)n * quantiles[i]);

		printf("%s\"%s%s\": %.3f", i ? ", " : "", prefix, names[i],
		    all[at < n ? at : n - 1] / 1e3);
	}
}

int main(int argc, char **argv)
{
	size_t threads = argc > 2 ? strtoul(argv[2], NULL, 0) : 2;
	pthread_t t[THREADS];
	uint32_t *all;
	size_t n;

	if (argc > 1)
		operations = strtoul(argv[1], NULL, 0);
	n = threads * operations;
	if (!threads || threads > THREADS || !operations)
		return 2;
	all = calloc(CALLS * n, sizeof(*all));
	if (!all)
		return 1;
	for (size_t i = 0; i < CALLS * n; i++)
		all[i] = 1; /* the pages are there before anything is timed */
	for (uintptr_t i = 0; i < threads; i++) {
		for (size_t call = 0; call < CALLS; call++)
			times[call][i] = all + call * n + i * operations;
		if (pthread_create(&t[i], NULL, run, (void *)i))
			return 1;
	}
	for (size_t i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	putchar('{');
	print("", all, n);
	fputs(", ", stdout);
	print("malloc_", all + n, n);
	puts("}");
	free(all);
	return 0;
}
