/* SPDX-License-Identifier: BSD-2-Clause
 *
 * chain.c - fuzz target: the parsers of examples/chain, as a file, as a block, as a transaction.
 *
 * What a parser accepts must hold together: spans within the input and adjacent, every input and
 * output readable again, and the same transaction from its two halves.
 */
#include "fuzz.h"

#include <string.h>

#include "bootstrap.h"
#include "package.h"

static void check_items(const struct tx *tx)
{
	struct cursor c;

	cursor_init(&c, tx->inputs.p, tx->inputs.n, 0);
	for (size_t i = 0; i < tx->n_inputs; i++) {
		struct tx_input in;

		tx_read_input(&c, &in);
		CHECK((in.ring == 0) == tx->miner);
	}
	cursor_end(&c, "inputs");
	CHECK(cursor_ok(&c));
	cursor_init(&c, tx->outputs.p, tx->outputs.n, 0);
	for (size_t i = 0; i < tx->n_outputs; i++) {
		struct tx_output out;

		tx_read_output(&c, &out);
	}
	cursor_end(&c, "outputs");
	CHECK(cursor_ok(&c));
}

static void check_tx(const struct tx *tx)
{
	struct cursor c;
	struct tx half;
	uint8_t prunable[HASH_SIZE], a[HASH_SIZE], b[HASH_SIZE];

	CHECK(tx->n_inputs > 0 && tx->n_outputs > 0);
	CHECK(tx->prefix.n + tx->base.n == tx->pruned.n);
	CHECK(tx->pruned.p + tx->pruned.n == tx->prunable.p);
	CHECK(tx_weight(tx) >= tx->pruned.n + tx->prunable.n);
	check_items(tx);
	cursor_init(&c, tx->pruned.p, tx->pruned.n, 0);
	tx_parse_pruned(&c, tx->miner, &half);
	cursor_end(&c, "pruned");
	CHECK(cursor_ok(&c));
	cursor_init(&c, tx->prunable.p, tx->prunable.n, 0);
	tx_parse_prunable(&c, &half);
	cursor_end(&c, "prunable");
	CHECK(cursor_ok(&c));
	hash_prunable(tx, prunable);
	hash_tx(tx, prunable, a);
	hash_tx(&half, prunable, b);
	CHECK(memcmp(a, b, HASH_SIZE) == 0);
}

static void as_tx(const uint8_t *data, size_t size)
{
	for (int miner = 0; miner < 2; miner++) {
		struct cursor c;
		struct tx tx;

		cursor_init(&c, data, size, 0);
		tx_parse(&c, miner, &tx);
		CHECK(c.pos <= c.len);
		if (cursor_ok(&c))
			check_tx(&tx);
		else
			CHECK(tx.n_inputs == 0 && tx.n_outputs == 0 && c.where <= size);
	}
}

static void as_package(struct package *p, const uint8_t *data, size_t size)
{
	struct chain_error err = { 0 };
	struct tip tip = { 0 };

	if (package_parse(p, (struct span){ data, size }, 0, 1, &err)) {
		CHECK(err.kind == CHAIN_INPUT && strstr(err.text, "offset "));
		return;
	}
	check_tx(&p->block.miner);
	for (size_t i = 0; i < p->block.n_txs; i++)
		check_tx(&p->txs[i]);
	tip.height = p->block.miner.height;
	memcpy(tip.hash, p->block.prev, HASH_SIZE);
	(void)package_check(p, &tip, &err);
}

static void as_file(struct package *p, const uint8_t *data, size_t size)
{
	struct chain_error err = { 0 };
	struct bootstrap b;
	struct chunk chunk;
	uint64_t chunks = 0, skipped = 0, counted, start;

	if (bootstrap_open_memory(&b, data, size, &err))
		return;
	start = b.offset;
	while (bootstrap_next(&b, &chunk, &err) > 0) {
		struct chain_error bad = { 0 };

		chunks++;
		(void)block_peek_prev(chunk.after);
		(void)package_parse(p, chunk.body, chunk.body_offset, b.major, &bad);
	}
	CHECK(b.offset <= size);
	b.offset = start;
	memset(&err, 0, sizeof(err));
	while (bootstrap_skip(&b, &err) > 0)
		skipped++;
	CHECK(chunks == skipped);
	/* The last one counts also if it is cut short. */
	b.offset = start;
	counted = bootstrap_count(&b);
	CHECK(counted == chunks || counted == chunks + 1);
	CHECK(b.offset == start);
	/* Of a file that grows, what is cut short is to come. */
	b.growing = true;
	memset(&err, 0, sizeof(err));
	while (bootstrap_next(&b, &chunk, &err) > 0)
		chunks--;
	CHECK(chunks == 0 && !strstr(err.text, "cut short"));
	bootstrap_close(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct package p = { 0 };

	as_tx(data, size);
	as_package(&p, data, size);
	as_file(&p, data, size);
	package_finish(&p);
	return 0;
}
