/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rng.h - reproducible random numbers: xoshiro256** (Blackman, Vigna), seeded by splitmix64. Not for
 * secrets.
 */
#ifndef CHAIN_RNG_H
#define CHAIN_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/* Different streams for different (seed, stream). */
void rng_init(struct rng *r, uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *r);
/* 0 to n - 1; n > 0. The bias is below n / 2^64. */
uint64_t rng_below(struct rng *r, uint64_t n);
void rng_fill(struct rng *r, void *p, size_t n);
/* In (0, 1]. */
double rng_real(struct rng *r);
double rng_exponential(struct rng *r, double mean);
double rng_normal(struct rng *r, double mean, double deviation);

#endif
