/* SPDX-License-Identifier: BSD-2-Clause
 *
 * prune.h - a pruned chain: signatures and range proofs of old transactions are dropped, their hash
 * stays. Monero's rule: the chain is cut into stripes of blocks, in turn of eight kinds; a node keeps
 * one kind, and everything in the last blocks. So eight nodes have it all.
 */
#ifndef CHAIN_PRUNE_H
#define CHAIN_PRUNE_H

#include "tables.h"

/* Monero's constants (cryptonote_config.h). */
#define PRUNE_LOG_STRIPES   3
#define PRUNE_STRIPES	    (1U << PRUNE_LOG_STRIPES)
#define PRUNE_STRIPE_BLOCKS 4096
#define PRUNE_TIP_BLOCKS    5500

/* As the table "properties" has it; 0: not pruned. */
static inline uint32_t prune_seed(unsigned stripe)
{
	return (uint32_t)PRUNE_LOG_STRIPES << 7 | (stripe - 1);
}

/* 1 to 8; 0: of a seed that is none of ours. */
static inline unsigned prune_stripe_of(uint32_t seed)
{
	return seed >> 7 == PRUNE_LOG_STRIPES && (seed & 127) < PRUNE_STRIPES ? 1 + (seed & 127)
									      : 0;
}

/* A store with this seed may lack the prunable part of version 2 transactions of this block. */
static inline bool prune_may_lack(uint32_t seed, uint64_t height, const struct prune_rule *rule)
{
	return seed && height / rule->stripe_blocks % PRUNE_STRIPES + 1 != prune_stripe_of(seed);
}

int prune_read_seed(MDB_txn *txn, struct chain_db *db, uint32_t *seed, struct chain_error *err);

struct prune_result {
	unsigned stripe; /* the one kept */
	uint64_t txs;	 /* dropped now, the miners' included */
	uint64_t bytes;	 /* of what was dropped */
	uint64_t kept;	 /* transactions that have their prunable part */
};

/* Prunes, or prunes on what was imported since. stripe: 1 to PRUNE_STRIPES; 0: the one the store has,
 * or any. Done in parts, each a transaction; a kill in between leaves a store that is pruned in part,
 * as every pruned store is. */
int chain_prune(
    struct chain_db *db, unsigned stripe, struct prune_result *result, struct chain_error *err);

#endif
