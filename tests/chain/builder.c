/* SPDX-License-Identifier: BSD-2-Clause
 *
 * builder.c - transactions, blocks and files made by hand, for what the real files do not have. The
 * layout is written down here a second time, from the description and not from the parser.
 */
#include <string.h>

#include "support.h"

static void byte(struct buf *b, unsigned v)
{
	uint8_t c = (uint8_t)v;

	buf_put(b, &c, 1);
}

static void put_key_input(struct buf *b, const struct tx_shape *s, const uint8_t *key_image)
{
	byte(b, 2);
	buf_varint(b, s->in_amount);
	buf_varint(b, s->ring);
	for (unsigned i = 0; i < s->ring; i++)
		buf_varint(b, 1 + test_random() % 100000);
	if (key_image)
		buf_put(b, key_image, 32);
	else
		buf_random(b, 32);
}

static void put_prefix(struct buf *b, const struct tx_shape *s)
{
	buf_varint(b, s->version);
	buf_varint(b, 0);
	buf_varint(b, s->inputs);
	for (unsigned i = 0; i < s->inputs; i++)
		put_key_input(b, s, i == 0 ? s->key_image : NULL);
	buf_varint(b, s->outputs);
	for (unsigned i = 0; i < s->outputs; i++) {
		/* Every other output carries a view tag. */
		buf_varint(b, s->out_amount);
		byte(b, i % 2 ? 3 : 2);
		buf_random(b, 32);
		if (i % 2)
			byte(b, 0xab);
	}
	buf_varint(b, 5);
	buf_random(b, 5);
}

unsigned proof_bits(const struct tx_shape *s)
{
	unsigned proofs = s->proofs ? s->proofs : 1, bits = 0;

	while (proofs << bits < s->outputs)
		bits++;
	return bits;
}

static void put_proofs(struct buf *b, const struct tx_shape *s)
{
	unsigned n = s->proofs ? s->proofs : 1, rounds = 6 + proof_bits(s);

	if (s->type == 1 || s->type == 2) {
		buf_random(b, (size_t)s->outputs * 6176);
		return;
	}
	if (s->type == 3)
		buf_u32(b, n);
	else
		buf_varint(b, n);
	for (unsigned i = 0; i < n; i++) {
		buf_random(b, 6 * 32);
		buf_varint(b, rounds);
		buf_random(b, (size_t)rounds * 32);
		buf_varint(b, rounds);
		buf_random(b, (size_t)rounds * 32);
		if (s->type != 6)
			buf_random(b, 3 * 32);
	}
}

static void put_rct(struct buf *b, const struct tx_shape *s)
{
	byte(b, s->type);
	buf_varint(b, s->fee);
	if (s->type == 2)
		buf_random(b, (size_t)s->inputs * 32);
	buf_random(b, (size_t)s->outputs * (s->type >= 4 ? 8 : 64));
	buf_random(b, (size_t)s->outputs * 32);

	put_proofs(b, s);
	if (s->type == 1)
		buf_random(b, (size_t)s->ring * (s->inputs + 1) * 32 + 32);
	else if (s->type <= 4)
		buf_random(b, (size_t)s->inputs * (s->ring * 2 * 32 + 32));
	else
		buf_random(b, (size_t)s->inputs * (s->ring * 32 + 32 + 32));
	if (s->type >= 3)
		buf_random(b, (size_t)s->inputs * 32);
}

void build_tx(struct buf *b, const struct tx_shape *s)
{
	put_prefix(b, s);
	if (s->version == 1)
		buf_random(b, (size_t)s->inputs * s->ring * 64);
	else
		put_rct(b, s);
}

void build_miner(struct buf *b, unsigned version, uint64_t height, uint64_t amount)
{
	buf_varint(b, version);
	buf_varint(b, height + 60);
	buf_varint(b, 1);
	byte(b, 0xff);
	buf_varint(b, height);
	buf_varint(b, 1);
	buf_varint(b, amount);
	byte(b, version == 1 ? 2 : 3);
	buf_random(b, version == 1 ? 32 : 33);
	buf_varint(b, 3);
	buf_random(b, 3);
	if (version == 2)
		byte(b, 0);
}

void builder_start(struct chain_builder *c, uint8_t format_major)
{
	static const uint8_t magic[] = { 0x86, 0x15, 0x72, 0x28 };
	uint8_t fill[1024] = { 0 };

	memset(c, 0, sizeof(*c));
	c->format_major = format_major;
	buf_put(&c->file, magic, sizeof(magic));
	buf_u32(&c->file, 4);
	byte(&c->file, format_major);
	byte(&c->file, 0);
	buf_varint(&c->file, 1024);
	buf_u32(&c->file, 3);
	buf_put(&c->file, fill, 3);
	buf_put(&c->file, fill, 4 + 1024 - c->file.n);
}

/* Hash and weight of the transaction in b, through the parser under test: those are checked against
 * real chains elsewhere. */
static uint64_t weigh(const struct buf *b, bool miner, uint8_t hash[32], uint64_t *fee)
{
	struct cursor c;
	struct tx tx;
	uint8_t prunable[32];

	cursor_init(&c, b->p, b->n, 0);
	tx_parse(&c, miner, &tx);
	cursor_end(&c, "transaction");
	if (!cursor_ok(&c))
		fail_msg("hand-made transaction at %zu: %s %s", (size_t)c.where, c.what, c.why);
	hash_prunable(&tx, prunable);
	hash_tx(&tx, prunable, hash);
	*fee = tx.fee;
	return tx_weight(&tx);
}

void builder_block(struct chain_builder *c, unsigned major, const struct tx_shape *shapes, size_t n)
{
	struct buf txs = { 0 }, hashes = { 0 }, miner = { 0 }, body = { 0 };
	uint64_t weight = 0, fees = 0, fee, reward = 600000000000;
	struct package p = { 0 };
	struct chain_error err = { 0 };
	uint8_t hash[32];

	for (size_t i = 0; i < n; i++) {
		struct buf tx = { 0 };

		build_tx(&tx, &shapes[i]);
		weight += weigh(&tx, false, hash, &fee);
		fees += fee;
		buf_put(&txs, tx.p, tx.n);
		buf_put(&hashes, hash, 32);
		buf_free(&tx);
	}
	build_miner(&miner, major < 4 ? 1 : 2, c->tip.height, reward + fees);
	weight += weigh(&miner, true, hash, &fee);

	buf_varint(&body, major);
	buf_varint(&body, major);
	buf_varint(&body, 1500000000 + c->tip.height * 120);
	buf_put(&body, c->tip.hash, 32);
	buf_u32(&body, (uint32_t)test_random());
	buf_put(&body, miner.p, miner.n);
	buf_varint(&body, n);
	buf_put(&body, hashes.p, hashes.n);
	buf_varint(&body, n);
	buf_put(&body, txs.p, txs.n);
	buf_varint(&body, weight);
	/* High half 1 from block 2 on, where the format has one. */
	if (c->format_major > 0)
		buf_varint(&body, c->tip.height >= 2);
	buf_varint(&body, c->tip.height + 1);
	buf_varint(&body, c->tip.coins + reward);

	assert_fine(
	    package_parse(&p, (struct span){ body.p, body.n }, 0, c->format_major, &err), &err);
	assert_fine(package_hash(&p, &err), &err);
	c->tip = package_tip(&p);
	buf_u32(&c->file, (uint32_t)body.n);
	buf_put(&c->file, body.p, body.n);
	package_finish(&p);
	buf_free(&txs);
	buf_free(&hashes);
	buf_free(&miner);
	buf_free(&body);
}

const struct tx_shape every_shape[] = {
	{ .version = 1,
	    .inputs = 3,
	    .outputs = 4,
	    .ring = 5,
	    .in_amount = 9000,
	    .out_amount = 6000 },
	{ .version = 1, .inputs = 1, .outputs = 1, .ring = 1, .in_amount = 70, .out_amount = 70 },
	{ .version = 2, .type = 1, .inputs = 2, .outputs = 2, .ring = 3, .fee = 10 },
	{ .version = 2, .type = 2, .inputs = 2, .outputs = 3, .ring = 5, .fee = 11 },
	{ .version = 2, .type = 3, .inputs = 1, .outputs = 2, .ring = 7, .fee = 12 },
	{ .version = 2, .type = 3, .inputs = 1, .outputs = 2, .ring = 7, .fee = 12, .proofs = 2 },
	{ .version = 2, .type = 4, .inputs = 2, .outputs = 5, .ring = 11, .fee = 13 },
	{ .version = 2, .type = 5, .inputs = 3, .outputs = 16, .ring = 11, .fee = 14 },
	{ .version = 2, .type = 6, .inputs = 1, .outputs = 2, .ring = 16, .fee = 15 },
	{ .version = 2, .type = 6, .inputs = 4, .outputs = 9, .ring = 16, .fee = 16 },
};
const size_t every_shape_count = sizeof(every_shape) / sizeof(every_shape[0]);
