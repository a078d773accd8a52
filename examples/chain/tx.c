/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tx.c - see tx.h.
 *
 * No counts stand in the base and prunable parts: they follow from the prefix. RingCT has one ring
 * size for all inputs (Monero's own reader takes the first input's), so others are refused here.
 */
#include "tx.h"

#include <string.h>

#define IN_GENERATED  0xff
#define IN_KEY	      0x02
#define OUT_KEY	      0x02
#define OUT_TAGGED    0x03
#define SIGNATURE     64
#define BORROMEAN     (64 * 32 + 64 * 32 + 32 + 64 * 32) /* one range signature, 64 bits */
#define PROOF_BITS    6					 /* log2 of the 64 bits of an amount */
#define PROOF_OUTPUTS 4					 /* log2 of the 16 outputs a proof covers */

void tx_read_input(struct cursor *c, struct tx_input *in)
{
	size_t start = c->pos;
	uint8_t tag = cursor_u8(c, "input tag");

	memset(in, 0, sizeof(*in));
	if (tag == IN_GENERATED) {
		in->height = cursor_varint(c, "height of a miner input");
		return;
	}
	if (tag != IN_KEY) {
		cursor_fail_at(c, start, "input tag", "is neither 02 (key) nor ff (generated)");
		return;
	}
	in->amount = cursor_varint(c, "input amount");
	in->ring = cursor_count(c, 1, "ring size");
	if (cursor_ok(c) && in->ring == 0)
		cursor_fail_at(c, start, "ring", "has no members");
	for (size_t i = 0; i < in->ring && cursor_ok(c); i++)
		cursor_varint(c, "ring offset");
	in->key_image = cursor_take(c, 1, TX_KEY_SIZE, "key image").p;
}

void tx_read_output(struct cursor *c, struct tx_output *out)
{
	size_t start;
	uint8_t tag;

	out->amount = cursor_varint(c, "output amount");
	start = c->pos;
	tag = cursor_u8(c, "output tag");
	if (tag != OUT_KEY && tag != OUT_TAGGED)
		cursor_fail_at(c, start, "output tag", "is neither 02 (key) nor 03 (tagged key)");
	out->key = cursor_take(c, 1, TX_KEY_SIZE, "output key").p;
	if (tag == OUT_TAGGED)
		cursor_u8(c, "view tag");
}

static void add_amount(struct cursor *c, uint64_t *sum, uint64_t amount, const char *what)
{
	if (__builtin_add_overflow(*sum, amount, sum))
		cursor_fail(c, what, "add up to more than 64 bits");
}

static void parse_inputs(struct cursor *c, struct tx *tx)
{
	size_t from;

	tx->n_inputs = cursor_count(c, 2, "number of inputs");
	from = c->pos;
	for (size_t i = 0; i < tx->n_inputs && cursor_ok(c); i++) {
		struct tx_input in;
		size_t start = c->pos;

		tx_read_input(c, &in);
		if (!cursor_ok(c))
			return;
		if (tx->miner != (in.ring == 0)) {
			cursor_fail_at(c, start, "input",
			    tx->miner ? "of a miner transaction is not a generated one"
				      : "is a generated one outside a miner transaction");
			return;
		}
		if (tx->version == 2 && i > 0 && in.ring != tx->ring) {
			cursor_fail_at(c, start, "ring", "differs in size from the first input's");
			return;
		}
		tx->ring = in.ring;
		tx->height = in.height;
		add_amount(c, &tx->in_amount, in.amount, "input amounts");
	}
	if (cursor_ok(c) && (tx->miner ? tx->n_inputs != 1 : tx->n_inputs == 0))
		cursor_fail_at(c, from, "number of inputs",
		    tx->miner ? "of a miner transaction is not 1" : "is 0");
	tx->inputs = cursor_since(c, from);
}

static void parse_outputs(struct cursor *c, struct tx *tx)
{
	size_t from;

	tx->n_outputs = cursor_count(c, 2 + TX_KEY_SIZE, "number of outputs");
	from = c->pos;
	for (size_t i = 0; i < tx->n_outputs && cursor_ok(c); i++) {
		struct tx_output out;
		size_t start = c->pos;

		tx_read_output(c, &out);
		/* The database files outputs by amount, with 0 for the hidden ones. */
		if (tx->version == 2 && !tx->miner && out.amount != 0)
			cursor_fail_at(c, start, "output amount", "is in clear in a RingCT output");
		if (tx->version == 1 && out.amount == 0)
			cursor_fail_at(c, start, "output amount", "is 0 in a version 1 output");
		add_amount(c, &tx->out_amount, out.amount, "output amounts");
	}
	if (cursor_ok(c) && tx->n_outputs == 0)
		cursor_fail_at(c, from, "number of outputs", "is 0");
	tx->outputs = cursor_since(c, from);
}

static void parse_prefix(struct cursor *c, struct tx *tx)
{
	size_t start = c->pos;

	tx->version = cursor_varint(c, "transaction version");
	if (cursor_ok(c) && tx->version != 1 && tx->version != 2)
		cursor_fail_at(c, start, "transaction version", "is neither 1 nor 2");
	tx->unlock_time = cursor_varint(c, "unlock time");
	parse_inputs(c, tx);
	parse_outputs(c, tx);
	tx->extra = cursor_take(c, cursor_count(c, 1, "length of extra"), 1, "extra");
	tx->prefix = cursor_since(c, start);
	if (tx->version != 1 || tx->miner)
		return;
	if (cursor_ok(c) && tx->out_amount > tx->in_amount)
		cursor_fail_at(c, start, "transaction", "spends more than its inputs hold");
	tx->fee = tx->in_amount - tx->out_amount;
}

static void parse_base(struct cursor *c, struct tx *tx)
{
	size_t start = c->pos;
	bool short_amounts;

	tx->type = cursor_u8(c, "RingCT type");
	if (tx->type > TX_BULLETPROOF_PLUS)
		cursor_fail_at(c, start, "RingCT type", "is none of 0 to 6");
	if (tx->miner != (tx->type == TX_NULL))
		cursor_fail_at(c, start, "RingCT type",
		    tx->miner ? "of a miner transaction is not 0"
			      : "is 0 outside a miner transaction");
	if (tx->type == TX_NULL)
		return;
	tx->fee = cursor_varint(c, "fee");
	if (tx->type == TX_SIMPLE)
		cursor_take(c, tx->n_inputs, TX_KEY_SIZE, "pseudo outputs");
	short_amounts = tx->type >= TX_BULLETPROOF2;
	cursor_take(c, tx->n_outputs, short_amounts ? 8 : 2 * TX_KEY_SIZE, "encrypted amounts");
	tx->commitments = cursor_take(c, tx->n_outputs, TX_KEY_SIZE, "commitments");
}

void tx_parse_pruned(struct cursor *c, bool miner, struct tx *tx)
{
	size_t start = c->pos, base;

	memset(tx, 0, sizeof(*tx));
	tx->miner = miner;
	parse_prefix(c, tx);
	base = c->pos;
	if (tx->version == 2)
		parse_base(c, tx);
	tx->base = cursor_since(c, base);
	tx->pruned = cursor_since(c, start);
	/* Whoever fails to ask must not find counts without their bytes. */
	if (!cursor_ok(c))
		memset(tx, 0, sizeof(*tx));
}

/* Version 1: a pair of scalars for each ring member of each input. */
static void parse_ring_signatures(struct cursor *c, const struct tx *tx)
{
	struct cursor inputs;

	cursor_init(&inputs, tx->inputs.p, tx->inputs.n, 0);
	for (size_t i = 0; i < tx->n_inputs && cursor_ok(c); i++) {
		struct tx_input in;

		tx_read_input(&inputs, &in);
		cursor_take(c, in.ring, SIGNATURE, "ring signature");
	}
}

static void parse_one_proof(struct cursor *c, struct tx *tx)
{
	bool plus = tx->type == TX_BULLETPROOF_PLUS;
	size_t start = c->pos, l, r;

	cursor_take(c, 6, TX_KEY_SIZE, "range proof");
	l = cursor_count(c, TX_KEY_SIZE, "length of L");
	cursor_take(c, l, TX_KEY_SIZE, "L of a range proof");
	r = cursor_count(c, TX_KEY_SIZE, "length of R");
	cursor_take(c, r, TX_KEY_SIZE, "R of a range proof");
	if (!plus)
		cursor_take(c, 3, TX_KEY_SIZE, "end of a range proof");
	if (!cursor_ok(c))
		return;
	if (l != r || l < PROOF_BITS || l > PROOF_BITS + PROOF_OUTPUTS) {
		cursor_fail_at(c, start, "range proof", "has L and R of impossible lengths");
		return;
	}
	tx->padded += (size_t)1 << (l - PROOF_BITS);
}

static void parse_range_proofs(struct cursor *c, struct tx *tx)
{
	size_t start = c->pos, n;

	if (tx->type < TX_BULLETPROOF) {
		cursor_take(c, tx->n_outputs, BORROMEAN, "range signatures");
		return;
	}
	if (tx->type == TX_BULLETPROOF)
		n = cursor_u32(c, "number of range proofs");
	else
		n = cursor_count(c, 8 * TX_KEY_SIZE, "number of range proofs");
	tx->padded = 0;
	for (size_t i = 0; i < n && cursor_ok(c); i++)
		parse_one_proof(c, tx);
	if (cursor_ok(c) && (n > tx->n_outputs || tx->padded < tx->n_outputs))
		cursor_fail_at(c, start, "range proofs", "do not fit the number of outputs");
}

/* The ring signatures of RingCT: scalars per ring member, and what ends each signature. */
static void parse_rct_signatures(struct cursor *c, const struct tx *tx)
{
	size_t n = tx->type == TX_FULL ? 1 : tx->n_inputs, per_member, end;

	switch (tx->type) {
	case TX_FULL:
		per_member = tx->n_inputs + 1;
		end = 1;
		break;
	case TX_CLSAG:
	case TX_BULLETPROOF_PLUS:
		per_member = 1;
		end = 2;
		break;
	default:
		per_member = 2;
		end = 1;
		break;
	}
	for (size_t i = 0; i < n && cursor_ok(c); i++) {
		cursor_take(c, tx->ring, per_member * TX_KEY_SIZE, "RingCT signature");
		cursor_take(c, end, TX_KEY_SIZE, "end of a RingCT signature");
	}
	if (tx->type >= TX_BULLETPROOF)
		cursor_take(c, tx->n_inputs, TX_KEY_SIZE, "pseudo outputs");
}

void tx_parse_prunable(struct cursor *c, struct tx *tx)
{
	size_t start = c->pos;

	if (tx->version == 1) {
		parse_ring_signatures(c, tx);
	} else if (tx->type != TX_NULL) {
		parse_range_proofs(c, tx);
		parse_rct_signatures(c, tx);
	}
	tx->prunable = cursor_since(c, start);
	if (!cursor_ok(c))
		memset(tx, 0, sizeof(*tx));
}

void tx_parse(struct cursor *c, bool miner, struct tx *tx)
{
	tx_parse_pruned(c, miner, tx);
	if (cursor_ok(c))
		tx_parse_prunable(c, tx);
}

uint64_t tx_weight(const struct tx *tx)
{
	uint64_t bytes = tx->pruned.n + tx->prunable.n;
	uint64_t fixed = tx->type == TX_BULLETPROOF_PLUS ? 6 : 9;
	uint64_t half, proof, rounds = PROOF_BITS;

	if (tx->padded <= 2)
		return bytes;
	/* Elements of half a proof for two outputs, against those of the one proof for all. */
	while (((uint64_t)1 << (rounds - PROOF_BITS)) < tx->padded)
		rounds++;
	half = TX_KEY_SIZE * (fixed + 2 * (PROOF_BITS + 1)) / 2;
	proof = TX_KEY_SIZE * (fixed + 2 * rounds);
	return bytes + (half * tx->padded - proof) * 4 / 5;
}

void key_images_begin(struct key_images *k, const struct tx *tx)
{
	*k = (struct key_images){ .n = tx->miner ? 0 : tx->n_inputs };
	cursor_init(&k->c, tx->inputs.p, tx->inputs.n, 0);
}

const uint8_t *key_images_next(struct key_images *k)
{
	struct tx_input in;

	if (k->i == k->n)
		return NULL;
	tx_read_input(&k->c, &in);
	k->i++;
	return in.key_image;
}
