/* SPDX-License-Identifier: BSD-2-Clause
 *
 * package.h - a block package: a block, its transactions, and three numbers about it; parsed, and
 * held against the chain it is to continue.
 */
#ifndef CHAIN_PACKAGE_H
#define CHAIN_PACKAGE_H

#include "error.h"
#include "hash.h"

struct package {
	struct block block;
	/* block.n_txs of them, in the order of block.hashes. */
	struct tx *txs;
	size_t txs_cap;
	uint64_t weight;
	uint64_t difficulty_high, difficulty_low; /* cumulative */
	uint64_t coins;				  /* all coins so far, without fees */
	uint64_t offset;			  /* in the file, of the block */

	/* Set by package_hash(): the hash of the block, of its miner transaction, and of each
	 * transaction's prunable part (block.n_txs * 32). */
	uint8_t hash[HASH_SIZE], miner_hash[HASH_SIZE];
	uint8_t *prunable_hashes;
	uint8_t *scratch;
	size_t hashes_cap;
};

/* The end of a chain. */
struct tip {
	uint64_t height; /* blocks in the chain, and so the next one's height */
	uint8_t hash[HASH_SIZE];
	uint64_t difficulty_high, difficulty_low, coins;
};

/* p->offset of a package that comes from no file. */
#define PACKAGE_STORED UINT64_MAX

/* Room for n transactions, and their hashes. */
int package_reserve(struct package *p, size_t n, struct chain_error *err);

/* Parses all of body; p is reused from package to package and starts as all zero. What p holds
 * points into body. format_major: of the file. */
int package_parse(struct package *p, struct span body, uint64_t offset, uint8_t format_major,
    struct chain_error *err);

/* Computes the hashes, and holds those of the transactions against the block's list. A stub's hash of
 * its prunable part is taken from p->prunable_hashes. */
int package_hash(struct package *p, struct chain_error *err);

/* package_hash(), and holds p against the chain that ends in tip: the height, the previous
 * block's hash, each transaction's hash, the weight, the difficulty, the coins. The last three are
 * in no hash, but follow from the block and tip. */
int package_check(struct package *p, const struct tip *tip, struct chain_error *err);

/* The tip after p, which package_check() has accepted. */
struct tip package_tip(const struct package *p);

void package_finish(struct package *p);

#endif
