/* SPDX-License-Identifier: BSD-2-Clause
 *
 * synth_shape.h - the shape of a synthetic block: what is drawn before any byte of it is made.
 */
#ifndef CHAIN_SYNTH_SHAPE_H
#define CHAIN_SYNTH_SHAPE_H

#include <stddef.h>
#include <stdint.h>

/* No more than SYNTH_BLOCK_BYTES have room for. */
#define SHAPE_TXS_MAX 512

struct tx_shape_drawn {
	uint8_t inputs, outputs;
	uint8_t fee_factor;
};

struct block_shape {
	uint64_t seconds; /* since the block before */
	size_t n;
	struct tx_shape_drawn txs[SHAPE_TXS_MAX];
};

/* txs: on average. */
void shape_draw(struct block_shape *s, uint64_t seed, uint64_t height, uint64_t txs);
uint64_t shape_outputs(const struct block_shape *s); /* with the miner's */

/* Bytes of such a transaction, to some 2 %. */
size_t shape_tx_bytes(const struct tx_shape_drawn *t);

#endif
