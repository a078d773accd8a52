/* SPDX-License-Identifier: BSD-2-Clause
 *
 * synth_shape.c - see synth_shape.h, and synth.h for the numbers.
 */
#include "synth_shape.h"

#include <math.h>

#include "rng.h"
#include "synth.h"

#define BLOCK_SECONDS 120

static uint8_t between(struct rng *r, unsigned low, unsigned high)
{
	return (uint8_t)(low + rng_below(r, high - low + 1));
}

static uint8_t draw_inputs(struct rng *r)
{
	uint64_t p = rng_below(r, 100);

	if (p < 55)
		return 1;
	if (p < 89)
		return 2;
	if (p < 95)
		return between(r, 3, 4);
	return p < 99 ? between(r, 5, 16) : between(r, 17, 64);
}

static uint8_t draw_outputs(struct rng *r)
{
	uint64_t p = rng_below(r, 100);

	if (p < 92)
		return 2;
	return p < 98 ? between(r, 3, 15) : 16;
}

static uint8_t draw_fee_factor(struct rng *r)
{
	uint64_t p = rng_below(r, 100);

	if (p < 85)
		return 1;
	if (p < 95)
		return 4;
	return p < 99 ? 20 : 160;
}

/* Arrivals at a constant rate: the gaps between them are exponential. */
static size_t draw_count(struct rng *r, double mean)
{
	double sum = rng_exponential(r, 1);
	size_t n = 0;

	while (sum < mean && n < SHAPE_TXS_MAX) {
		sum += rng_exponential(r, 1);
		n++;
	}
	return n;
}

size_t shape_tx_bytes(const struct tx_shape_drawn *t)
{
	size_t rounds = 6;

	while ((size_t)1 << (rounds - 6) < t->outputs)
		rounds++;
	/* Prefix and base, proof, and for each input offsets, key image, CLSAG and pseudo output. */
	return 90 + t->outputs * (size_t)75 + 32 * (6 + 2 * rounds) +
	       t->inputs * (size_t)(50 + 32 + 18 * 32 + 32);
}

void shape_draw(struct block_shape *s, uint64_t seed, uint64_t height, uint64_t txs)
{
	size_t bytes = 0, n;
	struct rng r;

	/* Odd streams are for bytes. */
	rng_init(&r, seed, 2 * height);
	s->seconds = 1 + (uint64_t)rng_exponential(&r, BLOCK_SECONDS - 1);
	n = draw_count(&r, (double)txs * (double)s->seconds / BLOCK_SECONDS);
	if (height < SYNTH_FIRST_TX)
		n = 0;
	for (s->n = 0; s->n < n; s->n++) {
		struct tx_shape_drawn *t = &s->txs[s->n];

		t->inputs = draw_inputs(&r);
		t->outputs = draw_outputs(&r);
		t->fee_factor = draw_fee_factor(&r);
		bytes += shape_tx_bytes(t);
		if (bytes > SYNTH_BLOCK_BYTES)
			break;
	}
}

uint64_t shape_outputs(const struct block_shape *s)
{
	uint64_t n = 1;

	for (size_t i = 0; i < s->n; i++)
		n += s->txs[i].outputs;
	return n;
}
