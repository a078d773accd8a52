/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pool.h - what a node knows and what is in no block of its chain: transactions that wait, and blocks
 * of other branches. monerod fills these tables; here they are read, checked, and kept right.
 */
#ifndef CHAIN_POOL_H
#define CHAIN_POOL_H

#include "load.h"

/* Both point into the map, and are good until the transaction ends. */
struct pool_tx {
	const uint8_t *hash;
	struct row_pool_meta meta;
	struct tx tx; /* a stub if meta.flags has POOL_PRUNED */
	size_t bytes; /* of it, as stored */
};

struct alt_block {
	const uint8_t *hash;
	struct row_alt_block row;
	struct block block;
};

typedef void (*pool_tx_fn)(void *ctx, const struct pool_tx *tx);
typedef void (*alt_block_fn)(void *ctx, const struct alt_block *b);

/* Calls visit, if it is not NULL, for each row in the tables' order, each checked: a transaction and
 * what is known of it are both there, parse, and have the hash, weight and fee they are stored with.
 * Key images may be spent, also twice: that is what a pool has to live with. *n: how many. A table
 * that is not there is empty. */
int pool_each_tx(
    struct reader *r, pool_tx_fn visit, void *ctx, uint64_t *n, struct chain_error *err);
/* The same for blocks: the hash, and the height. Whether the chain has the block before is not asked;
 * a branch may have started at another. */
int pool_each_alt_block(
    struct reader *r, alt_block_fn visit, void *ctx, uint64_t *n, struct chain_error *err);

/* Takes out what has come into the chain, if it is there: a transaction, or a block. */
int pool_drop_tx(
    MDB_txn *txn, struct chain_db *db, const uint8_t hash[HASH_SIZE], struct chain_error *err);
int pool_drop_block(
    MDB_txn *txn, struct chain_db *db, const uint8_t hash[HASH_SIZE], struct chain_error *err);

#endif
