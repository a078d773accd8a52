/* SPDX-License-Identifier: BSD-2-Clause
 *
 * writer.c - see writer.h.
 *
 * Rows whose key or order only grows are appended (MDB_APPEND, MDB_APPENDDUP): LMDB then fills
 * pages, and refuses what would not be last. Rows that sort by hash go where they belong, and
 * MDB_NODUPDATA turns a second one into an error. Only a row of HF_VERSIONS may be there already:
 * monerod leaves them when it takes blocks off.
 */
#include "writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commitment.h"
#include "pool.h"
#include "prune.h"

static int put(struct writer *w, enum chain_table t, uint64_t key, const void *row, size_t n,
    unsigned flags, struct chain_error *err)
{
	MDB_val k = { sizeof(key), &key }, v = { n, (void *)row };
	int rc = mdb_cursor_put(w->cur[t], &k, &v, flags);

	return rc ? chain_fail_db(err, rc, chain_table_name(t)) : 0;
}

/* A row under key 0 that must not be there yet; hash names it in the error. */
static int put_unique(struct writer *w, enum chain_table t, const void *row, size_t n,
    const uint8_t *hash, uint64_t offset, struct chain_error *err)
{
	uint64_t zero = 0;
	MDB_val k = { sizeof(zero), &zero }, v = { n, (void *)row };
	int rc = mdb_cursor_put(w->cur[t], &k, &v, MDB_NODUPDATA);
	char hex[HEX_SIZE];

	if (rc == MDB_KEYEXIST)
		return chain_fail(err, CHAIN_INPUT,
		    "offset %" PRIu64 " (0x%" PRIx64 "): block %" PRIu64
		    " brings %s a second time (table %s)",
		    offset, offset, w->at.height, chain_hex(hash, hex), chain_table_name(t));
	return rc ? chain_fail_db(err, rc, chain_table_name(t)) : 0;
}

/* Walks the block_info rows from `from` to the tip: for the window, and for the last one's count. */
static int load_infos(struct writer *w, uint64_t from, struct chain_error *err)
{
	uint64_t zero = 0;
	MDB_val k = { sizeof(zero), &zero }, v = { sizeof(from), &from };
	struct row_block_info info = { 0 };
	int rc = mdb_cursor_get(w->cur[BLOCK_INFO], &k, &v, MDB_GET_BOTH);

	for (uint64_t h = from; h < w->at.height; h++) {
		if (rc || v.mv_size != sizeof(info))
			return chain_fail(
			    err, CHAIN_DAMAGED, "no block_info row of block %" PRIu64, h);
		memcpy(&info, v.mv_data, sizeof(info));
		if (w->window->end == h)
			weight_window_push(w->window, info.long_term_weight);
		rc = mdb_cursor_get(w->cur[BLOCK_INFO], &k, &v, MDB_NEXT_DUP);
	}
	w->at.rct_outputs = info.rct_outputs;
	memcpy(w->at.hash, info.hash, HASH_SIZE);
	return 0;
}

/* The window before the next block, read anew if it belongs to another height. */
static int load_window(struct writer *w, struct chain_error *err)
{
	uint64_t to = w->at.height, from = to ? to - 1 : 0;

	if (!w->window->ring || w->window->end != to) {
		from = to > WEIGHT_WINDOW ? to - WEIGHT_WINDOW : 0;
		weight_window_finish(w->window);
		if (weight_window_init(w->window, WEIGHT_WINDOW, from))
			return chain_fail(err, CHAIN_SYSTEM, "no memory for the window of weights");
	}
	return load_infos(w, from, err);
}

/* Whether anything waits outside the chain that could come into it. */
static int look_at_pool(struct writer *w, struct chain_error *err)
{
	static const enum chain_table tables[] = { TXPOOL_META, ALT_BLOCKS };
	uint64_t n, all = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (!w->db->present[tables[i]])
			continue;
		if (chain_rows(w->txn, w->db, tables[i], &n, err))
			return -1;
		all += n;
	}
	w->pool = all > 0;
	return 0;
}

static int load_counts(struct writer *w, struct chain_error *err)
{
	uint64_t infos;

	if (chain_rows(w->txn, w->db, BLOCKS, &w->at.height, err) ||
	    chain_rows(w->txn, w->db, BLOCK_INFO, &infos, err) ||
	    chain_rows(w->txn, w->db, TX_INDICES, &w->at.tx_id, err) ||
	    chain_rows(w->txn, w->db, OUTPUT_TXS, &w->at.output_id, err))
		return -1;
	if (infos != w->at.height)
		return chain_fail(err, CHAIN_DAMAGED,
		    "tables blocks and block_info differ in length: %" PRIu64 " and %" PRIu64,
		    w->at.height, infos);
	return 0;
}

int writer_begin(struct writer *w, struct chain_error *err)
{
	int rc = mdb_txn_begin(w->db->env, NULL, 0, &w->txn);

	if (rc)
		return chain_fail_db(err, rc, "begin");
	for (int t = 0; t < CHAIN_TABLES; t++) {
		rc = mdb_cursor_open(w->txn, w->db->dbi[t], &w->cur[t]);
		if (rc) {
			/* LMDB closes a write transaction's cursors with it. */
			mdb_txn_abort(w->txn);
			return chain_fail_db(err, rc, "cursor");
		}
	}
	if (load_counts(w, err) || load_window(w, err) || look_at_pool(w, err) ||
	    prune_read_seed(w->txn, w->db, &w->pruning_seed, err)) {
		mdb_txn_abort(w->txn);
		return -1;
	}
	return 0;
}

/* How many outputs there are of a public amount. */
static int count_amount(struct writer *w, uint64_t amount, uint64_t *count, struct chain_error *err)
{
	MDB_val k = { sizeof(amount), &amount }, v;
	size_t n = 0;
	int rc = mdb_cursor_get(w->cur[OUTPUT_AMOUNTS], &k, &v, MDB_SET);

	if (!rc)
		rc = mdb_cursor_count(w->cur[OUTPUT_AMOUNTS], &n);
	if (rc && rc != MDB_NOTFOUND)
		return chain_fail_db(err, rc, chain_table_name(OUTPUT_AMOUNTS));
	*count = n;
	return 0;
}

static int append_output(struct writer *w, const struct tx *tx, size_t i,
    const struct tx_output *out, const uint8_t *hash, struct chain_error *err)
{
	struct row_output row = {
		.output_id = w->at.output_id,
		.unlock_time = tx->unlock_time,
		.height = w->at.height,
	};
	struct row_output_tx place = { .output_id = w->at.output_id, .index = i };
	uint64_t amount = tx->version == 1 ? out->amount : 0;
	size_t size = amount ? ROW_OUTPUT_PLAIN : sizeof(row);

	memcpy(row.key, out->key, HASH_SIZE);
	memcpy(place.tx_hash, hash, HASH_SIZE);
	if (amount) {
		if (count_amount(w, amount, &row.index, err))
			return -1;
	} else {
		row.index = w->at.rct_outputs++;
		if (tx->miner && amount_commitment(out->amount, row.commitment))
			return chain_fail(
			    err, CHAIN_SYSTEM, "libsodium cannot compute a commitment");
		if (!tx->miner)
			memcpy(row.commitment, tx->commitments.p + i * HASH_SIZE, HASH_SIZE);
	}
	w->indices[i] = row.index;
	w->at.output_id++;
	if (put(w, OUTPUT_TXS, 0, &place, sizeof(place), MDB_APPENDDUP, err))
		return -1;
	return put(w, OUTPUT_AMOUNTS, amount, &row, size, MDB_APPENDDUP, err);
}

static int append_outputs(
    struct writer *w, const struct tx *tx, const uint8_t *hash, struct chain_error *err)
{
	struct cursor c;

	if (tx->n_outputs > w->indices_cap) {
		uint64_t *more = reallocarray(w->indices, tx->n_outputs, sizeof(*more));

		if (!more)
			return chain_fail(
			    err, CHAIN_SYSTEM, "no memory for %zu outputs", tx->n_outputs);
		w->indices = more;
		w->indices_cap = tx->n_outputs;
	}
	cursor_init(&c, tx->outputs.p, tx->outputs.n, 0);
	for (size_t i = 0; i < tx->n_outputs; i++) {
		struct tx_output out;

		tx_read_output(&c, &out);
		if (append_output(w, tx, i, &out, hash, err))
			return -1;
	}
	return put(w, TX_OUTPUTS, w->at.tx_id, w->indices, tx->n_outputs * sizeof(*w->indices),
	    MDB_APPEND, err);
}

static int append_key_images(
    struct writer *w, const struct tx *tx, uint64_t offset, struct chain_error *err)
{
	struct key_images images;
	const uint8_t *image;

	key_images_begin(&images, tx);
	while ((image = key_images_next(&images)))
		if (put_unique(w, SPENT_KEYS, image, HASH_SIZE, image, offset, err))
			return -1;
	return 0;
}

/* A pruned store lists the transactions that are still whole because they are new. */
static int note_tip(struct writer *w, struct chain_error *err)
{
	MDB_val k = { sizeof(w->at.tx_id), &w->at.tx_id },
		v = { sizeof(w->at.height), &w->at.height };
	int rc;

	if (!w->pruning_seed || !w->db->present[TXS_PRUNABLE_TIP])
		return 0;
	rc = mdb_put(w->txn, w->db->dbi[TXS_PRUNABLE_TIP], &k, &v, MDB_APPEND);
	return rc ? chain_fail_db(err, rc, chain_table_name(TXS_PRUNABLE_TIP)) : 0;
}

static int append_tx(struct writer *w, const struct tx *tx, const uint8_t *hash,
    const uint8_t *prunable_hash, uint64_t offset, struct chain_error *err)
{
	struct row_tx_index index = {
		.tx_id = w->at.tx_id, .unlock_time = tx->unlock_time, .height = w->at.height
	};

	memcpy(index.hash, hash, HASH_SIZE);
	if (put_unique(w, TX_INDICES, &index, sizeof(index), hash, offset, err) ||
	    put(w, TXS_PRUNED, w->at.tx_id, tx->pruned.p, tx->pruned.n, MDB_APPEND, err) ||
	    put(w, TXS_PRUNABLE, w->at.tx_id, tx->prunable.p, tx->prunable.n, MDB_APPEND, err) ||
	    note_tip(w, err))
		return -1;
	if (tx->version == 2 &&
	    put(w, TXS_PRUNABLE_HASH, w->at.tx_id, prunable_hash, HASH_SIZE, MDB_APPEND, err))
		return -1;
	if (append_key_images(w, tx, offset, err) || append_outputs(w, tx, hash, err) ||
	    (w->pool && pool_drop_tx(w->txn, w->db, hash, err)))
		return -1;
	w->at.tx_id++;
	return 0;
}

static int append_block(struct writer *w, const struct package *p, struct chain_error *err)
{
	const struct block *b = &p->block;
	uint64_t height = w->at.height;
	struct row_block_info info = {
		.height = height,
		.timestamp = b->timestamp,
		.coins = p->coins,
		.weight = p->weight,
		.difficulty_low = p->difficulty_low,
		.difficulty_high = p->difficulty_high,
		.rct_outputs = w->at.rct_outputs,
		.long_term_weight = weight_long_term(w->window, b->major, p->weight),
	};
	struct row_block_height by_hash = { .height = height };
	uint8_t fork = (uint8_t)b->major;

	memcpy(info.hash, p->hash, HASH_SIZE);
	memcpy(by_hash.hash, p->hash, HASH_SIZE);
	if (put(w, BLOCKS, height, b->blob.p, b->blob.n, MDB_APPEND, err) ||
	    put(w, BLOCK_INFO, 0, &info, sizeof(info), MDB_APPENDDUP, err) ||
	    put_unique(w, BLOCK_HEIGHTS, &by_hash, sizeof(by_hash), p->hash, p->offset, err) ||
	    put(w, HF_VERSIONS, height, &fork, sizeof(fork), 0, err) ||
	    (w->pool && pool_drop_block(w->txn, w->db, p->hash, err)))
		return -1;
	weight_window_push(w->window, info.long_term_weight);
	memcpy(w->at.hash, p->hash, HASH_SIZE);
	w->at.height++;
	return 0;
}

int writer_append(struct writer *w, const struct package *p, struct chain_error *err)
{
	const struct block *b = &p->block;
	uint8_t none[HASH_SIZE];

	/* writer_pop() leaves it behind: a row of it is gone that nobody else remembers. */
	if (w->window->end != w->at.height && load_window(w, err))
		return -1;
	hash_prunable(&b->miner, none);
	if (append_tx(w, &b->miner, p->miner_hash, none, p->offset, err))
		return -1;
	for (size_t i = 0; i < b->n_txs; i++)
		if (append_tx(w, &p->txs[i], b->hashes.p + i * HASH_SIZE,
			p->prunable_hashes + i * HASH_SIZE, p->offset, err))
			return -1;
	/* Last, for its row counts the outputs above. */
	return append_block(w, p, err);
}

int writer_commit(struct writer *w, struct chain_error *err)
{
	int rc = mdb_txn_commit(w->txn);

	w->txn = NULL;
	return rc ? chain_fail_db(err, rc, "commit") : 0;
}

void writer_abort(struct writer *w)
{
	mdb_txn_abort(w->txn);
	w->txn = NULL;
}

void writer_finish(struct writer *w)
{
	weight_window_finish(w->window);
	free(w->indices);
	w->indices = NULL;
	w->indices_cap = 0;
}
