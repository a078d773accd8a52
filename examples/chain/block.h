/* SPDX-License-Identifier: BSD-2-Clause
 *
 * block.h - a block as the chain file and the table "blocks" hold it: header, miner transaction,
 * hashes of the other transactions.
 */
#ifndef CHAIN_BLOCK_H
#define CHAIN_BLOCK_H

#include "tx.h"

struct block {
	uint64_t major, minor; /* major is the hard fork's number */
	uint64_t timestamp;
	const uint8_t *prev; /* hash of the block before; 32 bytes */
	uint32_t nonce;
	struct tx miner;
	struct span hashes; /* n_txs * 32 */
	size_t n_txs;	    /* without the miner's */
	struct span header, blob;
};

/* The largest header: three varints of 10 bytes, a hash, a nonce. */
#define BLOCK_HEADER_MAX (3 * 10 + 32 + 4)

/* On success c stands behind the block. */
void block_parse(struct cursor *c, struct block *b);

/* The previous-block hash of a header that may be cut off; NULL if it is not in there. */
const uint8_t *block_peek_prev(struct span start);

#endif
