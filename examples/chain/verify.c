/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.c - see verify.h.
 */
#include "verify.h"

#include <inttypes.h>
#include <string.h>

#include "commitment.h"
#include "pool.h"
#include "prune.h"
#include "weight.h"

struct verify {
	struct reader r;
	struct package package;
	struct weight_window window;
	struct tip tip;
	uint64_t rows[CHAIN_TABLES]; /* called for so far */
	uint64_t rct_outputs;
};

static int damaged(struct verify *v, enum chain_table t, const char *what, uint64_t number,
    struct chain_error *err)
{
	return chain_fail(err, CHAIN_DAMAGED,
	    "block %" PRIu64 ": table %s does not have %s %" PRIu64 " as the block does",
	    v->tip.height, chain_table_name(t), what, number);
}

/* The row of t that sorts as the start of `want` is there and is equal to it. */
static int expect(struct verify *v, enum chain_table t, uint64_t key, size_t probe,
    const void *want, size_t n, const char *what, uint64_t number, struct chain_error *err)
{
	uint8_t row[sizeof(struct row_block_info)];
	int rc = reader_find(&v->r, t, key, want, probe, row, n, err);

	if (rc < 0)
		return -1;
	if (rc == 0 || memcmp(row, want, n) != 0)
		return damaged(v, t, what, number, err);
	v->rows[t]++;
	return 0;
}

static int check_output(struct verify *v, const struct tx *tx, size_t i,
    const struct tx_output *out, const uint8_t *hash, uint64_t index, struct chain_error *err)
{
	uint64_t id = v->rows[OUTPUT_TXS];
	uint64_t amount = tx->version == 1 ? out->amount : 0;
	struct row_output_tx place = { .output_id = id, .index = i };
	struct row_output row = { .index = index,
		.output_id = id,
		.unlock_time = tx->unlock_time,
		.height = v->tip.height };

	memcpy(place.tx_hash, hash, HASH_SIZE);
	memcpy(row.key, out->key, HASH_SIZE);
	if (!amount) {
		if (index != v->rct_outputs++)
			return damaged(v, TX_OUTPUTS, "the next index of output", id, err);
		if (!tx->miner)
			memcpy(row.commitment, tx->commitments.p + i * HASH_SIZE, HASH_SIZE);
		else if (amount_commitment(out->amount, row.commitment))
			return chain_fail(
			    err, CHAIN_SYSTEM, "libsodium cannot compute a commitment");
	}
	if (expect(v, OUTPUT_AMOUNTS, amount, sizeof(index), &row,
		amount ? ROW_OUTPUT_PLAIN : sizeof(row), "output", id, err))
		return -1;
	return expect(v, OUTPUT_TXS, 0, sizeof(id), &place, sizeof(place), "output", id, err);
}

static int check_outputs(struct verify *v, const struct tx *tx, uint64_t tx_id, const uint8_t *hash,
    struct chain_error *err)
{
	MDB_val k = { sizeof(tx_id), &tx_id }, row;
	int rc = mdb_cursor_get(v->r.cur[TX_OUTPUTS], &k, &row, MDB_SET);
	struct cursor c;

	if (rc || row.mv_size != tx->n_outputs * sizeof(uint64_t))
		return damaged(v, TX_OUTPUTS, "transaction", tx_id, err);
	v->rows[TX_OUTPUTS]++;
	cursor_init(&c, tx->outputs.p, tx->outputs.n, 0);
	for (size_t i = 0; i < tx->n_outputs; i++) {
		struct tx_output out;
		uint64_t index;

		memcpy(&index, (uint8_t *)row.mv_data + i * sizeof(index), sizeof(index));
		tx_read_output(&c, &out);
		if (check_output(v, tx, i, &out, hash, index, err))
			return -1;
	}
	return 0;
}

static int check_key_images(struct verify *v, const struct tx *tx, struct chain_error *err)
{
	struct key_images images;
	const uint8_t *image;

	key_images_begin(&images, tx);
	while ((image = key_images_next(&images)))
		if (expect(v, SPENT_KEYS, 0, HASH_SIZE, image, HASH_SIZE, "the key image of input",
			images.i - 1, err))
			return -1;
	return 0;
}

static int check_tx(struct verify *v, const struct tx *tx, const uint8_t *hash,
    const uint8_t *prunable_hash, struct chain_error *err)
{
	uint64_t tx_id = v->rows[TX_INDICES];
	struct row_tx_index index = {
		.tx_id = tx_id, .unlock_time = tx->unlock_time, .height = v->tip.height
	};
	uint8_t stored[HASH_SIZE];

	memcpy(index.hash, hash, HASH_SIZE);
	if (expect(v, TX_INDICES, 0, HASH_SIZE, &index, sizeof(index), "transaction", tx_id, err))
		return -1;
	v->rows[TXS_PRUNED]++;
	if (tx->stub && !prune_may_lack(v->r.pruning_seed, v->tip.height, &v->r.db->prune_rule))
		return damaged(v, TXS_PRUNABLE, "transaction", tx_id, err);
	v->rows[TXS_PRUNABLE] += !tx->stub;
	if (tx->version == 2) {
		if (reader_row(&v->r, TXS_PRUNABLE_HASH, tx_id, stored, sizeof(stored), err))
			return -1;
		if (memcmp(stored, prunable_hash, HASH_SIZE) != 0)
			return damaged(v, TXS_PRUNABLE_HASH, "transaction", tx_id, err);
		v->rows[TXS_PRUNABLE_HASH]++;
	}
	return check_key_images(v, tx, err) || check_outputs(v, tx, tx_id, hash, err) ? -1 : 0;
}

/* The miner's transaction was read from the block. The other tables hold it a second time. */
static int check_miner_copy(struct verify *v, struct chain_error *err)
{
	struct tx *miner = &v->package.block.miner;
	uint64_t tx_id = v->rows[TX_INDICES];
	struct tx copy;

	if (load_tx(&v->r, tx_id, true, &copy, err))
		return -1;
	if (copy.pruned.n != miner->pruned.n ||
	    memcmp(copy.pruned.p, miner->pruned.p, miner->pruned.n) != 0)
		return damaged(v, TXS_PRUNED, "transaction", tx_id, err);
	miner->stub = copy.stub;
	return 0;
}

static int check_txs(struct verify *v, struct chain_error *err)
{
	const struct package *p = &v->package;
	uint8_t none[HASH_SIZE];

	hash_prunable(&p->block.miner, none);
	if (check_miner_copy(v, err) || check_tx(v, &p->block.miner, p->miner_hash, none, err))
		return -1;
	for (size_t i = 0; i < p->block.n_txs; i++)
		if (check_tx(v, &p->txs[i], p->block.hashes.p + i * HASH_SIZE,
			p->prunable_hashes + i * HASH_SIZE, err))
			return -1;
	return 0;
}

/* After check_txs(): the row counts the block's own outputs. */
static int check_info(struct verify *v, const struct row_block_info *info, struct chain_error *err)
{
	const struct package *p = &v->package;
	uint64_t height = v->tip.height;
	struct row_block_height by_hash = { .height = height };
	uint8_t fork;
	/* The three of the trailer are taken as stored: package_check() has judged them. */
	struct row_block_info want = *info;

	want.height = height;
	want.timestamp = p->block.timestamp;
	want.rct_outputs = v->rct_outputs;
	want.long_term_weight = weight_long_term(&v->window, p->block.major, p->weight);
	memcpy(want.hash, p->hash, HASH_SIZE);
	if (expect(v, BLOCK_INFO, 0, sizeof(height), &want, sizeof(want), "block", height, err))
		return -1;
	weight_window_push(&v->window, want.long_term_weight);

	memcpy(by_hash.hash, p->hash, HASH_SIZE);
	if (expect(
		v, BLOCK_HEIGHTS, 0, HASH_SIZE, &by_hash, sizeof(by_hash), "block", height, err) ||
	    reader_row(&v->r, HF_VERSIONS, height, &fork, sizeof(fork), err))
		return -1;
	if (fork != p->block.major)
		return damaged(v, HF_VERSIONS, "block", height, err);
	v->rows[BLOCKS]++;
	v->rows[HF_VERSIONS]++;
	return 0;
}

/* monerod leaves the rows of HF_VERSIONS when it takes blocks off, and writes over them. */
static int check_counts(struct verify *v, struct chain_error *err)
{
	for (int t = 0; t < CHAIN_TABLES; t++) {
		uint64_t n;

		if (chain_rows(v->r.txn, v->r.db, t, &n, err))
			return -1;
		if (t == HF_VERSIONS ? n < v->rows[t] : n != v->rows[t])
			return chain_fail(err, CHAIN_DAMAGED,
			    "table %s has %" PRIu64 " rows where the chain calls for %" PRIu64,
			    chain_table_name(t), n, v->rows[t]);
	}
	return 0;
}

static int walk(struct verify *v, struct chain_error *err)
{
	uint64_t height;

	if (chain_rows(v->r.txn, v->r.db, BLOCKS, &height, err))
		return -1;
	if (weight_window_init(&v->window, WEIGHT_WINDOW, 0))
		return chain_fail(err, CHAIN_SYSTEM, "no memory for the window of weights");
	while (v->tip.height < height) {
		struct row_block_info info;

		if (load_package(
			&v->r, v->tip.height, v->rows[TX_INDICES], &v->package, &info, err) ||
		    package_check(&v->package, &v->tip, err) || check_txs(v, err) ||
		    check_info(v, &info, err))
			return -1;
		v->tip = package_tip(&v->package);
	}
	return check_counts(v, err);
}

int chain_verify(struct chain_db *db, struct verify_result *result, struct chain_error *err)
{
	struct verify v = { 0 };
	uint64_t pool_txs = 0, alt_blocks = 0;
	int rc;

	if (reader_begin(&v.r, db, err))
		return -1;
	rc = walk(&v, err);
	if (!rc && (pool_each_tx(&v.r, NULL, NULL, &pool_txs, err) ||
		       pool_each_alt_block(&v.r, NULL, NULL, &alt_blocks, err)))
		rc = -1;
	*result = (struct verify_result){
		.blocks = v.rows[BLOCKS],
		.txs = v.rows[TX_INDICES],
		.outputs = v.rows[OUTPUT_TXS],
		.key_images = v.rows[SPENT_KEYS],
		.pool_txs = pool_txs,
		.alt_blocks = alt_blocks,
	};
	reader_end(&v.r);
	weight_window_finish(&v.window);
	package_finish(&v.package);
	return rc;
}
