/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rng.c - see rng.h.
 */
#include "rng.h"

#include <math.h>
#include <string.h>

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

void rng_init(struct rng *r, uint64_t seed, uint64_t stream)
{
	uint64_t x = seed, y = stream;

	x = splitmix(&x) ^ splitmix(&y);
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&x);
}

static uint64_t rotate(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t rng_next(struct rng *r)
{
	uint64_t *s = r->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (uint64_t)((unsigned __int128)rng_next(r) * n >> 64);
}

void rng_fill(struct rng *r, void *p, size_t n)
{
	uint8_t *out = p;
	uint64_t v;

	for (; n >= sizeof(v); n -= sizeof(v), out += sizeof(v)) {
		v = rng_next(r);
		memcpy(out, &v, sizeof(v));
	}
	if (n > 0) {
		v = rng_next(r);
		memcpy(out, &v, n);
	}
}

double rng_real(struct rng *r)
{
	return (double)((rng_next(r) >> 11) + 1) * 0x1p-53;
}

double rng_exponential(struct rng *r, double mean)
{
	return -mean * log(rng_real(r));
}

double rng_normal(struct rng *r, double mean, double deviation)
{
	double radius = sqrt(-2 * log(rng_real(r)));

	return mean + deviation * radius * cos(2 * M_PI * rng_real(r));
}
