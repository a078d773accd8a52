/* SPDX-License-Identifier: BSD-2-Clause
 *
 * range.c - ranges and sets of them, against a bitmap that is too simple to be wrong.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagewise/range.h>

static void assert_range(struct pgw_range r, uint64_t start, uint64_t len)
{
	assert_int_equal(r.len, len);
	if (len)
		assert_int_equal(r.start, start);
}

static void align_keeps_to_its_side(void **state)
{
	struct pgw_range r = { 100, 9000 };

	assert_range(pgw_range_align_in(r, 4096), 4096, 4096);
	assert_range(pgw_range_align_out(r, 4096), 0, 12288);
	assert_range(pgw_range_align_in((struct pgw_range){ 1, 4095 }, 4096), 0, 0);
	assert_range(pgw_range_align_in((struct pgw_range){ 4096, 0 }, 4096), 0, 0);
	assert_range(pgw_range_align_out((struct pgw_range){ 5000, 0 }, 4096), 0, 0);
	assert_range(pgw_range_align_in((struct pgw_range){ 8192, 4096 }, 4096), 8192, 4096);
	assert_range(pgw_range_align_out((struct pgw_range){ 8192, 4096 }, 4096), 8192, 4096);
}

static void align_stops_at_the_end_of_the_numbers(void **state)
{
	uint64_t last = UINT64_MAX & ~UINT64_C(4095);

	assert_range(
	    pgw_range_align_out((struct pgw_range){ last - 10, 20 }, 4096), last - 4096, 4096);
	assert_range(pgw_range_align_out((struct pgw_range){ last + 1, 20 }, 4096), 0, 0);
	assert_range(pgw_range_align_in((struct pgw_range){ last + 1, 20 }, 4096), 0, 0);
	assert_range(
	    pgw_range_align_in((struct pgw_range){ last - 4096, 4100 }, 4096), last - 4096, 4096);
}

static void take_cuts_the_front(void **state)
{
	struct pgw_range r = { 10, 100 };

	assert_range(pgw_range_take(&r, 30), 10, 30);
	assert_range(r, 40, 70);
	assert_range(pgw_range_take(&r, 1000), 40, 70);
	assert_int_equal(r.len, 0);
	assert_range(pgw_range_take(&r, 1000), 0, 0);
}

static void normalize_joins_what_touches(void **state)
{
	struct pgw_range v[] = { { 50, 10 }, { 0, 10 }, { 10, 5 }, { 30, 0 }, { 52, 2 }, { 60, 1 },
		{ 14, 3 } };

	assert_int_equal(pgw_range_normalize(v, 7), 2);
	assert_range(v[0], 0, 17);
	assert_range(v[1], 50, 11);
	assert_int_equal(pgw_range_normalize(v, 0), 0);
}

static void sort_of_every_order(void **state)
{
	/* All the permutations of six, by counting in a mixed base. */
	for (unsigned code = 0; code < 720; code++) {
		struct pgw_range v[6];
		uint64_t rest[6] = { 0, 1, 2, 3, 4, 5 };
		unsigned c = code;

		for (size_t i = 0; i < 6; i++) {
			size_t k = c % (6 - i);

			c /= (unsigned)(6 - i);
			v[i] = (struct pgw_range){ rest[k], rest[k] + 100 };
			memmove(rest + k, rest + k + 1, (5 - k) * sizeof(*rest));
		}
		pgw_range_sort(v, 6);
		for (size_t i = 0; i < 6; i++) {
			assert_int_equal(v[i].start, i);
			assert_int_equal(v[i].len, i + 100);
		}
	}
}

static void add_joins_runs_at_once(void **state)
{
	struct pgw_ranges s;

	pgw_ranges_init(&s);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(pgw_ranges_add(&s, i * 10, 10), 0);
	assert_int_equal(s.n, 1);
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(pgw_ranges_add(&s, 100000 - i * 10, 10), 0);
	assert_int_equal(s.n, 2);
	assert_true(s.normal);
	pgw_ranges_finish(&s);
	assert_int_equal(s.n, 0);
	assert_int_equal(pgw_ranges_add(&s, 1, 1), 0);
	pgw_ranges_finish(&s);
	pgw_ranges_finish(NULL);
}

static void add_refuses_what_wraps(void **state)
{
	struct pgw_ranges s;

	pgw_ranges_init(&s);
	assert_int_equal(pgw_ranges_add(&s, UINT64_MAX - 9, 11), -EOVERFLOW);
	assert_int_equal(s.n, 0);
	assert_int_equal(pgw_ranges_add(&s, UINT64_MAX - 10, 10), 0);
	assert_int_equal(pgw_ranges_add(&s, 5, 0), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(pgw_ranges_bytes(&s), 10);
	pgw_ranges_finish(&s);
}

static void fixed_storage_joins_before_it_refuses(void **state)
{
	struct pgw_range storage[3];
	struct pgw_ranges s;

	pgw_ranges_init_fixed(&s, storage, 3);
	assert_int_equal(pgw_ranges_add(&s, 100, 10), 0);
	assert_int_equal(pgw_ranges_add(&s, 300, 10), 0);
	assert_int_equal(pgw_ranges_add(&s, 200, 10), 0);
	assert_int_equal(pgw_ranges_add(&s, 400, 10), -ENOSPC);
	assert_int_equal(pgw_ranges_bytes(&s), 30);
	/* Touches the first, covers the second: two become one, and there is room again. */
	assert_int_equal(pgw_ranges_add(&s, 110, 150), 0);
	assert_int_equal(s.n, 2);
	assert_true(pgw_ranges_contains(&s, 100, 160));
	assert_int_equal(pgw_ranges_add(&s, 400, 10), 0);
	assert_int_equal(pgw_ranges_add(&s, 500, 10), -ENOSPC);
	pgw_ranges_finish(&s);
	assert_int_equal(s.cap, 3);
	assert_int_equal(pgw_ranges_add(&s, 400, 10), 0);
}

static void no_storage_at_all(void **state)
{
	struct pgw_ranges s;

	pgw_ranges_init_fixed(&s, NULL, 0);
	assert_int_equal(pgw_ranges_add(&s, 1, 1), -ENOSPC);
	assert_int_equal(pgw_ranges_add(&s, 1, 0), 0);
	assert_int_equal(pgw_ranges_span(&s).len, 0);
}

static void a_set_of_duplicates_stays_small(void **state)
{
	struct pgw_ranges s;

	pgw_ranges_init(&s);
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(pgw_ranges_add(&s, (i * 7919 % 13) * 100, 10), 0);
	assert_true(s.cap <= 64);
	pgw_ranges_normalize(&s);
	assert_int_equal(s.n, 13);
	pgw_ranges_finish(&s);
}

static void subtract_that_does_not_fit_changes_nothing(void **state)
{
	struct pgw_range a[2], b[3];
	struct pgw_ranges s, o;

	pgw_ranges_init_fixed(&s, a, 2);
	pgw_ranges_init_fixed(&o, b, 3);
	assert_int_equal(pgw_ranges_add(&s, 0, 100), 0);
	assert_int_equal(pgw_ranges_add(&o, 10, 10), 0);
	assert_int_equal(pgw_ranges_add(&o, 40, 10), 0);
	assert_int_equal(pgw_ranges_subtract(&s, &o), -ENOSPC);
	assert_int_equal(pgw_ranges_bytes(&s), 100);
	assert_int_equal(pgw_ranges_add(&s, 200, 100), 0);
	o.n = 1;
	assert_int_equal(pgw_ranges_subtract(&s, &o), -ENOSPC);
	s.n = 1;
	assert_int_equal(pgw_ranges_subtract(&s, &o), 0);
	assert_int_equal(pgw_ranges_bytes(&s), 90);
}

static void empty_sets(void **state)
{
	struct pgw_ranges s, o;

	pgw_ranges_init(&s); /* no storage yet */
	pgw_ranges_init(&o);
	pgw_range_sort(s.v, 0);
	assert_int_equal(pgw_range_normalize(s.v, 0), 0);
	assert_int_equal(pgw_ranges_subtract(&s, &o), 0);
	assert_int_equal(pgw_ranges_add_all(&s, &o), 0);
	pgw_ranges_align_out(&s, 4096);
	pgw_ranges_align_in(&s, 4096);
	assert_false(pgw_ranges_contains(&s, 0, 1));
	assert_int_equal(pgw_ranges_add(&o, 0, 100), 0);
	assert_int_equal(pgw_ranges_subtract(&s, &o), 0);
	assert_int_equal(s.n, 0);
	assert_int_equal(pgw_ranges_subtract(&o, &s), 0);
	assert_int_equal(pgw_ranges_bytes(&o), 100);
	pgw_ranges_finish(&s);
	pgw_ranges_finish(&o);
}

/* --- against a bitmap --- */

#define BITS 512

struct model {
	unsigned char bit[BITS];
};

static void model_set(struct model *m, uint64_t start, uint64_t len, unsigned char value)
{
	memset(m->bit + start, value, len);
}

static uint64_t model_count(const struct model *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < BITS; i++)
		n += m->bit[i];
	return n;
}

static void assert_equal_to_model(struct pgw_ranges *s, const struct model *m)
{
	size_t at = 0;

	pgw_ranges_normalize(s);
	assert_int_equal(pgw_ranges_bytes(s), model_count(m));
	for (size_t i = 0; i < s->n; i++) {
		assert_true(s->v[i].len > 0);
		if (i)
			assert_true(s->v[i].start > pgw_range_end(s->v[i - 1]));
		for (; at < s->v[i].start; at++)
			assert_int_equal(m->bit[at], 0);
		for (; at < pgw_range_end(s->v[i]); at++)
			assert_int_equal(m->bit[at], 1);
	}
	for (; at < BITS; at++)
		assert_int_equal(m->bit[at], 0);
}

static uint32_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

static void add_random(struct pgw_ranges *s, struct model *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = pick(BITS), len = pick(pick(8) ? 12 : 100);

		if (len > BITS - start)
			len = BITS - start;
		if (pgw_ranges_add(s, start, len) == 0)
			model_set(m, start, len, 1);
		else
			assert_true(s->fixed);
	}
}

static void model_align(struct model *m, unsigned unit, bool out)
{
	for (unsigned i = 0; i < BITS; i += unit) {
		unsigned n = 0;

		for (unsigned k = i; k < i + unit; k++)
			n += m->bit[k];
		model_set(m, i, unit, out ? n > 0 : n == unit);
	}
}

static void check_contains(struct pgw_ranges *s, const struct model *m)
{
	for (unsigned i = 0; i < 20; i++) {
		uint64_t start = pick(BITS), len = pick(20);
		bool all = true;

		if (len > BITS - start)
			len = BITS - start;
		for (uint64_t k = start; k < start + len; k++)
			all &= m->bit[k];
		assert_int_equal(pgw_ranges_contains(s, start, len), all);
	}
}

static void random_round(void)
{
	struct model m = { { 0 } }, mo = { { 0 } };
	struct pgw_range storage[24];
	struct pgw_ranges s, o;

	if (pick(3))
		pgw_ranges_init(&s);
	else
		pgw_ranges_init_fixed(&s, storage, 1 + pick(24));
	pgw_ranges_init(&o);
	add_random(&s, &m, pick(60));
	add_random(&o, &mo, pick(30));
	if (pick(2))
		assert_equal_to_model(&s, &m);
	switch (pick(5)) {
	case 0:
		pgw_ranges_align_out(&s, 8);
		model_align(&m, 8, true);
		break;
	case 1:
		pgw_ranges_align_in(&s, 8);
		model_align(&m, 8, false);
		break;
	case 2:
		if (pgw_ranges_subtract(&s, &o))
			break;
		for (size_t i = 0; i < BITS; i++)
			m.bit[i] &= !mo.bit[i];
		break;
	case 3:
		if (pgw_ranges_add_all(&s, &o))
			goto out; /* some of it */
		for (size_t i = 0; i < BITS; i++)
			m.bit[i] |= mo.bit[i];
		break;
	default:
		add_random(&s, &m, 40);
	}
	check_contains(&s, &m);
	assert_equal_to_model(&s, &m);
	assert_equal_to_model(&o, &mo);
	if (s.n) {
		assert_int_equal(pgw_ranges_span(&s).start, s.v[0].start);
		assert_int_equal(pgw_range_end(pgw_ranges_span(&s)), pgw_range_end(s.v[s.n - 1]));
	}
out:
	pgw_ranges_finish(&s);
	pgw_ranges_finish(&o);
}

static void sets_are_like_bitmaps(void **state)
{
	for (uint32_t round = 0; round < 20000; round++) {
		seed = round;
		random_round();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(align_keeps_to_its_side),
		cmocka_unit_test(align_stops_at_the_end_of_the_numbers),
		cmocka_unit_test(take_cuts_the_front),
		cmocka_unit_test(normalize_joins_what_touches),
		cmocka_unit_test(sort_of_every_order),
		cmocka_unit_test(add_joins_runs_at_once),
		cmocka_unit_test(add_refuses_what_wraps),
		cmocka_unit_test(fixed_storage_joins_before_it_refuses),
		cmocka_unit_test(no_storage_at_all),
		cmocka_unit_test(a_set_of_duplicates_stays_small),
		cmocka_unit_test(subtract_that_does_not_fit_changes_nothing),
		cmocka_unit_test(empty_sets),
		cmocka_unit_test(sets_are_like_bitmaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
