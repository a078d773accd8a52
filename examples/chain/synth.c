/* SPDX-License-Identifier: BSD-2-Clause
 *
 * synth.c - see synth.h.
 */
#include "synth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"
#include "export.h"
#include "package.h"
#include "rng.h"
#include "synth_shape.h"
#include "varint.h"

#define FORK	       16
#define RING	       16
#define UNSPENDABLE    10 /* blocks before an output may be a ring member */
#define FIRST_TIME     1660000000
#define DIFFICULTY     300000000000
#define FEE_PER_BYTE   20000
#define TAIL_REWARD    600000000000
#define EMISSION_SHIFT 19

/* The logarithm of a decoy's age in seconds. */
#define AGE_MEAN      11.98
#define AGE_DEVIATION 2.73

struct buffer {
	uint8_t *p;
	size_t n, cap;
};

struct synth {
	const struct synth_options *opt;
	FILE *f;
	struct synth_result *result;
	struct rng rng;
	struct block_shape shape;
	struct buffer miner, txs, hashes, body;
	struct tip tip;
	uint64_t blocks; /* to be made */
	uint64_t time;
	uint64_t outputs;		   /* under amount 0, so far */
	uint64_t old_outputs[UNSPENDABLE]; /* the same, some blocks ago; block h at h % 10 */
	bool no_memory;
};

/* Room for n more bytes; NULL when there is no memory, which is noted. */
static uint8_t *room(struct synth *s, struct buffer *b, size_t n)
{
	if (b->cap - b->n < n) {
		size_t cap = (b->n + n) * 2;
		uint8_t *more = realloc(b->p, cap);

		if (!more) {
			s->no_memory = true;
			return NULL;
		}
		b->p = more;
		b->cap = cap;
	}
	b->n += n;
	return b->p + b->n - n;
}

static void put(struct synth *s, struct buffer *b, const void *data, size_t n)
{
	uint8_t *p = n > 0 ? room(s, b, n) : NULL;

	if (p)
		memcpy(p, data, n);
}

static void put_byte(struct synth *s, struct buffer *b, uint8_t v)
{
	put(s, b, &v, 1);
}

static void put_varint(struct synth *s, struct buffer *b, uint64_t v)
{
	uint8_t bytes[VARINT_MAX];

	put(s, b, bytes, varint_put(bytes, v));
}

static void put_random(struct synth *s, struct buffer *b, size_t n)
{
	uint8_t *p = room(s, b, n);

	if (p)
		rng_fill(&s->rng, p, n);
}

/* ---- a transaction ---- */

static int ascending(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* One member of a ring, of the first `limit` outputs. */
static uint64_t draw_member(struct synth *s, uint64_t limit)
{
	double rate = (double)s->outputs / (double)(s->time - FIRST_TIME + 1);
	double back = exp(rng_normal(&s->rng, AGE_MEAN, AGE_DEVIATION)) * rate;

	/* Older than the chain, as some always are. */
	if (back >= (double)limit)
		return rng_below(&s->rng, limit);
	return limit - 1 - (uint64_t)back;
}

/* Different ones, ascending. False: the last one would be too young. */
static bool draw_ring(struct synth *s, uint64_t limit, uint64_t member[RING])
{
	for (int i = 0; i < RING; i++)
		member[i] = draw_member(s, limit);
	qsort(member, RING, sizeof(*member), ascending);
	/* In place of one that is there already, its next younger neighbour. */
	for (int i = 1; i < RING; i++)
		if (member[i] <= member[i - 1])
			member[i] = member[i - 1] + 1;
	return member[RING - 1] < limit;
}

/* Ring offsets: the first index, then the distance to each next one. */
static void put_ring(struct synth *s, uint64_t limit)
{
	uint64_t member[RING], last = 0;

	while (!draw_ring(s, limit, member))
		;
	for (int i = 0; i < RING; i++) {
		put_varint(s, &s->txs, member[i] - last);
		last = member[i];
	}
}

static void put_extra(struct synth *s, struct buffer *b, size_t outputs)
{
	/* A key; with two outputs an encrypted payment id, with more a key for each. */
	put_varint(s, b, 33 + (outputs == 2 ? 11 : 2 + 32 * outputs));
	put_byte(s, b, 1);
	put_random(s, b, 32);
	if (outputs == 2) {
		static const uint8_t payment_id[] = { 2, 9, 1 };

		put(s, b, payment_id, sizeof(payment_id));
		put_random(s, b, 8);
		return;
	}
	put_byte(s, b, 4);
	put_varint(s, b, outputs);
	put_random(s, b, 32 * outputs);
}

static void put_prefix(struct synth *s, const struct tx_shape_drawn *t, uint64_t limit)
{
	struct buffer *b = &s->txs;

	put_varint(s, b, 2);
	put_varint(s, b, 0);
	put_varint(s, b, t->inputs);
	for (unsigned i = 0; i < t->inputs; i++) {
		put_byte(s, b, 2);
		put_varint(s, b, 0);
		put_varint(s, b, RING);
		put_ring(s, limit);
		put_random(s, b, 32);
	}
	put_varint(s, b, t->outputs);
	for (unsigned i = 0; i < t->outputs; i++) {
		put_varint(s, b, 0);
		put_byte(s, b, 3);
		put_random(s, b, 33);
	}
	put_extra(s, b, t->outputs);
}

static void put_tx(struct synth *s, const struct tx_shape_drawn *t, uint64_t limit)
{
	struct buffer *b = &s->txs;
	size_t rounds = 6;

	while ((size_t)1 << (rounds - 6) < t->outputs)
		rounds++;
	put_prefix(s, t, limit);
	put_byte(s, b, TX_BULLETPROOF_PLUS);
	put_varint(s, b, shape_tx_bytes(t) * FEE_PER_BYTE * t->fee_factor);
	put_random(s, b, (8 + 32) * (size_t)t->outputs);
	put_varint(s, b, 1);
	put_random(s, b, 6 * 32);
	put_varint(s, b, rounds);
	put_random(s, b, rounds * 32);
	put_varint(s, b, rounds);
	put_random(s, b, rounds * 32);
	put_random(s, b, t->inputs * (size_t)(RING + 2) * 32);
	put_random(s, b, t->inputs * (size_t)32);
}

/* Parses what was just made: for its weight, its fee and its hash. */
static int take_in(struct synth *s, const uint8_t *p, size_t n, bool miner, uint8_t hash[HASH_SIZE],
    struct tx *tx, struct chain_error *err)
{
	uint8_t prunable[HASH_SIZE];
	struct cursor c;

	if (s->no_memory)
		return chain_fail(err, CHAIN_SYSTEM, "no memory for a block");
	cursor_init(&c, p, n, 0);
	tx_parse(&c, miner, tx);
	cursor_end(&c, "transaction");
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_DAMAGED, &c);
	hash_prunable(tx, prunable);
	hash_tx(tx, prunable, hash);
	return 0;
}

/* The transactions of the block, with their hashes; adds to *weight and *fees. */
static int make_txs(struct synth *s, uint64_t *weight, uint64_t *fees, struct chain_error *err)
{
	uint64_t limit = s->old_outputs[s->tip.height % UNSPENDABLE];

	s->txs.n = s->hashes.n = 0;
	for (size_t i = 0; i < s->shape.n; i++) {
		size_t start = s->txs.n;
		uint8_t hash[HASH_SIZE];
		struct tx tx;

		put_tx(s, &s->shape.txs[i], limit);
		if (take_in(s, s->txs.p + start, s->txs.n - start, false, hash, &tx, err))
			return -1;
		put(s, &s->hashes, hash, sizeof(hash));
		*weight += tx_weight(&tx);
		*fees += tx.fee;
		s->result->inputs += tx.n_inputs;
	}
	s->result->txs += s->shape.n;
	return 0;
}

/* ---- a block ---- */

/* Block 0 of every Monero network, without its trailer: header, miner transaction, no hashes. */
static const uint8_t genesis[] = { 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x27, 0x00, 0x00, 0x01, 0x3c,
	0x01, 0xff, 0x00, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x03, 0x02, 0x9b, 0x2e, 0x4c,
	0x02, 0x81, 0xc0, 0xb0, 0x2e, 0x7c, 0x53, 0x29, 0x1a, 0x94, 0xd1, 0xd0, 0xcb, 0xff, 0x88,
	0x83, 0xf8, 0x02, 0x4f, 0x51, 0x42, 0xee, 0x49, 0x4f, 0xfb, 0xbd, 0x08, 0x80, 0x71, 0x21,
	0x01, 0x77, 0x67, 0xaa, 0xfc, 0xde, 0x9b, 0xe0, 0x0d, 0xcf, 0xd0, 0x98, 0x71, 0x5e, 0xbc,
	0xf7, 0xf4, 0x10, 0xda, 0xeb, 0xc5, 0x82, 0xfd, 0xa6, 0x9d, 0x24, 0xa2, 0x8e, 0x9d, 0x0b,
	0xc8, 0x90, 0xd1, 0x00 };
#define GENESIS_WEIGHT 80
#define GENESIS_COINS  17592186044415

static void put_miner(struct synth *s, uint64_t paid)
{
	struct buffer *b = &s->miner;

	b->n = 0;
	put_varint(s, b, 2);
	put_varint(s, b, s->tip.height + 60);
	put_varint(s, b, 1);
	put_byte(s, b, 0xff);
	put_varint(s, b, s->tip.height);
	put_varint(s, b, 1);
	put_varint(s, b, paid);
	put_byte(s, b, 3);
	put_random(s, b, 33);
	put_varint(s, b, 33);
	put_byte(s, b, 1);
	put_random(s, b, 32);
	put_byte(s, b, TX_NULL);
}

static uint64_t next_reward(const struct synth *s)
{
	uint64_t reward = (UINT64_MAX - s->tip.coins) >> EMISSION_SHIFT;

	return reward < TAIL_REWARD ? TAIL_REWARD : reward;
}

static void put_block(struct synth *s)
{
	struct buffer *b = &s->body;
	uint8_t nonce[4];

	put_varint(s, b, FORK);
	put_varint(s, b, FORK);
	put_varint(s, b, s->time);
	put(s, b, s->tip.hash, HASH_SIZE);
	put(s, b, nonce, u32_put(nonce, (uint32_t)rng_next(&s->rng)));
	put(s, b, s->miner.p, s->miner.n);
	put_varint(s, b, s->shape.n);
	put(s, b, s->hashes.p, s->hashes.n);
}

/* All of the package but the hash of the block. */
static int make_body(struct synth *s, struct chain_error *err)
{
	uint64_t weight = 0, fees = 0, reward = next_reward(s), coins;
	uint8_t hash[HASH_SIZE];
	struct tx miner;

	s->body.n = 0;
	if (s->tip.height == 0) {
		put(s, &s->body, genesis, sizeof(genesis));
		weight = GENESIS_WEIGHT;
		coins = GENESIS_COINS;
		s->txs.n = 0;
	} else {
		if (make_txs(s, &weight, &fees, err))
			return -1;
		put_miner(s, reward + fees);
		if (take_in(s, s->miner.p, s->miner.n, true, hash, &miner, err))
			return -1;
		weight += tx_weight(&miner);
		coins = s->tip.coins + reward;
		put_block(s);
	}
	put_varint(s, &s->body, s->shape.n);
	put(s, &s->body, s->txs.p, s->txs.n);
	put_varint(s, &s->body, weight);
	put_varint(s, &s->body, 0);
	put_varint(s, &s->body, s->tip.difficulty_low + DIFFICULTY);
	put_varint(s, &s->body, coins);
	return s->no_memory ? chain_fail(err, CHAIN_SYSTEM, "no memory for a block") : 0;
}

static int write_out(struct synth *s, const void *data, size_t n, struct chain_error *err)
{
	if (fwrite(data, 1, n, s->f) != n)
		return chain_fail(err, CHAIN_SYSTEM, "cannot write: %s", strerror(errno));
	s->result->bytes += n;
	return 0;
}

/* Parses the body for its hash; the tip moves on. */
static int next_tip(struct synth *s, struct chain_error *err)
{
	struct span body = { s->body.p, s->body.n };
	uint8_t miner[HASH_SIZE];
	struct cursor c;
	struct block b;

	cursor_init(&c, body.p, body.n, 0);
	block_parse(&c, &b);
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_DAMAGED, &c);
	hash_prunable(&b.miner, miner);
	hash_tx(&b.miner, miner, miner);
	/* The transactions are in the file: their bytes are of no more use. */
	s->txs.n = 0;
	if (!room(s, &s->txs, (b.n_txs + 1) * HASH_SIZE))
		return chain_fail(err, CHAIN_SYSTEM, "no memory for a block");
	hash_block(&b, miner, s->txs.p, s->tip.hash);
	s->tip.coins += s->tip.height ? next_reward(s) : GENESIS_COINS;
	s->tip.difficulty_low += DIFFICULTY;
	s->tip.height++;
	return 0;
}

static int make_block(struct synth *s, struct chain_error *err)
{
	uint64_t height = s->tip.height;
	uint8_t length[4];

	shape_draw(&s->shape, s->opt->seed, height, s->opt->txs);
	rng_init(&s->rng, s->opt->seed, 2 * height + 1);
	s->time += s->shape.seconds;
	if (make_body(s, err))
		return -1;
	if (s->body.n > BOOTSTRAP_CHUNK_MAX)
		return chain_fail(err, CHAIN_DAMAGED, "a block of %zu bytes", s->body.n);
	if (write_out(s, length, u32_put(length, (uint32_t)s->body.n), err) ||
	    write_out(s, s->body.p, s->body.n, err) || next_tip(s, err))
		return -1;
	/* Genesis has a public amount. */
	s->old_outputs[height % UNSPENDABLE] = s->outputs;
	if (height > 0)
		s->outputs += shape_outputs(&s->shape);
	s->result->outputs += shape_outputs(&s->shape);
	s->result->blocks++;
	if (s->opt->progress && !s->opt->progress(s->opt->ctx, s->tip.height, s->blocks))
		return chain_fail(err, CHAIN_REFUSED, "stopped at block %llu of %llu",
		    (unsigned long long)s->tip.height, (unsigned long long)s->blocks);
	return 0;
}

/* How many blocks it takes: shapes alone are quickly drawn. */
static uint64_t plan(struct synth *s)
{
	uint64_t outputs = 0, height = 0;

	if (s->opt->blocks)
		return s->opt->blocks;
	for (; outputs < s->opt->outputs; height++) {
		shape_draw(&s->shape, s->opt->seed, height, s->opt->txs);
		outputs += shape_outputs(&s->shape);
	}
	return height;
}

static int make_file(struct synth *s, struct chain_error *err)
{
	uint8_t header[BOOTSTRAP_HEADER_SIZE];

	s->blocks = plan(s);
	if (s->blocks == 0)
		return chain_fail(err, CHAIN_REFUSED, "a chain needs a block at least");
	bootstrap_header(0, s->blocks - 1, header);
	if (write_out(s, header, sizeof(header), err))
		return -1;
	while (s->tip.height < s->blocks)
		if (make_block(s, err))
			return -1;
	if (fflush(s->f))
		return chain_fail(err, CHAIN_SYSTEM, "cannot write: %s", strerror(errno));
	return 0;
}

int chain_synth(
    const struct synth_options *opt, FILE *f, struct synth_result *result, struct chain_error *err)
{
	struct synth *s = calloc(1, sizeof(*s));
	int rc;

	*result = (struct synth_result){ 0 };
	if (!s)
		return chain_fail(err, CHAIN_SYSTEM, "no memory for a generator");
	s->opt = opt;
	s->f = f;
	s->result = result;
	s->time = FIRST_TIME;
	rc = make_file(s, err);
	free(s->miner.p);
	free(s->txs.p);
	free(s->hashes.p);
	free(s->body.p);
	free(s);
	return rc;
}
