/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.c - the states of free space, without jemalloc.
 */
#include "space_sim.h"

#include <errno.h>
#include <sys/mman.h>

#include "sys.h"

static void pending_serves_first(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	assert_int_equal(give(a, 4 * PAGE).pending_bytes, 4 * PAGE);
	assert_ptr_equal(get(4 * PAGE, PAGE, false, &zero), a);
	assert_false(zero);
	assert_int_equal(a[0], 0xa5); /* not purged, not cleared */
	assert_int_equal(stats().pending_hits, 1);
	assert_int_equal(stats().purges, 0);
}

static void zero_is_honoured_from_pending(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	give(a, 4 * PAGE);
	assert_ptr_equal(get(4 * PAGE, PAGE, true, &zero), a);
	assert_int_equal(stats().zeroed_bytes, 4 * PAGE);
}

/* Much zeroed memory is not cleared by hand as long as there is another way. */
static void large_zero_avoids_pending(void **state)
{
	unsigned char *a = dirty(MIB), *b;
	bool zero;

	(void)state;
	give(a, MIB);
	b = get(MIB, PAGE, true, &zero);
	assert_ptr_not_equal(a, b);
	assert_int_equal(stats().zeroed_bytes, 0);
	sim.map_limit = 1; /* nothing to be had any more: then by hand */
	while (get(MIB, PAGE, true, &zero) != a)
		assert_int_equal(stats().zeroed_bytes, 0);
	assert_int_equal(stats().zeroed_bytes, MIB);
}

/* A pending range is not cut up for a much smaller request, unless there is nothing else. */
static void pending_is_not_cut_up(void **state)
{
	unsigned char *a = dirty(64 * PAGE);
	bool zero;

	(void)state;
	give(a, 64 * PAGE);
	assert_ptr_not_equal(get(32 * PAGE, PAGE, false, &zero), a);
	assert_ptr_equal(get(61 * PAGE, PAGE, false, &zero), a);
	give(a, 61 * PAGE);
	sim.map_limit = 1;
	while (get(8 * PAGE, PAGE, false, &zero) != a)
		;
	assert_int_equal(stats().reclaims, 0);
}

static void purged_becomes_clean(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	give(a, 4 * PAGE);
	purge();
	assert_int_equal(stats().purged_bytes, 4 * PAGE);
	assert_int_equal(stats().pending_bytes, 0);
	assert_int_equal(stats().in_flight_bytes, 0);
	assert_true(reads_zero(a, 4 * PAGE));
	assert_non_null(get(4 * PAGE, PAGE, true, &zero));
	assert_int_equal(stats().clean_hits, 1);
	assert_int_equal(stats().zeroed_bytes, 0);
}

/* What the kernel did not do is not clean: cleared by hand if need be, and served before clean. */
static void refused_becomes_stale(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	sim.madvise_err = -EINVAL; /* as for locked memory */
	give(a, 4 * PAGE);
	purge();
	assert_int_equal(stats().kept_ranges, 1);
	assert_int_equal(stats().stale_bytes, 4 * PAGE);
	assert_int_equal(a[PAGE], 0xa5);
	assert_ptr_equal(get(4 * PAGE, PAGE, false, &zero), a);
	assert_false(zero);
	assert_int_equal(stats().stale_hits, 1);
	give(a, 4 * PAGE);
	purge();
	sim.map_limit = 1;
	while (get(PAGE, PAGE, true, &zero) != a)
		;
}

/* One bad range among many costs only itself. */
static void one_bad_range(void **state)
{
	unsigned char *a = dirty(64 * PAGE);

	(void)state;
	sim.madvise_err = -EINVAL;
	sim.bad_start = (uint64_t)a + 20 * PAGE;
	for (size_t i = 0; i < 64; i += 2)
		give(a + i * PAGE, PAGE);
	purge();
	assert_int_equal(stats().purged_ranges, 32);
	assert_int_equal(stats().kept_ranges, 1);
	assert_int_equal(stats().stale_bytes, PAGE);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(a[i * PAGE], i % 2 == 0 && i != 20 ? 0 : 0xa5);
}

static void at_a_place(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	bool zero = false;

	(void)state;
	assert_null(pgw__space_alloc(a + PAGE, PAGE, PAGE, &zero)); /* ours, not free */
	assert_int_equal(stats().failed, 1);
	give(a + 4 * PAGE, 4 * PAGE);
	assert_ptr_equal(pgw__space_alloc(a + 4 * PAGE, 2 * PAGE, PAGE, &zero), a + 4 * PAGE);
	assert_false(zero);
	assert_int_equal(stats().pending_bytes, 2 * PAGE);
	give(a + 4 * PAGE, 2 * PAGE);
}

/* Side by side: clean, stale and pending, asked for as one; with zeroes. */
static void at_a_place_from_several_pools(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	bool zero = true;

	(void)state;
	give(a + 2 * PAGE, 2 * PAGE);
	purge();
	sim.madvise_err = -EINVAL;
	give(a + 4 * PAGE, 2 * PAGE);
	purge();
	give(a + 6 * PAGE, 2 * PAGE);
	assert_ptr_equal(pgw__space_alloc(a + 2 * PAGE, 6 * PAGE, PAGE, &zero), a + 2 * PAGE);
	assert_true(zero);
	assert_true(reads_zero(a + 2 * PAGE, 6 * PAGE));
	assert_int_equal(a[0], 0xa5);
	assert_int_equal(stats().zeroed_bytes, 4 * PAGE);
	assert_int_equal(stats().pending_bytes + stats().stale_bytes, 0);
}

/* It fails half way: what was taken already goes back to where it was. */
static void at_a_place_undone(void **state)
{
	unsigned char *a = dirty(2 * MIB); /* a whole chunk: behind it is no space of ours */
	struct pgw_alloc_stats before;
	bool zero = false;
	void *wall;

	(void)state;
	give(a + 2 * MIB - 2 * PAGE, 2 * PAGE);
	before = stats();
	/* Make sure that there is something right behind. It may be there already. */
	(void)pgw__sys_real.map_anon(
	    a + 2 * MIB, PAGE, PROT_NONE, 0x100000 /* MAP_FIXED_NOREPLACE */, &wall);
	assert_null(pgw__space_alloc(a + 2 * MIB - 2 * PAGE, 4 * PAGE, PAGE, &zero));
	assert_int_equal(stats().pending_bytes, before.pending_bytes);
	assert_int_equal(stats().pending_ranges, before.pending_ranges);
	assert_int_equal(stats().held_bytes, before.held_bytes);
}

static void at_a_place_that_is_not_mapped(void **state)
{
	unsigned char *a;
	bool zero = true;
	void *hole;

	(void)state;
	assert_int_equal(pgw__sys_real.map_anon(NULL, 4 * MIB, PROT_NONE, 0, &hole), 0);
	assert_int_equal(pgw__sys_real.unmap(hole, 4 * MIB), 0);
	a = (unsigned char *)hole + MIB;
	assert_ptr_equal(pgw__space_alloc(a, 2 * PAGE, PAGE, &zero), a);
	assert_true(reads_zero(a, 2 * PAGE));
	assert_int_equal(stats().fresh_hits, 1);
	give(a, 2 * PAGE);
}

static void aligned(void **state)
{
	static const size_t aligns[] = { PAGE, 16 * PAGE, 2 * MIB, 64 * MIB };
	bool zero;

	(void)state;
	for (size_t i = 0; i < sizeof(aligns) / sizeof(*aligns); i++) {
		unsigned char *p = get(3 * PAGE, aligns[i], true, &zero);

		assert_non_null(p);
		give(p, 3 * PAGE);
	}
}

static void few_mappings(void **state)
{
	bool zero;

	(void)state;
	for (size_t i = 0; i < 400; i++)
		assert_non_null(get(4 * PAGE, PAGE, false, &zero));
	assert_true(sim.maps <= 4); /* 6.25 MiB, and perhaps a slab */
	assert_int_equal(stats().fresh_hits + stats().clean_hits, 400);
}

/* A chunk cannot be had, what is needed can. */
static void small_pieces_when_space_is_short(void **state)
{
	bool zero;

	(void)state;
	sim.map_limit = 64 * PAGE;
	assert_non_null(get(10 * PAGE, PAGE, true, &zero));
	assert_int_equal(stats().fresh_bytes, 10 * PAGE);
	assert_null(get(65 * PAGE, PAGE, true, &zero));
}

/* The address space is full of clean pieces that are too small: they are unmapped for the request.
 */
static void reclaim_before_failing(void **state)
{
	unsigned char *a;
	bool zero;

	(void)state;
	sim.space_limit = 8 * MIB;
	a = dirty(6 * MIB);
	for (size_t i = 0; i < 5; i++)
		give(a + i * MIB, MIB - PAGE);
	assert_null(get(15 * MIB / 2, PAGE, true, &zero)); /* cannot be, and nothing breaks */
	assert_true(stats().reclaims >= 1);
	assert_true(stats().unmapped_bytes >= 5 * (MIB - PAGE));
	assert_int_equal(stats().pending_bytes, 0);
	assert_non_null(get(6 * MIB, PAGE, true, &zero));
}

static void clean_space_is_bounded(void **state)
{
	unsigned char *a = dirty(16 * MIB);

	(void)state;
	pgw__option_set(PGW_ALLOC_CLEAN, 4 * MIB);
	give(a, 16 * MIB);
	purge();
	assert_true(stats().clean_bytes <= 4 * MIB);
	assert_true(stats().clean_bytes >= 3 * MIB - PAGE);
	assert_true(stats().unmapped_bytes >= 12 * MIB);
}

/* At the limit of mappings munmap fails: the range stays clean, and this ends. */
static void unmap_fails(void **state)
{
	unsigned char *a = dirty(16 * MIB);
	bool zero;

	(void)state;
	pgw__option_set(PGW_ALLOC_CLEAN, 4 * MIB);
	sim.unmap_err = -ENOMEM;
	give(a, 16 * MIB);
	purge();
	assert_int_equal(stats().unmaps, 0);
	assert_true(stats().clean_bytes >= 16 * MIB);
	assert_ptr_equal(get(16 * MIB, PAGE, true, &zero), a);
}

static void limit_follows_what_is_held(void **state)
{
	unsigned char *a = dirty(MIB), *b;
	struct pgw__space_view v;

	(void)state;
	pgw__option_set(PGW_ALLOC_PENDING, MIB / 2);
	v = give(a, MIB);
	assert_int_equal(v.limit, MIB / 2);
	assert_true(pgw__space_over(&v));
	b = dirty(100 * MIB);
	v = pgw__space_look();
	assert_in_range(v.limit, 2 * MIB, 3 * MIB + PAGE);
	assert_false(pgw__space_over(&v));
	give(b, 100 * MIB);
}

/* Many ranges need not wait for the last quarter of the limit; few, or small ones, do. */
static void many_ranges_are_a_batch(void **state)
{
	enum { MANY = 34 };
	unsigned char *a = dirty(4 * MANY * PAGE);
	uint64_t limit = 4 * MANY * PAGE / 2;
	struct pgw__space_view v;

	(void)state;
	pgw__option_set(PGW_ALLOC_SHARE, 0);
	pgw__option_set(PGW_ALLOC_PENDING, limit);
	for (size_t i = 0; i < MANY - 1; i++)
		v = give(a + 4 * i * PAGE, 2 * PAGE);
	assert_true(v.pending_bytes > limit / 4 * 3);
	assert_false(pgw__space_over(&v)); /* one short of many */
	v = give(a + 4 * (MANY - 1) * PAGE, PAGE);
	assert_int_equal(v.pending_ranges, MANY);
	assert_true(v.pending_bytes <= v.limit);
	assert_true(pgw__space_over(&v));
	pgw__option_set(PGW_ALLOC_PENDING, 2 * limit);
	v = pgw__space_look();
	assert_int_equal(v.pending_ranges, MANY);
	assert_false(pgw__space_over(&v)); /* but not as much as a call is for */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pending_serves_first, set_up),
		cmocka_unit_test_setup(zero_is_honoured_from_pending, set_up),
		cmocka_unit_test_setup(large_zero_avoids_pending, set_up),
		cmocka_unit_test_setup(pending_is_not_cut_up, set_up),
		cmocka_unit_test_setup(purged_becomes_clean, set_up),
		cmocka_unit_test_setup(refused_becomes_stale, set_up),
		cmocka_unit_test_setup(one_bad_range, set_up),
		cmocka_unit_test_setup(at_a_place, set_up),
		cmocka_unit_test_setup(at_a_place_from_several_pools, set_up),
		cmocka_unit_test_setup(at_a_place_undone, set_up),
		cmocka_unit_test_setup(at_a_place_that_is_not_mapped, set_up),
		cmocka_unit_test_setup(aligned, set_up),
		cmocka_unit_test_setup(few_mappings, set_up),
		cmocka_unit_test_setup(small_pieces_when_space_is_short, set_up),
		cmocka_unit_test_setup(reclaim_before_failing, set_up),
		cmocka_unit_test_setup(clean_space_is_bounded, set_up),
		cmocka_unit_test_setup(unmap_fails, set_up),
		cmocka_unit_test_setup(limit_follows_what_is_held, set_up),
		cmocka_unit_test_setup(many_ranges_are_a_batch, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
