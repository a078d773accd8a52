/* SPDX-License-Identifier: BSD-2-Clause
 *
 * package.c - see package.h.
 */
#include "package.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A transaction has a version, an unlock time, an input, an output and a type at least; the count
 * is bounded by the hashes anyway. */
#define TX_MIN 8

/* p, or a larger copy of it, with room for n elements; NULL if there is no memory (p stays). */
static void *grown(void *p, size_t *cap, size_t n, size_t size)
{
	size_t want = *cap ? *cap : 16;

	if (n <= *cap)
		return p;
	while (want < n)
		want *= 2;
	p = reallocarray(p, want, size);
	if (p)
		*cap = want;
	return p;
}

static int reserve_hashes(struct package *p, size_t n)
{
	size_t cap = p->hashes_cap, same = cap;
	uint8_t *q;

	q = grown(p->scratch, &cap, n, HASH_SIZE);
	if (!q)
		return -1;
	p->scratch = q;
	q = grown(p->prunable_hashes, &same, n, HASH_SIZE);
	if (!q)
		return -1;
	p->prunable_hashes = q;
	p->hashes_cap = same;
	return 0;
}

int package_reserve(struct package *p, size_t n, struct chain_error *err)
{
	/* One more: NULL then always means no memory, and the tree of hashes has the miner's, too. */
	struct tx *txs = grown(p->txs, &p->txs_cap, n + 1, sizeof(*p->txs));

	if (txs)
		p->txs = txs;
	if (!txs || reserve_hashes(p, n + 1))
		return chain_fail(err, CHAIN_SYSTEM, "no memory for %zu transactions", n);
	return 0;
}

static void parse_trailer(struct package *p, struct cursor *c, uint8_t format_major)
{
	p->weight = cursor_varint(c, "block weight");
	p->difficulty_high = 0;
	if (format_major > 0)
		p->difficulty_high = cursor_varint(c, "cumulative difficulty, high half");
	p->difficulty_low = cursor_varint(c, "cumulative difficulty");
	p->coins = cursor_varint(c, "coins generated");
	cursor_end(c, "block package");
}

int package_parse(struct package *p, struct span body, uint64_t offset, uint8_t format_major,
    struct chain_error *err)
{
	struct cursor c;
	size_t n, at;

	cursor_init(&c, body.p, body.n, offset);
	p->offset = offset;
	block_parse(&c, &p->block);
	at = c.pos;
	n = cursor_count(&c, TX_MIN, "number of transactions");
	if (cursor_ok(&c) && n != p->block.n_txs)
		cursor_fail_at(&c, at, "number of transactions", "is not the number of hashes");
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_INPUT, &c);
	if (package_reserve(p, n, err))
		return -1;
	for (size_t i = 0; i < n && cursor_ok(&c); i++)
		tx_parse(&c, false, &p->txs[i]);
	parse_trailer(p, &c, format_major);
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_INPUT, &c);
	return 0;
}

__attribute__((format(printf, 3, 4))) static int reject(
    const struct package *p, struct chain_error *err, const char *fmt, ...)
{
	char why[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (p->offset == PACKAGE_STORED)
		return chain_fail(
		    err, CHAIN_DAMAGED, "block %" PRIu64 " %s", p->block.miner.height, why);
	return chain_fail(err, CHAIN_INPUT,
	    "offset %" PRIu64 " (0x%" PRIx64 "): block %" PRIu64 " %s", p->offset, p->offset,
	    p->block.miner.height, why);
}

int package_hash(struct package *p, struct chain_error *err)
{
	/* The miner's is in no list: it is what the tree starts with. */
	const struct block *b = &p->block;
	uint8_t none[HASH_SIZE];

	hash_prunable(&b->miner, none);
	hash_tx(&b->miner, none, p->miner_hash);
	for (size_t i = 0; i < b->n_txs; i++) {
		uint8_t *prunable = p->prunable_hashes + i * HASH_SIZE;
		const uint8_t *listed = b->hashes.p + i * HASH_SIZE;
		uint8_t hash[HASH_SIZE];
		char hex[HEX_SIZE];

		/* What is not there has its hash in a table. */
		if (!p->txs[i].stub)
			hash_prunable(&p->txs[i], prunable);
		hash_tx(&p->txs[i], prunable, hash);
		if (memcmp(hash, listed, HASH_SIZE) != 0)
			return reject(p, err,
			    "has a transaction (number %zu) that is not the %s listed", i,
			    chain_hex(listed, hex));
	}
	hash_block(b, p->miner_hash, p->scratch, p->hash);
	return 0;
}

/* What the miner paid himself beyond the fees is new, up to all the coins there can be. */
static int check_coins(const struct package *p, const struct tip *tip, struct chain_error *err)
{
	uint64_t fees = 0, paid = p->block.miner.out_amount, coins;

	for (size_t i = 0; i < p->block.n_txs; i++)
		if (__builtin_add_overflow(fees, p->txs[i].fee, &fees))
			return reject(p, err, "has fees of more than 64 bits");
	if (paid < fees)
		return reject(p, err, "pays %" PRIu64 " but takes fees of %" PRIu64, paid, fees);
	if (__builtin_add_overflow(tip->coins, paid - fees, &coins))
		coins = UINT64_MAX;
	if (p->coins != coins)
		return reject(p, err,
		    "is said to bring the coins to %" PRIu64 ", but they come to %" PRIu64,
		    p->coins, coins);
	return 0;
}

static int check_trailer(const struct package *p, const struct tip *tip, struct chain_error *err)
{
	uint64_t weight = tx_weight(&p->block.miner);
	bool whole = true;

	for (size_t i = 0; i < p->block.n_txs; i++) {
		weight += tx_weight(&p->txs[i]);
		whole = whole && !p->txs[i].stub;
	}
	/* Nobody knows what a stub weighed. */
	if (whole && p->weight != weight)
		return reject(
		    p, err, "is said to weigh %" PRIu64 ", but weighs %" PRIu64, p->weight, weight);
	if (p->difficulty_high < tip->difficulty_high ||
	    (p->difficulty_high == tip->difficulty_high &&
		p->difficulty_low <= tip->difficulty_low))
		return reject(p, err, "does not add to the cumulative difficulty");
	return check_coins(p, tip, err);
}

int package_check(struct package *p, const struct tip *tip, struct chain_error *err)
{
	static const uint8_t before_genesis[HASH_SIZE];
	const uint8_t *prev = tip->height ? tip->hash : before_genesis;
	char has[HEX_SIZE];

	if (p->block.miner.height != tip->height)
		return reject(p, err, "stands where block %" PRIu64 " belongs", tip->height);
	if (memcmp(p->block.prev, prev, HASH_SIZE) != 0)
		return reject(p, err, "follows %s, which is not the block before it",
		    chain_hex(p->block.prev, has));
	if (package_hash(p, err))
		return -1;
	return check_trailer(p, tip, err);
}

struct tip package_tip(const struct package *p)
{
	struct tip tip = {
		.height = p->block.miner.height + 1,
		.difficulty_high = p->difficulty_high,
		.difficulty_low = p->difficulty_low,
		.coins = p->coins,
	};

	memcpy(tip.hash, p->hash, HASH_SIZE);
	return tip;
}

void package_finish(struct package *p)
{
	free(p->txs);
	free(p->prunable_hashes);
	free(p->scratch);
	memset(p, 0, sizeof(*p));
}
