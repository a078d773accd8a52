/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tx.h - Monero transactions, parsed into spans of the input: nothing is copied or allocated.
 *
 * A transaction is a prefix, a base part (version 2) and a prunable part (signatures and range
 * proofs). "Pruned" is prefix + base, as the database stores it apart from the rest.
 */
#ifndef CHAIN_TX_H
#define CHAIN_TX_H

#include "cursor.h"

/* The type byte of a version 2 transaction. */
enum tx_type {
	TX_NULL = 0,		 /* miner: nothing hidden, nothing signed */
	TX_FULL = 1,		 /* one signature over all inputs, Borromean range proofs */
	TX_SIMPLE = 2,		 /* one signature an input, Borromean range proofs */
	TX_BULLETPROOF = 3,	 /* as 2, with Bulletproofs */
	TX_BULLETPROOF2 = 4,	 /* as 3, short amounts */
	TX_CLSAG = 5,		 /* as 4, with CLSAG signatures */
	TX_BULLETPROOF_PLUS = 6, /* as 5, with Bulletproofs+ */
};

#define TX_KEY_SIZE 32

struct tx {
	uint64_t version;     /* 1 or 2 */
	uint64_t unlock_time; /* a height below 500000000, else seconds since 1970 */
	uint64_t height;      /* miner transactions only */
	uint64_t in_amount;   /* sum of the inputs' public amounts; RingCT: 0 */
	uint64_t out_amount;  /* sum of the outputs' public amounts; RingCT: 0 */
	uint64_t fee;	      /* version 1: in_amount - out_amount; miner: 0 */
	size_t n_inputs, n_outputs;
	size_t ring;   /* version 2: members of every input's ring */
	size_t padded; /* outputs the range proofs have room for; 0 without Bulletproofs */
	bool miner;
	bool stub;    /* stored without its prunable part, which is empty here */
	uint8_t type; /* enum tx_type; version 1: 0 */

	struct span prefix, base, prunable;
	struct span pruned; /* prefix and base */
	struct span inputs, outputs, extra;
	struct span commitments; /* n_outputs * 32; none in version 1 and in type 0 */
};

struct tx_input {
	uint64_t amount; /* key inputs; 0 in RingCT */
	uint64_t height; /* generated inputs */
	size_t ring;	 /* 0: a generated input */
	const uint8_t *key_image;
};

struct tx_output {
	uint64_t amount;
	const uint8_t *key;
};

/* Both halves from one cursor, as a file holds them; on success c stands behind the transaction. A
 * miner transaction has one generated input, any other only key inputs. */
void tx_parse(struct cursor *c, bool miner, struct tx *tx);
/* Or each from its own, as the database holds them. tx_parse_prunable() after tx_parse_pruned(). */
void tx_parse_pruned(struct cursor *c, bool miner, struct tx *tx);
void tx_parse_prunable(struct cursor *c, struct tx *tx);

/* The key images of a transaction, input by input; a miner's has none. After key_images_next() has
 * returned one, i counts it. */
struct key_images {
	struct cursor c;
	size_t i, n;
};
void key_images_begin(struct key_images *k, const struct tx *tx);
const uint8_t *key_images_next(struct key_images *k); /* NULL: no more */

/* One input or output, from a cursor over tx->inputs or tx->outputs. */
void tx_read_input(struct cursor *c, struct tx_input *in);
void tx_read_output(struct cursor *c, struct tx_output *out);

/* What a transaction counts for in its block: its bytes, and for more than two outputs a part of
 * the bytes that an aggregated range proof saved. Monero's consensus rule. */
uint64_t tx_weight(const struct tx *tx);

#endif
