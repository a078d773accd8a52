/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hash.h - the hashes that name transactions and blocks.
 */
#ifndef CHAIN_HASH_H
#define CHAIN_HASH_H

#include "block.h"
#include "keccak.h"

/* The hash of a transaction's prunable part (of no bytes: the hash of nothing). */
void hash_prunable(const struct tx *tx, uint8_t out[HASH_SIZE]);

/* prunable: from hash_prunable(), or as a pruned database keeps it; not read in version 1. */
void hash_tx(const struct tx *tx, const uint8_t prunable[HASH_SIZE], uint8_t out[HASH_SIZE]);

/* Root over first and then the n hashes that lie in rest, as Monero's trees are shaped. scratch:
 * (n + 1) hashes. */
void hash_tree(const uint8_t first[HASH_SIZE], const uint8_t *rest, size_t n, uint8_t *scratch,
    uint8_t out[HASH_SIZE]);

/* miner: the hash of the block's miner transaction. scratch: (b->n_txs + 1) hashes. */
void hash_block(const struct block *b, const uint8_t miner[HASH_SIZE], uint8_t *scratch,
    uint8_t out[HASH_SIZE]);

#endif
