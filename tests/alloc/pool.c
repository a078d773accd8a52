/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pool.c - pools against a model: a flag for each page of a small, made-up address space.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "pool.h"
#include "sys.h"

#define BASE  UINT64_C(0x7f0000000000)
#define PAGE  UINT64_C(4096)
#define PAGES 256

static struct pgw__extent_cache cache;
static struct pgw__pool pool;
static bool in[PAGES];
static uint64_t now;

static uint64_t at(size_t page)
{
	return BASE + page * PAGE;
}

static int set_up(void **state)
{
	(void)state;
	pgw__extent_cache_init(&cache);
	pgw__pool_init(&pool, &cache);
	memset(in, 0, sizeof(in));
	now = 0;
	return 0;
}

static void mark(size_t page, size_t n, bool value)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(in[page + i], !value);
		in[page + i] = value;
	}
}

static struct pgw__extent *last; /* what add_near has added */

static int add_near(size_t page, size_t n, struct pgw__extent *near)
{
	struct pgw__extent *e = pgw__extent_new(&cache);
	int err;

	assert_non_null(e);
	e->start = at(page);
	e->len = n * PAGE;
	e->stamp = ++now;
	err = pgw__pool_add_near(&pool, e, near);
	if (err)
		pgw__extent_free(&cache, e);
	else
		last = e;
	return err;
}

static int add(size_t page, size_t n)
{
	return add_near(page, n, NULL);
}

/* The length of the run of equal flags at page. */
static size_t run(size_t page)
{
	size_t n = 1;

	while (page + n < PAGES && in[page + n] == in[page])
		n++;
	return n;
}

/* P1, P2 and P4 against the model, P3 by itself. */
static void check(void)
{
	struct pgw__extent *e;
	uint64_t bytes = 0, count = 0, stamp = 0, queued = 0;

	for (size_t i = 0; i < PAGES; i += run(i)) {
		assert_int_equal(pgw__pool_run(&pool, at(i)), in[i] ? run(i) * PAGE : 0);
		if (!in[i])
			continue;
		bytes += run(i) * PAGE;
		count++;
	}
	assert_int_equal(pool.bytes, bytes);
	assert_int_equal(pool.count, count);
	TAILQ_FOREACH (e, &pool.queue, queue) {
		assert_true(e->stamp >= stamp);
		stamp = e->stamp;
		queued++;
	}
	assert_int_equal(queued, count);
}

/* Where the smallest run of n pages and more begins; PAGES if there is none. */
static size_t best(size_t n)
{
	size_t found = PAGES, len = PAGES + 1;

	for (size_t i = 0; i < PAGES; i += run(i)) {
		if (in[i] && run(i) >= n && run(i) < len) {
			found = i;
			len = run(i);
		}
	}
	return found;
}

static bool has_aligned(size_t n, size_t align)
{
	for (size_t i = 0; i + n <= PAGES; i += align) {
		if (in[i] && run(i) >= n)
			return true;
	}
	return false;
}

static void try_add(void)
{
	size_t page = (size_t)rand() % PAGES;
	size_t n = 1 + (size_t)rand() % 8;

	if (page + n > PAGES)
		n = PAGES - page;
	for (size_t i = 0; i < n; i++) {
		if (in[page + i]) {
			assert_int_equal(add(page, n), -EEXIST);
			return;
		}
	}
	assert_int_equal(add(page, n), 0);
	mark(page, n, true);
}

/* Many in the order of addresses; what is between stays out, or is in already. */
static void try_add_run(void)
{
	size_t page = (size_t)rand() % PAGES;
	size_t n = 1 + (size_t)rand() % 2, gap = (size_t)rand() % 3;
	struct pgw__extent *near = NULL;

	for (; page + n <= PAGES; page += n + gap) {
		bool taken = in[page] || in[page + n - 1];

		assert_int_equal(add_near(page, n, near), taken ? -EEXIST : 0);
		if (taken)
			continue;
		mark(page, n, true);
		near = last;
		if (rand() % 8 == 0)
			break;
	}
}

static void try_fit(void)
{
	size_t n = 1 + (size_t)rand() % 12, expected = best(n);
	uint64_t start;

	assert_int_equal(
	    pgw__pool_fit(&pool, n * PAGE, PAGE, UINT64_MAX, &start), expected < PAGES);
	if (expected == PAGES)
		return;
	assert_int_equal(start, at(expected));
	mark(expected, n, false);
}

static void try_fit_aligned(void)
{
	size_t n = 1 + (size_t)rand() % 6, align = (size_t)1 << (rand() % 5);
	uint64_t start;
	size_t page;

	/* It may give up early, but must not take what is not there. */
	if (!pgw__pool_fit(&pool, n * PAGE, align * PAGE, UINT64_MAX, &start)) {
		assert_true(best(n + align) == PAGES);
		return;
	}
	assert_true(has_aligned(n, align));
	assert_int_equal(start % (align * PAGE), 0);
	page = (size_t)((start - BASE) / PAGE);
	mark(page, n, false);
}

static void try_cut(void)
{
	size_t page = (size_t)rand() % PAGES, n;

	if (!in[page]) {
		assert_int_equal(pgw__pool_run(&pool, at(page)), 0);
		return;
	}
	assert_int_equal(pgw__pool_run(&pool, at(page)), run(page) * PAGE);
	n = 1 + (size_t)rand() % run(page);
	assert_int_equal(pgw__pool_cut(&pool, (struct pgw_range){ at(page), n * PAGE }), 0);
	mark(page, n, false);
}

static void try_remove(void)
{
	struct pgw__extent *e = rand() % 2 ? pgw__pool_oldest(&pool) : pgw__pool_largest(&pool);

	if (!e) {
		assert_int_equal(pool.count, 0);
		return;
	}
	pgw__pool_remove(&pool, e);
	mark((size_t)((e->start - BASE) / PAGE), (size_t)(e->len / PAGE), false);
	pgw__extent_free(&cache, e);
}

static void random_operations(void **state)
{
	(void)state;
	srand(1);
	for (int i = 0; i < 200000; i++) {
		/* By turns mostly filling and mostly emptying. */
		int adds = i / 1000 % 2 ? 7 : 3;
		int what = rand() % 10;

		if (what < adds && what == 0)
			try_add_run();
		else if (what < adds)
			try_add();
		else if (what % 4 == 0)
			try_fit();
		else if (what % 4 == 1)
			try_fit_aligned();
		else if (what % 4 == 2)
			try_cut();
		else
			try_remove();
		if (i % 16 == 0)
			check();
	}
}

static void oldest_is_the_one_left_alone(void **state)
{
	(void)state;
	add(10, 2);
	add(20, 2);
	add(30, 2);
	assert_int_equal(pgw__pool_oldest(&pool)->start, at(10));
	add(12, 1); /* joins the first, and makes it the youngest */
	assert_int_equal(pgw__pool_oldest(&pool)->start, at(20));
	assert_int_equal(TAILQ_LAST(&pool.queue, pgw__extent_queue)->start, at(10));
	assert_int_equal(pool.count, 3);
}

static void splitting_keeps_the_place_in_the_queue(void **state)
{
	(void)state;
	add(10, 9);
	add(30, 2);
	assert_int_equal(pgw__pool_cut(&pool, (struct pgw_range){ at(13), PAGE }), 0);
	assert_int_equal(pool.count, 3);
	assert_int_equal(pgw__pool_oldest(&pool)->start, at(10));
	assert_int_equal(TAILQ_NEXT(pgw__pool_oldest(&pool), queue)->start, at(14));
}

static void what_would_be_left_over(void **state)
{
	uint64_t start;

	(void)state;
	add(10, 9);
	add(30, 6);
	assert_false(pgw__pool_fit(&pool, 4 * PAGE, PAGE, PAGE, &start));
	assert_true(pgw__pool_fit(&pool, 4 * PAGE, PAGE, 2 * PAGE, &start));
	assert_int_equal(start, at(30));
	assert_true(pgw__pool_fit(&pool, 9 * PAGE, PAGE, 0, &start));
	assert_int_equal(start, at(10));
}

static int no_memory(void *addr, size_t len, int prot, int flags, void **out)
{
	(void)addr, (void)len, (void)prot, (void)flags, (void)out;
	return -ENOMEM;
}

/* With no extent to split with, nothing is taken and nothing is lost. */
static void no_extent_to_split_with(void **state)
{
	uint64_t start;

	(void)state;
	pgw__sys.map_anon = no_memory;
	assert_int_equal(add(0, 9), 0);
	mark(0, 9, true);
	while (pgw__extent_new(&cache))
		;
	assert_int_equal(pgw__pool_cut(&pool, (struct pgw_range){ at(3), PAGE }), -ENOMEM);
	check();
	assert_int_equal(pgw__pool_cut(&pool, (struct pgw_range){ at(0), PAGE }), 0);
	mark(0, 1, false);
	check();
	/* The aligned place in 1..8 is 4: that leaves something on both sides. */
	assert_false(pgw__pool_fit(&pool, PAGE, 4 * PAGE, UINT64_MAX, &start));
	check();
	pgw__sys = pgw__sys_real;
}

/* More extents than are built in come from slabs. */
static void many(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAGES / 2; i++) {
		assert_int_equal(add(2 * i, 1), 0);
		mark(2 * i, 1, true);
	}
	assert_true(PAGES / 2 > PGW__EXTENT_BUILTIN);
	assert_true(cache.slabs >= 1);
	check();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(random_operations, set_up),
		cmocka_unit_test_setup(oldest_is_the_one_left_alone, set_up),
		cmocka_unit_test_setup(splitting_keeps_the_place_in_the_queue, set_up),
		cmocka_unit_test_setup(what_would_be_left_over, set_up),
		cmocka_unit_test_setup(no_extent_to_split_with, set_up),
		cmocka_unit_test_setup(many, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
