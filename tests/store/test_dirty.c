/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_dirty.c - from what LMDB notes to the ranges that are synced.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dirty.h"

#define PAGE  4096u
#define PAGES 32u

static uint8_t map[PAGES * PAGE];

static void header(uint64_t page, uint64_t pgno, uint16_t flags, uint32_t overflow_pages)
{
	uint8_t *p = map + page * PAGE;

	memcpy(p, &pgno, sizeof(pgno));
	memcpy(p + 10, &flags, sizeof(flags));
	memcpy(p + 12, &overflow_pages, sizeof(overflow_pages));
}

static int set_up(void **state)
{
	static struct pgw__dirty d;

	memset(map, 0, sizeof(map));
	pgw__dirty_init(&d);
	*state = &d;
	return 0;
}

static int tear_down(void **state)
{
	pgw__dirty_finish(*state);
	return 0;
}

static void note(struct pgw__dirty *d, uint64_t page)
{
	pgw__dirty_add(d, page * PAGE, PAGE);
}

static void assert_ranges(struct pgw__dirty *d, const void *m, size_t n, const uint64_t (*want)[2])
{
	struct pgw_ranges out;

	pgw_ranges_init(&out);
	assert_int_equal(pgw__dirty_collect(d, m, sizeof(map), PAGE, &out), 0);
	pgw_ranges_normalize(&out);
	assert_int_equal(out.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(out.v[i].start, want[i][0] * PAGE);
		assert_int_equal(out.v[i].len, want[i][1] * PAGE);
	}
	pgw_ranges_finish(&out);
}

#define ASSERT_RANGES(d, m, ...)                                                          \
	assert_ranges(d, m, sizeof((uint64_t[][2]){ __VA_ARGS__ }) / sizeof(uint64_t[2]), \
	    (uint64_t[][2]){ __VA_ARGS__ })

static void pages_are_whole_and_counted_once(void **state)
{
	struct pgw__dirty *d = *state;

	pgw__dirty_add(d, 5 * PAGE + 32, 120); /* a meta page is written in part */
	note(d, 9);
	note(d, 8);
	note(d, 9);
	ASSERT_RANGES(d, NULL, { 5, 1 }, { 8, 2 });
}

static void a_run_is_as_long_as_its_header_says(void **state)
{
	struct pgw__dirty *d = *state;

	note(d, 4);
	note(d, 20);
	header(4, 4, 0x04, 6);
	header(20, 20, 0x02, 6); /* a leaf: the same bytes mean something else */
	ASSERT_RANGES(d, map, { 4, 6 }, { 20, 1 });
}

static void the_length_is_read_late(void **state)
{
	struct pgw__dirty *d = *state;

	note(d, 4); /* LMDB notes the page before it fills in the header */
	ASSERT_RANGES(d, map, { 4, 1 });
	header(4, 4, 0x04, 3);
	ASSERT_RANGES(d, map, { 4, 3 });
}

static void every_page_of_a_joined_range_may_be_a_head(void **state)
{
	struct pgw__dirty *d = *state;

	note(d, 4);
	note(d, 5);
	note(d, 6);
	header(5, 5, 0x04, 7);
	ASSERT_RANGES(d, map, { 4, 8 });
}

static void user_data_is_no_header(void **state)
{
	struct pgw__dirty *d = *state;

	/* Page 10 was noted, freed, and lies inside of the run at 8 now. */
	note(d, 10);
	note(d, 8);
	header(8, 8, 0x04, 4);
	header(10, 77, 0x04, 20);
	ASSERT_RANGES(d, map, { 8, 4 });
}

static void nothing_passes_the_end_of_the_map(void **state)
{
	struct pgw__dirty *d = *state;

	note(d, 30);
	header(30, 30, 0x04, UINT32_MAX);
	ASSERT_RANGES(d, map, { 30, 2 });
}

static void a_run_of_no_pages_is_a_page(void **state)
{
	struct pgw__dirty *d = *state;

	note(d, 3);
	header(3, 3, 0x04, 0);
	ASSERT_RANGES(d, map, { 3, 1 });
}

static void clearing_forgets_pages_and_doubts(void **state)
{
	struct pgw__dirty *d = *state;
	struct pgw_ranges out;

	pgw_ranges_init(&out);
	note(d, 3);
	d->incomplete = true;
	assert_int_not_equal(pgw__dirty_collect(d, NULL, 0, PAGE, &out), 0);
	pgw__dirty_clear(d);
	assert_int_equal(pgw__dirty_collect(d, NULL, 0, PAGE, &out), 0);
	assert_int_equal(out.n, 0);
	pgw_ranges_finish(&out);
}

static void what_cannot_be_added_makes_it_incomplete(void **state)
{
	struct pgw__dirty *d = *state;

	pgw__dirty_add(d, UINT64_MAX - 10, 100);
	assert_true(d->incomplete);
}

static void a_large_transaction_does_not_keep_its_memory(void **state)
{
	struct pgw__dirty *d = *state;

	for (uint64_t i = 0; i < 200000; i++)
		pgw__dirty_add(d, 2 * i * PAGE, PAGE);
	assert_int_equal(d->ranges.n, 200000);
	pgw__dirty_clear(d);
	assert_int_equal(d->ranges.cap, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(pages_are_whole_and_counted_once),
		T(a_run_is_as_long_as_its_header_says),
		T(the_length_is_read_late),
		T(every_page_of_a_joined_range_may_be_a_head),
		T(user_data_is_no_header),
		T(nothing_passes_the_end_of_the_map),
		T(a_run_of_no_pages_is_a_page),
		T(clearing_forgets_pages_and_doubts),
		T(what_cannot_be_added_makes_it_incomplete),
		T(a_large_transaction_does_not_keep_its_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
