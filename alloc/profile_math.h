/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile_math.h - what stands in front of libm for jemalloc (the linker's --wrap).
 */
#ifndef PGW_ALLOC_PROFILE_MATH_H
#define PGW_ALLOC_PROFILE_MATH_H

double __wrap_log(double x);
double __wrap_exp(double x);
double __wrap_round(double x);

#endif
