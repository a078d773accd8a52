/* SPDX-License-Identifier: BSD-2-Clause
 *
 * load.h - stored blocks and transactions, parsed again. Spans point into the map: good until the
 * transaction ends, and nothing is copied.
 */
#ifndef CHAIN_LOAD_H
#define CHAIN_LOAD_H

#include "package.h"
#include "tables.h"

/* A read transaction with a cursor for each table. */
struct reader {
	struct chain_db *db;
	MDB_txn *txn;
	MDB_cursor *cur[CHAIN_TABLES];
	uint32_t pruning_seed; /* see prune.h */
};

int reader_begin(struct reader *r, struct chain_db *db, struct chain_error *err);
void reader_end(struct reader *r);

/* A row that must be there and be n bytes long; otherwise CHAIN_DAMAGED. */
int reader_row(struct reader *r, enum chain_table t, uint64_t key, void *out, size_t n,
    struct chain_error *err);
/* The row under `key` that sorts as probe. Results as chain_get_dup(); a row that is not n bytes
 * long is CHAIN_DAMAGED. */
int reader_find(struct reader *r, enum chain_table t, uint64_t key, const void *probe, size_t size,
    void *out, size_t n, struct chain_error *err);

/* The row of a block that must be there. */
int reader_block_info(
    struct reader *r, uint64_t height, struct row_block_info *info, struct chain_error *err);

/* The last block (height 0: there is none). */
int reader_tip(struct reader *r, struct tip *tip, struct chain_error *err);
/* The same of the chain's first `height` blocks, which must be there. */
int reader_tip_at(struct reader *r, uint64_t height, struct tip *tip, struct chain_error *err);
/* The id of the miner's transaction of a block: the first of the block. */
int reader_first_tx(struct reader *r, uint64_t height, uint64_t *tx_id, struct chain_error *err);

/* In a pruned store, a transaction without its prunable part is a stub. */
int load_tx(struct reader *r, uint64_t tx_id, bool miner, struct tx *tx, struct chain_error *err);
int load_block(struct reader *r, uint64_t height, struct block *b, struct chain_error *err);
/* The block at a height with its block_info row and all transactions, whose ids start (with the
 * miner's) at tx_id. p: as for package_parse(). */
int load_package(struct reader *r, uint64_t height, uint64_t tx_id, struct package *p,
    struct row_block_info *info, struct chain_error *err);

#endif
