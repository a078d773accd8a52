/* SPDX-License-Identifier: BSD-2-Clause
 *
 * synth.h - synthetic chains of any length, as a bootstrap file: for load.
 *
 * Everything that import and verify look at is right: structure, hashes, links, weights, coins. What
 * they do not look at is random bytes: keys, signatures, proofs. Block 0 is Monero's own; all others
 * are of hard fork 16. What is drawn, and from what (about main net in 2023 and 2024):
 *
 *   seconds between blocks     exponential, mean 120
 *   transactions in a block    Poisson, mean `txs` * seconds / 120; until SYNTH_BLOCK_BYTES is full;
 *                              none below block SYNTH_FIRST_TX
 *   inputs                     1: 55 %, 2: 34 %, 3 or 4: 6 %, 5 to 16: 4 %, 17 to 64: 1 %
 *   outputs                    2: 92 %, 3 to 15: 6 %, 16: 2 %
 *   ring                       16 members: their age in seconds is log-normal, with mean and
 *                              deviation of Monero's gamma distribution for decoys (logarithm 11.98,
 *                              2.73); none younger than 10 blocks
 *   fee                        weight * 20000, times 1: 85 %, 4: 10 %, 20: 4 %, 160: 1 %
 *   range proofs, signatures   one Bulletproof+ for all outputs, a CLSAG an input
 *   reward                     Monero's emission, 0.6 at least
 *
 * The shape of block h depends on the seed and h alone, its bytes on all before.
 */
#ifndef CHAIN_SYNTH_H
#define CHAIN_SYNTH_H

#include <stdio.h>

#include "error.h"

#define SYNTH_BLOCK_BYTES 500000
#define SYNTH_FIRST_TX	  100

struct synth_options {
	uint64_t seed;
	uint64_t blocks;  /* so many; or, if 0, */
	uint64_t outputs; /* up to the block that has the last of so many outputs */
	uint64_t txs;	  /* transactions a block, on average */
	/* Called after each block, if not NULL; false ends it with an error. */
	bool (*progress)(void *ctx, uint64_t done, uint64_t blocks);
	void *ctx;
};

struct synth_result {
	uint64_t blocks, txs, inputs, outputs; /* txs without the miners' */
	uint64_t bytes;
};

/* Writes to f, which need not be seekable. Memory: a few blocks, however long the chain. */
int chain_synth(
    const struct synth_options *opt, FILE *f, struct synth_result *result, struct chain_error *err);

#endif
