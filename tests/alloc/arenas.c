/* SPDX-License-Identifier: BSD-2-Clause
 *
 * arenas.c - every arena, however it came to be, takes its memory from us and gives it to us.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jemalloc/jemalloc.h>
#include <pagewise/alloc.h>

#define MIB ((size_t)1 << 20)

static struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

static extent_hooks_t *hooks_of(unsigned arena)
{
	char name[64];
	extent_hooks_t *hooks = NULL;
	size_t len = sizeof(hooks);

	snprintf(name, sizeof(name), "arena.%u.extent_hooks", arena);
	assert_int_equal(mallctl(name, &hooks, &len, NULL, 0), 0);
	return hooks;
}

static unsigned arena_of(void *p)
{
	unsigned arena = 0;
	size_t len = sizeof(arena);

	assert_int_equal(mallctl("arenas.lookup", &arena, &len, &p, sizeof(p)), 0);
	return arena;
}

static void purge(unsigned arena)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.purge", arena);
	assert_int_equal(mallctl(name, NULL, NULL, NULL, 0), 0);
}

/* A block of this arena's comes through our hooks, and its memory has been given back through them
 * when the arena's purge returns. */
static void check_arena(unsigned arena)
{
	int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
	struct pgw_alloc_stats before = stats(), after;
	unsigned char *p = mallocx(3 * MIB, flags);

	assert_non_null(p);
	assert_int_equal(arena_of(p), arena);
	memset(p, 0xa5, 3 * MIB);
	after = stats();
	assert_true(after.held_bytes >= before.held_bytes + 3 * MIB);
	dallocx(p, flags);
	purge(arena);
	after = stats();
	assert_true(after.given_bytes >= before.given_bytes + 3 * MIB);
	assert_true(after.purged_bytes >= before.purged_bytes + 3 * MIB);
	assert_int_equal(after.pending_bytes, 0);
	assert_int_equal(after.in_flight_bytes, 0);
}

static void arena_0(void **state)
{
	(void)state;
	assert_non_null(hooks_of(0));
	check_arena(0);
}

#define THREADS 8

static pthread_barrier_t barrier;

static void *in_thread(void *arg)
{
	void *p = malloc(100);

	*(unsigned *)arg = arena_of(p);
	pthread_barrier_wait(&barrier); /* an arena that nobody uses would be given out again */
	free(p);
	return NULL;
}

static void automatic(void **state)
{
	pthread_t t[THREADS];
	unsigned arena[THREADS], seen = 0;

	(void)state;
	assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, in_thread, &arena[i]), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	for (int i = 0; i < THREADS; i++) {
		if (seen & (1u << arena[i]))
			continue;
		seen |= 1u << arena[i];
		assert_ptr_equal(hooks_of(arena[i]), hooks_of(0));
		check_arena(arena[i]);
	}
	assert_true(__builtin_popcount(seen) > 1);
}

static void oversize(void **state)
{
	struct pgw_alloc_stats before = stats();
	void *p = malloc(16 * MIB);
	unsigned arena = arena_of(p), automatic_ones;
	size_t len = sizeof(automatic_ones);

	(void)state;
	assert_int_equal(mallctl("opt.narenas", &automatic_ones, &len, NULL, 0), 0);
	assert_int_equal(arena, automatic_ones); /* the one behind */
	assert_ptr_equal(hooks_of(arena), hooks_of(0));
	/* jemalloc 5.3.1 asks for whole huge pages here. */
	assert_true(stats().held_bytes >= before.held_bytes + 16 * MIB + 4096);
	assert_true(stats().held_bytes <= before.held_bytes + 18 * MIB);
	free(p);
	assert_true(stats().given_bytes >= before.given_bytes + 16 * MIB);
}

static void created(void **state)
{
	struct pgw_alloc_stats before = stats();
	unsigned arena;
	size_t len = sizeof(arena);
	char name[64];

	(void)state;
	assert_int_equal(mallctl("arenas.create", &arena, &len, NULL, 0), 0);
	assert_int_equal(stats().arenas, before.arenas + 1);
	assert_ptr_equal(hooks_of(arena), hooks_of(0));
	check_arena(arena);
	snprintf(name, sizeof(name), "arena.%u.destroy", arena);
	assert_int_equal(mallctl(name, NULL, NULL, NULL, 0), 0);
	assert_true(stats().held_bytes <= before.held_bytes);
}

static int own_calls;
static extent_hooks_t own;
static extent_hooks_t *theirs;

static void *own_alloc(extent_hooks_t *h, void *addr, size_t size, size_t align, bool *zero,
    bool *commit, unsigned arena)
{
	own_calls++;
	return theirs->alloc(h, addr, size, align, zero, commit, arena);
}

/* An arena made with hooks of the program's own keeps them. They may call ours, as programs do with
 * jemalloc's default ones. */
static void with_hooks_of_its_own(void **state)
{
	struct pgw_alloc_stats before = stats();
	extent_hooks_t *hooks = &own;
	unsigned arena;
	size_t len = sizeof(arena);
	void *p;

	(void)state;
	theirs = hooks_of(0);
	own = *theirs;
	own.alloc = own_alloc;
	assert_int_equal(mallctl("arenas.create", &arena, &len, &hooks, sizeof(hooks)), 0);
	assert_ptr_equal(hooks_of(arena), &own);
	assert_int_equal(stats().arenas_foreign, before.arenas_foreign + 1);
	own_calls = 0;
	p = mallocx(MIB, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
	assert_non_null(p);
	assert_true(own_calls > 0);
	dallocx(p, MALLOCX_TCACHE_NONE);
}

static void purge_all(void **state)
{
	void *v[200];

	(void)state;
	for (size_t i = 0; i < 200; i++) {
		v[i] = malloc(64 * 1024);
		memset(v[i], 1, 64 * 1024);
	}
	for (size_t i = 0; i < 200; i++)
		free(v[i]);
	assert_int_equal(pgw_alloc_purge(), 0);
	assert_int_equal(stats().pending_bytes, 0);
	assert_int_equal(stats().in_flight_bytes, 0);
}

/* Their own settings reach jemalloc; only the default of retain is another. */
static void settings(void **state)
{
	bool retain = true;
	size_t len = sizeof(retain);
	uint64_t v = 0;

	(void)state;
	assert_int_equal(mallctl("opt.retain", &retain, &len, NULL, 0), 0);
	assert_false(retain);
	assert_int_equal(pgw_alloc_option_set(PGW_ALLOC_AGE, 200), 0);
	assert_int_equal(pgw_alloc_option_get(PGW_ALLOC_AGE, &v), 0);
	assert_int_equal(v, 200);
	assert_int_equal(pgw_alloc_option_set(PGW_ALLOC_HOOKS, 0), -1 /* -EPERM */);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_0),
		cmocka_unit_test(automatic),
		cmocka_unit_test(oversize),
		cmocka_unit_test(created),
		cmocka_unit_test(with_hooks_of_its_own),
		cmocka_unit_test(purge_all),
		cmocka_unit_test(settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
