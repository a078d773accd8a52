/* SPDX-License-Identifier: BSD-2-Clause
 *
 * block.c - see block.h.
 */
#include "block.h"

#include <string.h>

static void parse_header(struct cursor *c, struct block *b)
{
	size_t start = c->pos;

	b->major = cursor_varint(c, "block major version");
	b->minor = cursor_varint(c, "block minor version");
	b->timestamp = cursor_varint(c, "block timestamp");
	b->prev = cursor_take(c, 1, TX_KEY_SIZE, "previous block's hash").p;
	b->nonce = cursor_u32(c, "block nonce");
	b->header = cursor_since(c, start);
	if (cursor_ok(c) && (b->major == 0 || b->major > UINT8_MAX))
		cursor_fail_at(c, start, "block major version", "is not within 1 to 255");
}

void block_parse(struct cursor *c, struct block *b)
{
	size_t start = c->pos;

	memset(b, 0, sizeof(*b));
	parse_header(c, b);
	tx_parse(c, true, &b->miner);
	b->n_txs = cursor_count(c, TX_KEY_SIZE, "number of transaction hashes");
	b->hashes = cursor_take(c, b->n_txs, TX_KEY_SIZE, "transaction hashes");
	b->blob = cursor_since(c, start);
	if (!cursor_ok(c))
		memset(b, 0, sizeof(*b));
}

const uint8_t *block_peek_prev(struct span start)
{
	struct cursor c;
	struct span prev;

	cursor_init(&c, start.p, start.n, 0);
	for (int i = 0; i < 3; i++)
		cursor_varint(&c, "header");
	prev = cursor_take(&c, 1, TX_KEY_SIZE, "header");
	return cursor_ok(&c) ? prev.p : NULL;
}
