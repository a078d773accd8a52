/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.h - is what is stored a chain, and does every table tell the same of it?
 */
#ifndef CHAIN_VERIFY_H
#define CHAIN_VERIFY_H

#include "load.h"

struct verify_result {
	uint64_t blocks, txs, outputs, key_images; /* txs with the miners' */
	uint64_t pool_txs, alt_blocks;
};

/* Walks the chain from block 0 on in one snapshot: each block and transaction is parsed, its hash
 * computed, its weight, coins and long-term weight derived again, and each row of each table that
 * it calls for looked up and compared. Then no table may have more rows than were called for, and
 * transactions and blocks that are not in the chain must be what they are stored as (pool.h). The
 * first contradiction ends the walk with CHAIN_DAMAGED. */
int chain_verify(struct chain_db *db, struct verify_result *result, struct chain_error *err);

#endif
