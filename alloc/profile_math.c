/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile_math.c - log, exp and round for jemalloc's heap profiler, the only one here that needs them.
 *
 * With the C library's each process that has this library would load libm: 0.3 MiB of resident memory,
 * five mappings for every fork to copy, and the time to link it, for a profiler that is nearly always
 * off. They take what the profiler gives them, and are exact to a few units in the last place; it
 * computes the mean distance of its samples with them. tests/alloc/profile_math.c compares them
 * with libm.
 */
#include "profile_math.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MANTISSA_BITS 52
#define BIAS	      1023

/* ln 2 in two parts: the first has so few bits that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW	 0x1.ef35793c76730p-45

static uint64_t bits_of(double x)
{
	uint64_t b;

	memcpy(&b, &x, sizeof(b));
	return b;
}

static double of_bits(uint64_t b)
{
	double x;

	memcpy(&x, &b, sizeof(x));
	return x;
}

/* x = 2^k m with m in [1/sqrt 2, sqrt 2); then ln m = 2 artanh((m - 1)/(m + 1)), by its series. */
double __wrap_log(double x)
{
	double m, s, s2, sum = 0;
	int64_t k = 0;

	if (!(x > 0))
		return x == 0 ? -(double)INFINITY : (double)NAN;
	if (x > __DBL_MAX__)
		return x;
	if (x < __DBL_MIN__) {
		x *= 0x1p54;
		k = -54;
	}
	k += (int64_t)(bits_of(x) >> MANTISSA_BITS) - BIAS;
	m = of_bits((bits_of(x) & ((UINT64_C(1) << MANTISSA_BITS) - 1)) |
		    ((uint64_t)BIAS << MANTISSA_BITS));
	if (m > 0x1.6a09e667f3bcdp+0) {
		m /= 2;
		k++;
	}
	s = (m - 1) / (m + 1);
	s2 = s * s; /* at most 0.0295: eleven terms reach 2^-60 */
	for (int n = 21; n >= 3; n -= 2)
		sum = s2 * (sum + 1.0 / n);
	return (double)k * LN2_HIGH + (2 * s + (2 * s * sum + (double)k * LN2_LOW));
}

/* x = k ln 2 + r with |r| at most half of ln 2; then e^r by its series. */
double __wrap_exp(double x)
{
	double k, r, sum = 1;

	if (x != x)
		return x;
	if (x > 709.782712893384)
		return (double)INFINITY;
	if (x < -745.2)
		return 0;
	k = __wrap_round(x / LN2_HIGH);
	r = (x - k * LN2_HIGH) - k * LN2_LOW;
	for (int n = 14; n >= 1; n--)
		sum = 1 + r / n * sum;
	if (k > 0) /* in two steps: 2^k alone may be out of range */
		return sum * of_bits((uint64_t)((int64_t)k - 1 + BIAS) << MANTISSA_BITS) * 2;
	if (k > -BIAS)
		return sum * of_bits((uint64_t)((int64_t)k + BIAS) << MANTISSA_BITS);
	return sum * of_bits((uint64_t)((int64_t)k + 54 + BIAS) << MANTISSA_BITS) * 0x1p-54;
}

/* Halves go away from zero. */
double __wrap_round(double x)
{
	double a = x < 0 ? -x : x, whole;

	if (!(a < 0x1p52))
		return x;
	whole = (double)(int64_t)a;
	if (a - whole >= 0.5)
		whole += 1;
	return x < 0 ? -whole : whole;
}
