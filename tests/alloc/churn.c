/* SPDX-License-Identifier: BSD-2-Clause
 *
 * churn.c - threads that replace blocks of 4 to 96 KiB, and check every byte of each.
 *
 * usage: churn [-t threads] [-n operations a thread | -s seconds] [-b blocks a thread] [-q]
 *   -q  touch each page once, and do not check: for measurements, where filling blocks would be
 *       most of the time
 *
 * Prints operations per second, and leaves with 1 if a byte is wrong.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MIN_BYTES 4096
#define MAX_BYTES (96 * 1024)

static size_t threads = 2, operations = 100000, blocks = 1000;
static double duration; /* seconds, if it is not 0 */
static bool quick;
static atomic_bool stop;
static atomic_ulong done;

struct block {
	uint64_t *words;
	size_t n;
	uint64_t seed;
};

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static size_t step(void)
{
	return quick ? 4096 / sizeof(uint64_t) : 1;
}

static bool release(struct block *b)
{
	bool ok = true;

	for (size_t i = 0; i < b->n; i += step())
		ok &= b->words[i] == (b->seed ^ i);
	free(b->words);
	b->words = NULL;
	b->n = 0;
	return ok;
}

static bool acquire(struct block *b, uint64_t *x)
{
	size_t bytes = MIN_BYTES + next(x) % (MAX_BYTES - MIN_BYTES);

	b->n = bytes / sizeof(uint64_t);
	b->seed = next(x);
	b->words = malloc(bytes);
	if (!b->words)
		return false;
	for (size_t i = 0; i < b->n; i += step())
		b->words[i] = b->seed ^ i;
	return true;
}

static void *run(void *arg)
{
	struct block *v = calloc(blocks, sizeof(*v));
	uint64_t x = 88172645463325252ull + (uint64_t)(uintptr_t)arg * 2654435761u;
	bool ok = v;
	size_t i;

	for (i = 0; ok && (duration > 0 ? !atomic_load(&stop) : i < operations); i++) {
		struct block *b = &v[next(&x) % blocks];

		ok = release(b) && acquire(b, &x);
	}
	atomic_fetch_add(&done, i);
	for (i = 0; v && i < blocks; i++)
		ok &= release(&v[i]);
	free(v);
	return ok ? NULL : arg;
}

static void wait_for_the_end(void)
{
	struct timespec t = { (time_t)duration,
		(long)((duration - (double)(time_t)duration) * 1e9) };

	while (nanosleep(&t, &t))
		continue;
	atomic_store(&stop, true);
}

static bool join_all(pthread_t *t)
{
	bool ok = true;

	for (size_t i = 0; i < threads; i++) {
		void *bad;

		ok &= pthread_join(t[i], &bad) == 0 && !bad;
	}
	return ok;
}

int main(int argc, char **argv)
{
	struct timespec a, b;
	pthread_t t[64];
	double s;
	int c;

	while ((c = getopt(argc, argv, "t:n:s:b:q")) != -1) {
		if (c == 't')
			threads = strtoul(optarg, NULL, 0);
		else if (c == 'n')
			operations = strtoul(optarg, NULL, 0);
		else if (c == 's')
			duration = strtod(optarg, NULL);
		else if (c == 'b')
			blocks = strtoul(optarg, NULL, 0);
		else if (c == 'q')
			quick = true;
		else
			return 2;
	}
	if (!threads || threads > 64 || !blocks)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, run, (void *)(i + 1)))
			return 2;
	if (duration > 0)
		wait_for_the_end();
	if (!join_all(t)) {
		fprintf(stderr, "a block did not hold what was written to it, or there was none\n");
		return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	printf("%.0f\n", (double)atomic_load(&done) / s);
	return 0;
}
