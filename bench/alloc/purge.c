/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purge.c [MIB] - the time and the TLB flushes of giving back so much memory in pieces of 4 KiB that do
 * not touch, while another thread runs on another processor. Prints a line of JSON; cpu_ms is what all
 * other threads but that one used.
 *
 * Run it with jemalloc's MALLOC_CONF=dirty_decay_ms:-1,tcache:false,narenas:1, so that nothing is given
 * back before it is told to be; for a malloc without mallctl there is nothing to measure (77).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tlbcount.h"

#define PIECE 4096

static atomic_bool stop;
static atomic_ulong turns;

/* Touches its own memory, so that it needs its TLB. */
static void *spin(void *arg)
{
	volatile char *v = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (size_t i = 0; i < 64; i++)
			v[i * PIECE]++;
		atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
	}
	return NULL;
}

_Noreturn static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double seconds(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	int (*ctl)(const char *, void *, size_t *, void *, size_t) =
	    (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
	size_t n = (argc > 1 ? strtoul(argv[1], NULL, 0) : 64) << 8;
	char **v = calloc(2 * n, sizeof(*v));
	char *own = aligned_alloc(PIECE, 64 * PIECE);
	const char *why = "";
	uint64_t flushes;
	pthread_t t;
	double s, cpu;
	clockid_t spinner;
	int fd;

	if (!ctl) {
		fprintf(stderr, "this malloc has no mallctl\n");
		exit(77);
	}
	if (!v || !own)
		fail("memory");
	for (size_t i = 0; i < 2 * n; i++) {
		v[i] = malloc(PIECE);
		if (!v[i])
			fail("memory");
		*v[i] = 1;
	}
	fd = tlbcount_open(&why);
	if (pthread_create(&t, NULL, spin, own))
		fail("a thread");
	while (!atomic_load(&turns))
		continue;
	if (pthread_getcpuclockid(t, &spinner))
		fail("the thread's clock");
	for (size_t i = 0; i < n; i++)
		free(v[2 * i]); /* what is between stays */
	flushes = fd >= 0 ? tlbcount_read(fd) : 0;
	s = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(spinner);
	if (ctl("arena.4096.purge", NULL, NULL, NULL, 0))
		fail("mallctl arena.4096.purge");
	s = seconds(CLOCK_MONOTONIC) - s;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(spinner) - cpu;
	flushes = fd >= 0 ? tlbcount_read(fd) - flushes : 0;
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	printf("{\"pieces\": %zu, \"ms\": %.3f, \"cpu_ms\": %.3f", n, s * 1000, cpu * 1000);
	if (fd >= 0)
		printf(", \"flushes\": %llu", (unsigned long long)flushes);
	puts("}");
	free(own);
	free(v);
	return 0;
}
