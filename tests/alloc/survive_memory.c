/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive_memory.c - memory that works: see survive.h.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "survive.h"

static atomic_bool stop;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

bool is(const unsigned char *p, size_t n, unsigned char value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

bool memory_works(size_t rounds, uint64_t seed)
{
	struct {
		unsigned char *p;
		size_t n;
	} v[40] = { { NULL, 0 } };
	uint64_t x = seed * 2654435761u + 1;
	bool ok = true;

	for (size_t i = 0; ok && i < rounds; i++) {
		size_t k = next(&x) % 40;
		unsigned char value = (unsigned char)(k + 1);

		ok = !v[k].p || is(v[k].p, v[k].n, value);
		free(v[k].p);
		v[k].n = 1 + next(&x) % (64 * 1024);
		v[k].p = next(&x) % 2 ? calloc(1, v[k].n) : NULL;
		if (v[k].p)
			ok &= is(v[k].p, v[k].n, 0);
		else
			v[k].p = malloc(v[k].n);
		if (!v[k].p)
			return false;
		memset(v[k].p, value, v[k].n);
	}
	for (size_t k = 0; k < 40; k++)
		free(v[k].p);
	return ok;
}

static void *load(void *arg)
{
	while (!atomic_load(&stop))
		if (!memory_works(200, (uintptr_t)arg))
			return arg;
	return NULL;
}

static pthread_t loaders[3];

void start_load(void)
{
	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&loaders[i], NULL, load, (void *)(i + 1)))
			abort();
}

bool end_load(void)
{
	bool ok = true;

	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++) {
		void *bad;

		ok &= !pthread_join(loaders[i], &bad) && !bad;
	}
	return ok;
}

int wait_for(pid_t pid)
{
	int st;

	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return -1;
	return st;
}
