/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hide.c - clean space that is kept out of core dumps, without jemalloc: what the kernel is told, and
 * what happens when it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "options.h"
#include "purge.h"
#include "space.h"
#include "sys.h"

#define PAGE ((size_t)4096)
#define MIB  ((size_t)1 << 20)

static struct {
	int hides, reveals;
	uint64_t hidden_bytes; /* told to be hidden, less what was revealed */
	int hide_err, reveal_err;
} sim;

static int sim_madvise(void *addr, size_t len, int advice)
{
	int err = 0;

	if (advice == MADV_DONTDUMP)
		err = sim.hide_err;
	if (advice == MADV_DODUMP)
		err = sim.reveal_err;
	if (!err)
		err = pgw__sys_real.madvise(addr, len, advice);
	if (!err && advice == MADV_DONTDUMP) {
		sim.hides++;
		sim.hidden_bytes += len;
	}
	if (!err && advice == MADV_DODUMP) {
		sim.reveals++;
		sim.hidden_bytes -= len;
	}
	return err;
}

static int set_up(void **state)
{
	(void)state;
	pgw_dontneed_zeroes();
	pgw__space_reset();
	memset(&sim, 0, sizeof(sim));
	pgw__sys.madvise = sim_madvise;
	pgw__option_set(PGW_ALLOC_CLEAN, 1024 * MIB);
	pgw__option_set(PGW_ALLOC_CHUNK, 2 * MIB);
	pgw__option_set(PGW_ALLOC_HIDE, 16 * MIB);
	return 0;
}

static struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

static unsigned char *get(size_t size, size_t align)
{
	bool zero = true;
	unsigned char *p = pgw__space_alloc(NULL, size, align, &zero);

	assert_non_null(p);
	for (size_t i = 0; i < size; i += PAGE)
		assert_int_equal(p[i], 0);
	return p;
}

/* A range that was used, and is clean again. */
static unsigned char *purged(size_t size)
{
	unsigned char *p = get(size, PAGE);
	struct pgw__space_view v;

	for (size_t i = 0; i < size; i += PAGE)
		p[i] = 1;
	assert_int_equal(pgw__space_give(p, size, &v), 0);
	pgw__purge_all(0, UINT64_MAX);
	return p;
}

static void large_is_hidden(void **state)
{
	(void)state;
	purged(32 * MIB);
	assert_int_equal(sim.hides, 1);
	assert_int_equal(stats().hides, 1);
	assert_true(stats().hidden_bytes >= 32 * MIB);
	assert_int_equal(stats().hidden_bytes, sim.hidden_bytes);
	assert_int_equal(stats().hidden_ranges, 1);
}

static void small_is_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		purged(8 * MIB);
		get(8 * MIB, PAGE); /* the next one is not its neighbour */
	}
	assert_int_equal(sim.hides, 0);
	pgw__option_set(PGW_ALLOC_HIDE, 0);
	purged(64 * MIB);
	assert_int_equal(sim.hides, 0);
	assert_int_equal(stats().hidden_bytes, 0);
}

/* In chunks, so that small requests do not make a call each. */
static void revealed_when_reused(void **state)
{
	unsigned char *a = purged(32 * MIB), *p;
	uint64_t before = stats().hidden_bytes, fresh = stats().fresh_bytes;

	(void)state;
	for (size_t i = 0; i < 2 * MIB / (4 * PAGE); i++) {
		p = get(4 * PAGE, PAGE);
		assert_true(p >= a && p < a + before);
	}
	assert_int_equal(sim.reveals, 1);
	assert_int_equal(stats().hidden_bytes, before - 2 * MIB);
	assert_int_equal(stats().hidden_bytes, sim.hidden_bytes);
	assert_int_equal(stats().hidden_hits, 1);
	assert_int_equal(stats().fresh_bytes, fresh);
	get(24 * MIB, 2 * MIB);
	assert_int_equal(stats().fresh_bytes, fresh);
	assert_int_equal(stats().hidden_hits, 2);
	assert_int_equal(stats().hidden_bytes, sim.hidden_bytes);
}

static void revealed_at_a_place(void **state)
{
	unsigned char *a = purged(32 * MIB);
	bool zero = true;

	(void)state;
	assert_ptr_equal(pgw__space_alloc(a + MIB, MIB, PAGE, &zero), a + MIB);
	assert_true(zero);
	assert_int_equal(sim.reveals, 1);
	assert_int_equal(stats().hidden_bytes, sim.hidden_bytes);
	assert_int_equal(stats().hidden_ranges, 2);
}

/* The kernel would need one more mapping than there may be. */
static void hiding_refused(void **state)
{
	(void)state;
	sim.hide_err = -ENOMEM;
	purged(32 * MIB);
	assert_int_equal(stats().hidden_bytes, 0);
	assert_true(stats().clean_bytes >= 32 * MIB);
	get(32 * MIB, PAGE);
	assert_int_equal(stats().clean_hits, 1);
}

static void revealing_refused(void **state)
{
	unsigned char *a = purged(32 * MIB), *p;
	uint64_t before = stats().hidden_bytes;

	(void)state;
	sim.reveal_err = -ENOMEM;
	p = get(MIB, PAGE); /* fresh */
	assert_true(p < a || p >= a + 32 * MIB);
	assert_int_equal(stats().hidden_bytes, before);
	assert_int_equal(stats().hidden_hits, 0);
	sim.reveal_err = 0;
	p = get(16 * MIB, PAGE);
	assert_true(p >= a && p < a + 32 * MIB);
}

/* Hidden space is clean space: the bound is one for both. */
static void bounded_with_clean(void **state)
{
	(void)state;
	purged(32 * MIB);
	get(4 * MIB, PAGE);
	pgw__option_set(PGW_ALLOC_CLEAN, 8 * MIB);
	pgw__space_trim();
	assert_true(stats().clean_bytes <= 8 * MIB);
	assert_true(stats().clean_bytes >= 6 * MIB - PAGE);
	assert_true(pgw__space_reclaim() >= 6 * MIB - PAGE);
	assert_int_equal(stats().hidden_bytes, 0);
}

/* However much is free: two mappings each, and not without bound. */
static void few_ranges(void **state)
{
	enum { N = 100 };
	struct pgw__space_view v;
	unsigned char *a;

	(void)state;
	pgw__option_set(PGW_ALLOC_HIDE, MIB);
	pgw__option_set(PGW_ALLOC_CHUNK, 64 << 10);
	a = get(N * 2 * MIB, PAGE);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(pgw__space_give(a + i * 2 * MIB, 2 * MIB - PAGE, &v), 0);
	pgw__purge_all(0, UINT64_MAX);
	assert_int_equal(stats().hidden_ranges, 64);
	assert_int_equal(stats().clean_ranges, N);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(large_is_hidden, set_up),
		cmocka_unit_test_setup(small_is_not, set_up),
		cmocka_unit_test_setup(revealed_when_reused, set_up),
		cmocka_unit_test_setup(revealed_at_a_place, set_up),
		cmocka_unit_test_setup(hiding_refused, set_up),
		cmocka_unit_test_setup(revealing_refused, set_up),
		cmocka_unit_test_setup(bounded_with_clean, set_up),
		cmocka_unit_test_setup(few_ranges, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
