/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile_math.c - the heap profiler's log, exp and round, beside the C library's.
 */
#include "profile_math.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ULPS 4

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static double of_bits(uint64_t b)
{
	double x;

	memcpy(&x, &b, sizeof(x));
	return x;
}

static void assert_near(double x, double got, double want)
{
	double room = ULPS * fabs(want) * 0x1p-52;

	if (got == want || (isnan(got) && isnan(want)))
		return;
	if (room < 0x1p-1074)
		room = 0x1p-1074;
	if (!(fabs(got - want) <= room))
		fail_msg("of %a: %a, the C library says %a", x, got, want);
}

static void logarithms(void **state)
{
	static const double some[] = { 0.0, -0.0, -1.0, 1.0, 0.5, 2.0, M_SQRT2, M_SQRT1_2,
		0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp+1023, 0x1.fffffffffffffp-1,
		0x1.0000000000001p+0, INFINITY, NAN };
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		assert_near(some[i], __wrap_log(some[i]), log(some[i]));
	for (int i = 0; i < 1000000; i++) {
		double any = of_bits(next(&x) >> 1);		  /* of any size */
		double unit = (double)(next(&x) >> 11) * 0x1p-53; /* as the profiler's */

		assert_near(any, __wrap_log(any), log(any));
		assert_near(unit, __wrap_log(unit), log(unit));
	}
	for (int lg = 1; lg < 53; lg++) {
		double p = 1.0 - 1.0 / (double)(UINT64_C(1) << lg);

		assert_near(p, __wrap_log(p), log(p));
	}
}

static void exponentials(void **state)
{
	static const double some[] = { 0.0, -0.0, 1.0, -1.0, 709.78, 709.79, 800.0, -708.5, -745.1,
		-745.13, -745.2, -800.0, 0x1p-1074, INFINITY, -INFINITY, NAN };
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		assert_near(some[i], __wrap_exp(some[i]), exp(some[i]));
	for (int i = 0; i < 1000000; i++) {
		double unit = (double)(next(&x) >> 11) * 0x1p-53;
		double wide = (unit - 0.5) * 1500, small = (unit - 0.5) * 0x1p-30;

		assert_near(wide, __wrap_exp(wide), exp(wide));
		assert_near(-unit, __wrap_exp(-unit), exp(-unit));
		assert_near(small, __wrap_exp(small), exp(small));
	}
}

static void rounding(void **state)
{
	static const double some[] = { 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0x1.fffffffffffffp-2,
		0x1.fffffffffffffp+51, 0x1p52, -0x1p53, 0x1p1000, INFINITY, -INFINITY };
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
		assert_true(__wrap_round(some[i]) == round(some[i]));
	assert_true(isnan(__wrap_round(NAN)));
	for (int i = 0; i < 1000000; i++) {
		double v = (double)(int64_t)next(&x) * 0x1p-12;

		assert_true(__wrap_round(v) == round(v));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logarithms),
		cmocka_unit_test(exponentials),
		cmocka_unit_test(rounding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
