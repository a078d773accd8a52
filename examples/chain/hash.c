/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hash.c - see hash.h.
 */
#include "hash.h"

#include <string.h>

#include "varint.h"

void hash_prunable(const struct tx *tx, uint8_t out[HASH_SIZE])
{
	keccak256(tx->prunable.p, tx->prunable.n, out);
}

void hash_tx(const struct tx *tx, const uint8_t prunable[HASH_SIZE], uint8_t out[HASH_SIZE])
{
	struct keccak k;
	uint8_t parts[3][HASH_SIZE];

	if (tx->version == 1) {
		keccak_init(&k);
		keccak_update(&k, tx->pruned.p, tx->pruned.n);
		keccak_update(&k, tx->prunable.p, tx->prunable.n);
		keccak_final(&k, out);
		return;
	}
	keccak256(tx->prefix.p, tx->prefix.n, parts[0]);
	keccak256(tx->base.p, tx->base.n, parts[1]);
	/* Not the hash of nothing, which the table of these hashes holds for the same transaction.
	 */
	if (tx->type == TX_NULL)
		memset(parts[2], 0, HASH_SIZE);
	else
		memcpy(parts[2], prunable, HASH_SIZE);
	keccak256(parts, sizeof(parts), out);
}

static void pair_up(const uint8_t *in, size_t pairs, uint8_t *out)
{
	/* In place (out == in) works: keccak256 has read a pair before it writes. */
	for (size_t i = 0; i < pairs; i++)
		keccak256(in + 2 * i * HASH_SIZE, 2 * HASH_SIZE, out + i * HASH_SIZE);
}

void hash_tree(const uint8_t first[HASH_SIZE], const uint8_t *rest, size_t n, uint8_t *scratch,
    uint8_t out[HASH_SIZE])
{
	size_t leaves = n + 1, width = 1;

	memcpy(scratch, first, HASH_SIZE);
	if (n > 0)
		memcpy(scratch + HASH_SIZE, rest, n * HASH_SIZE);
	if (leaves > 1) {
		size_t keep;

		/* The largest power of two below the number of leaves; so many nodes remain after
		 * the first step, which leaves the leaves at the front as they are. */
		while (width * 2 < leaves)
			width *= 2;
		keep = 2 * width - leaves;
		pair_up(scratch + keep * HASH_SIZE, width - keep, scratch + keep * HASH_SIZE);
		for (; width > 1; width /= 2)
			pair_up(scratch, width / 2, scratch);
	}
	memcpy(out, scratch, HASH_SIZE);
}

/* Main net's block 202612 had 514 transactions and met a bug in the tree hash of its day; the
 * network kept the hash it had got. The first is the hash of the block's bytes, the second the hash
 * it goes by (Monero, cryptonote_format_utils.cpp, calculate_block_hash). */
#define ODD_HEIGHT 202612
static const uint8_t odd_blob[HASH_SIZE] = { 0x3a, 0x8a, 0x2b, 0x3a, 0x29, 0xb5, 0x0f, 0xc8, 0x6f,
	0xf7, 0x3d, 0xd0, 0x87, 0xea, 0x43, 0xc6, 0xf0, 0xd6, 0xb8, 0xf9, 0x36, 0xc8, 0x49, 0x19,
	0x4d, 0x5c, 0x84, 0xc7, 0x37, 0x90, 0x39, 0x66 };
static const uint8_t odd_hash[HASH_SIZE] = { 0xbb, 0xd6, 0x04, 0xd2, 0xba, 0x11, 0xba, 0x27, 0x93,
	0x5e, 0x00, 0x6e, 0xd3, 0x9c, 0x9b, 0xfd, 0xd9, 0x9b, 0x76, 0xbf, 0x4a, 0x50, 0x65, 0x4b,
	0xc1, 0xe1, 0xe6, 0x12, 0x17, 0x96, 0x26, 0x98 };

static bool is_odd_block(const struct block *b)
{
	uint8_t blob[HASH_SIZE];

	if (b->miner.height != ODD_HEIGHT)
		return false;
	keccak256(b->blob.p, b->blob.n, blob);
	return memcmp(blob, odd_blob, HASH_SIZE) == 0;
}

void hash_block(
    const struct block *b, const uint8_t miner[HASH_SIZE], uint8_t *scratch, uint8_t out[HASH_SIZE])
{
	uint8_t root[HASH_SIZE], count[VARINT_MAX], length[VARINT_MAX];
	size_t count_len = varint_put(count, (uint64_t)b->n_txs + 1);
	size_t length_len = varint_put(length, b->header.n + HASH_SIZE + count_len);
	struct keccak k;

	if (is_odd_block(b)) {
		memcpy(out, odd_hash, HASH_SIZE);
		return;
	}
	hash_tree(miner, b->hashes.p, b->n_txs, scratch, root);
	keccak_init(&k);
	keccak_update(&k, length, length_len);
	keccak_update(&k, b->header.p, b->header.n);
	keccak_update(&k, root, HASH_SIZE);
	keccak_update(&k, count, count_len);
	keccak_final(&k, out);
}
