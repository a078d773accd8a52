/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stress.c [OPERATIONS [THREADS [SEED]]] - threads that allocate in every way there is, from a byte
 * to 32 MiB, resize, free what other threads allocated, purge and fork; every byte is checked. Which
 * ways through the library are taken depends on PAGEWISE_ALLOC and MALLOC_CONF;
 * tests/alloc/meson.build has a list.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#define THREADS_MAX 64
#define SLOTS	    200

struct block {
	unsigned char *p;
	size_t n;
	unsigned char value;
};

static long operations = 20000;
static uint64_t seed;
static atomic_ullong checked; /* bytes */
static struct block shared[SLOTS];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void die(const char *what, const struct block *b)
{
	fprintf(stderr, "FAIL: %s: block of %zu bytes at %p\n", what, b->n, (void *)b->p);
	abort();
}

static void check(const struct block *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (b->p[i] != b->value)
			die("not what was written", b);
	atomic_fetch_add_explicit(&checked, n, memory_order_relaxed);
}

static void fill(struct block *b, uint64_t *x)
{
	b->value = (unsigned char)next(x);
	memset(b->p, b->value, b->n);
}

/* Small ones often, large ones sometimes, all powers of two alike. */
static size_t random_size(uint64_t *x)
{
	unsigned lg = next(x) % 64 ? next(x) % 18 : next(x) % 25;

	return ((size_t)1 << lg) + next(x) % ((size_t)1 << lg);
}

static void allocate(struct block *b, uint64_t *x)
{
	size_t align = (size_t)16 << next(x) % 18;

	b->n = random_size(x);
	switch (next(x) % 4) {
	case 0:
		b->p = calloc(1, b->n);
		b->value = 0;
		if (b->p)
			check(b, b->n);
		break;
	case 1:
		b->p = aligned_alloc(align, b->n);
		if ((uintptr_t)b->p % align)
			die("not aligned", b);
		break;
	default:
		b->p = malloc(b->n);
	}
	if (!b->p)
		die("no memory", b);
	if (malloc_usable_size(b->p) < b->n)
		die("too small", b);
	fill(b, x);
}

static void resize(struct block *b, uint64_t *x)
{
	size_t n = next(x) % 4 ? b->n + next(x) % (b->n + 1) : random_size(x);
	unsigned char *p = realloc(b->p, n);

	if (!p)
		die("no memory to resize", b);
	b->p = p;
	check(b, n < b->n ? n : b->n);
	b->n = n;
	fill(b, x);
}

static void release(struct block *b)
{
	check(b, b->n);
	free(b->p);
	b->p = NULL;
}

static void swap_with_others(struct block *b, uint64_t *x)
{
	size_t k = next(x) % SLOTS;
	struct block other;

	pthread_mutex_lock(&shared_lock);
	other = shared[k];
	shared[k] = *b;
	*b = other;
	pthread_mutex_unlock(&shared_lock);
}

static void in_child(uint64_t *x)
{
	int st = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct block b;

		alarm(60);
		for (int i = 0; i < 30; i++) {
			allocate(&b, x);
			resize(&b, x);
			release(&b);
		}
		_exit(0);
	}
	if (pid < 0) {
		perror("FAIL: fork");
		abort();
	}
	if (waitpid(pid, &st, 0) != pid || st) {
		fprintf(stderr, "FAIL: a child left with status 0x%x\n", (unsigned)st);
		abort();
	}
}

static void *run(void *arg)
{
	struct block v[SLOTS] = { { NULL, 0, 0 } };
	uint64_t x = 0x9e3779b97f4a7c15u * ((uintptr_t)arg + 1 + 1000 * seed);

	for (long i = 0; i < operations; i++) {
		struct block *b = &v[next(&x) % SLOTS];

		if (!b->p)
			allocate(b, &x);
		else if (next(&x) % 3 == 0)
			resize(b, &x);
		else
			release(b);
		if (next(&x) % 8 == 0)
			swap_with_others(b, &x);
		if (next(&x) % 5000 == 0)
			in_child(&x);
		if (next(&x) % 3000 == 0)
			(void)pgw_alloc_purge();
	}
	for (int i = 0; i < SLOTS; i++)
		if (v[i].p)
			release(&v[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	uintptr_t threads = argc > 2 ? strtoul(argv[2], NULL, 0) : 3;
	pthread_t t[THREADS_MAX];
	struct pgw_alloc_stats s;

	if (argc > 1)
		operations = atol(argv[1]);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 0);
	if (!threads || threads > THREADS_MAX)
		return 2;
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, run, (void *)i))
			return 1;
	for (uintptr_t i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < SLOTS; i++)
		if (shared[i].p)
			release(&shared[i]);
	pgw_alloc_stats_get(&s);
	printf("%llu bytes checked; pending %lu, stale %lu, clean %lu, fresh %lu hits; %lu ranges "
	       "in %lu purges "
	       "(%lu inline); %lu unmaps; %lu threads\n",
	    atomic_load(&checked), s.pending_hits, s.stale_hits, s.clean_hits, s.fresh_hits,
	    s.purged_ranges, s.purges, s.inline_purges, s.unmaps, s.threads);
	return 0;
}
