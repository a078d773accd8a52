/* SPDX-License-Identifier: BSD-2-Clause
 *
 * weight.c - the window's median against sorting it, and the bounds by hand.
 */
#include <stdlib.h>
#include <string.h>

#include "support.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The upper bound of fork 14: 1.4 medians. */
static uint64_t bound_of(const struct weight_window *w)
{
	return weight_long_term(w, 14, UINT64_MAX);
}

#define TOTAL 700

/* At every step from before the window is full to long after, with equal weights among them. */
static void same_as_sorting(size_t size)
{
	uint64_t all[TOTAL], copy[TOTAL];
	struct weight_window w;

	assert_int_equal(weight_window_init(&w, size, 0), 0);
	for (size_t h = 0; h < TOTAL; h++) {
		size_t n = h + 1 < size ? h + 1 : size;
		uint64_t m;

		all[h] = h % 3 == 0 ? 700000 : 300000 + test_random() % 1000000;
		weight_window_push(&w, all[h]);
		memcpy(copy, all + h + 1 - n, n * sizeof(*copy));
		qsort(copy, n, sizeof(*copy), by_value);
		m = n % 2 ? copy[n / 2] : (copy[n / 2 - 1] + copy[n / 2]) / 2;
		assert_int_equal(bound_of(&w), m + m * 2 / 5);
	}
	assert_int_equal(w.end, TOTAL);
	weight_window_finish(&w);
}

static void medians(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 10, 101, 699, 1000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		same_as_sorting(sizes[i]);
}

static void bounds(void **state)
{
	struct weight_window w;

	assert_int_equal(weight_window_init(&w, WEIGHT_WINDOW, 5), 0);
	/* Before fork 10: itself. */
	assert_int_equal(weight_long_term(&w, 9, 123), 123);
	assert_int_equal(weight_long_term(&w, 9, 12345678), 12345678);
	/* The floor of 300000 stands for a lower median. */
	assert_int_equal(weight_long_term(&w, 10, 123), 123);
	assert_int_equal(weight_long_term(&w, 10, 12345678), 420000);
	assert_int_equal(weight_long_term(&w, 15, 123), 176470);
	assert_int_equal(weight_long_term(&w, 16, 200000), 200000);
	assert_int_equal(weight_long_term(&w, 16, 12345678), 510000);
	weight_window_push(&w, 1000000);
	assert_int_equal(weight_long_term(&w, 16, 123), 588235);
	assert_int_equal(weight_long_term(&w, 16, 12345678), 1700000);
	weight_window_finish(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
