/* SPDX-License-Identifier: BSD-2-Clause
 *
 * prefault.c - large ranges that are reused get their pages before they are touched, as long as the
 * program fills its blocks.
 */
#include "space_sim.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "sys.h"

#define SKIP	 77
#define PAGES	 ((size_t)64)
#define LEARN	 40 /* more cycles than it takes to be sure, or to be sure of nothing */
#define POPULATE 23 /* MADV_POPULATE_WRITE, which Debian 12's C library has no name for */

static int populate_err, populates;

static int counted_madvise(void *addr, size_t len, int advice)
{
	if (advice == POPULATE) {
		populates++;
		if (populate_err)
			return populate_err;
	}
	return pgw__sys_real.madvise(addr, len, advice);
}

static int begin(void **state)
{
	unsigned char *p;
	bool zero;

	(void)set_up(state);
	pgw__sys.madvise = counted_madvise;
	pgw__option_set(PGW_ALLOC_PREFAULT, PAGES * PAGE);
	/* What was learned before is forgotten: nothing of these is touched. */
	for (int i = 0; i < LEARN; i++) {
		zero = false;
		p = pgw__space_alloc(NULL, PAGES * PAGE, PAGE, &zero);
		assert_non_null(p);
		give(p, PAGES * PAGE);
		purge();
	}
	pgw__space_reset();
	populate_err = populates = 0;
	return 0;
}

/* (get of space_sim.h reads what is zero, which maps a page.) */
static unsigned char *block(size_t pages, bool zero)
{
	unsigned char *p = pgw__space_alloc(NULL, pages * PAGE, PAGE, &zero);

	assert_non_null(p);
	return p;
}

static bool resident(unsigned char *p, size_t page)
{
	unsigned char v;

	assert_int_equal(pgw__sys_real.mincore(p + page * PAGE, PAGE, &v), 0);
	return v & 1;
}

/* Blocks of so many pages, one after the other, of which the program touches some, from the start on. */
static void use(size_t pages, size_t touched, bool zero)
{
	for (int i = 0; i < LEARN; i++) {
		unsigned char *p = block(pages, zero);

		memset(p, 0xa5, touched * PAGE);
		give(p, pages * PAGE);
		purge();
	}
}

static void off_by_default(void **state)
{
	(void)state;
	pgw__option_set(PGW_ALLOC_PREFAULT, 0);
	use(PAGES, PAGES, false);
	assert_int_equal(stats().prefaults, 0);
	assert_int_equal(populates, 0);
}

static void three_quarters(void **state)
{
	unsigned char *p;

	(void)state;
	use(PAGES, PAGES, false);
	assert_true(stats().prefaults > 0);
	assert_int_equal(stats().prefaulted_bytes, stats().prefaults * PAGES / 4 * 3 * PAGE);
	p = block(PAGES, false);
	for (size_t i = 0; i < PAGES; i++)
		assert_int_equal(resident(p, i), i < PAGES / 4 * 3);
	assert_true(reads_zero(p, PAGES * PAGE));
}

/* It ends when blocks are not filled any more, although what was prefaulted looks as if it were. */
static void not_where_little_is_touched(void **state)
{
	uint64_t before;

	(void)state;
	use(PAGES, PAGES, false);
	before = stats().prefaults;
	use(PAGES, 1, false);
	assert_true(stats().prefaults > before);
	assert_true(stats().prefaults <= before + 3); /* sure, less MISS for each, below ENOUGH */
	assert_false(resident(block(PAGES, false), 0));
}

/* As often as not is not enough. */
static void not_where_half_is_touched(void **state)
{
	(void)state;
	for (int i = 0; i < LEARN; i++) {
		unsigned char *p = block(PAGES, false);

		memset(p, 0xa5, (i % 2 ? PAGES : 1) * PAGE);
		give(p, PAGES * PAGE);
		purge();
	}
	assert_int_equal(stats().prefaults, 0);
}

static void neither_small_nor_zeroed(void **state)
{
	uint64_t before;

	(void)state;
	use(PAGES, PAGES, false);
	before = stats().prefaults;
	use(PAGES - 1, PAGES - 1, false);
	/* More than is cleared by hand in pending memory: all of it comes from clean. */
	use(2 * PAGES, 2 * PAGES, true);
	assert_int_equal(stats().prefaults, before);
}

static void refused(void **state)
{
	unsigned char *p;

	(void)state;
	populate_err = -ENOMEM;
	use(PAGES, PAGES, false);
	assert_true(populates > 0);
	assert_int_equal(stats().prefaults, 0);
	p = block(PAGES, false);
	assert_true(reads_zero(p, PAGES * PAGE));
	memset(p, 0xa5, PAGES * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(off_by_default, begin),
		cmocka_unit_test_setup(three_quarters, begin),
		cmocka_unit_test_setup(not_where_little_is_touched, begin),
		cmocka_unit_test_setup(not_where_half_is_touched, begin),
		cmocka_unit_test_setup(neither_small_nor_zeroed, begin),
		cmocka_unit_test_setup(refused, begin),
	};
	struct pgw_probe probe;

	if (pgw_probe(PGW_POPULATE_WRITE, &probe) || probe.route == PGW_ROUTE_NONE) {
		fprintf(stderr, "skipped: this kernel has no MADV_POPULATE_WRITE\n");
		return SKIP;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
