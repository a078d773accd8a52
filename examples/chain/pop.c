/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pop.c - see pop.h.
 *
 * The exact reverse of writer.c, last row first. What a row points to moves when another row is
 * deleted, so the block and each transaction are copied out before they are parsed.
 */
#include "pop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct copy {
	uint8_t *p;
	size_t n, cap;
};

struct pop {
	struct writer *w;
	struct pop_result *sum;
	struct copy block_bytes, tx_bytes;
	struct block block;
	uint64_t height;
};

static int damaged(
    struct pop *pop, enum chain_table t, const char *what, uint64_t number, struct chain_error *err)
{
	return chain_fail(err, CHAIN_DAMAGED,
	    "block %" PRIu64 ": table %s does not have %s %" PRIu64 " as the block does",
	    pop->height, chain_table_name(t), what, number);
}

/* Copies a row and leaves the cursor on it, for delete(). */
static int take(
    struct pop *pop, enum chain_table t, uint64_t key, struct copy *c, struct chain_error *err)
{
	MDB_val k = { sizeof(key), &key }, v;
	int rc = mdb_cursor_get(pop->w->cur[t], &k, &v, MDB_SET);

	if (rc == MDB_NOTFOUND)
		return damaged(pop, t, "row", key, err);
	if (rc)
		return chain_fail_db(err, rc, chain_table_name(t));
	if (v.mv_size > c->cap) {
		uint8_t *more = realloc(c->p, v.mv_size);

		if (!more)
			return chain_fail(
			    err, CHAIN_SYSTEM, "no memory for a row of %zu bytes", v.mv_size);
		c->p = more;
		c->cap = v.mv_size;
	}
	if (v.mv_size > 0)
		memcpy(c->p, v.mv_data, v.mv_size);
	c->n = v.mv_size;
	return 0;
}

/* Deletes the row that the cursor of t stands on. */
static int delete_here(struct pop *pop, enum chain_table t, struct chain_error *err)
{
	int rc = mdb_cursor_del(pop->w->cur[t], 0);

	return rc ? chain_fail_db(err, rc, chain_table_name(t)) : 0;
}

/* Puts the cursor of t on the row under key that sorts as the start of `want` and starts with it. */
static int find_dup(struct pop *pop, enum chain_table t, uint64_t key, const void *want, size_t n,
    const char *what, uint64_t number, struct chain_error *err)
{
	MDB_val k = { sizeof(key), &key }, v = { n, (void *)want };
	int rc = mdb_cursor_get(pop->w->cur[t], &k, &v, MDB_GET_BOTH);

	if (rc && rc != MDB_NOTFOUND)
		return chain_fail_db(err, rc, chain_table_name(t));
	if (rc || v.mv_size < n || memcmp(v.mv_data, want, n) != 0)
		return damaged(pop, t, what, number, err);
	return 0;
}

static int delete_dup(struct pop *pop, enum chain_table t, uint64_t key, const void *want, size_t n,
    const char *what, uint64_t number, struct chain_error *err)
{
	return find_dup(pop, t, key, want, n, what, number, err) || delete_here(pop, t, err) ? -1
											     : 0;
}

static int delete_row(struct pop *pop, enum chain_table t, uint64_t key, struct chain_error *err)
{
	MDB_val k = { sizeof(key), &key }, v;
	int rc = mdb_cursor_get(pop->w->cur[t], &k, &v, MDB_SET);

	if (rc == MDB_NOTFOUND)
		return damaged(pop, t, "row", key, err);
	if (rc)
		return chain_fail_db(err, rc, chain_table_name(t));
	return delete_here(pop, t, err);
}

/* In a pruned store it may be gone; if not, it may be listed. */
static int delete_prunable(
    struct pop *pop, uint64_t tx_id, uint64_t version, struct chain_error *err)
{
	struct writer *w = pop->w;
	MDB_val k = { sizeof(tx_id), &tx_id }, v;
	int rc;

	if (!w->pruning_seed)
		return delete_row(pop, TXS_PRUNABLE, tx_id, err);
	rc = mdb_del(w->txn, w->db->dbi[TXS_PRUNABLE_TIP], &k, NULL);
	if (rc && rc != MDB_NOTFOUND)
		return chain_fail_db(err, rc, chain_table_name(TXS_PRUNABLE_TIP));
	if (version == 2 && mdb_cursor_get(w->cur[TXS_PRUNABLE], &k, &v, MDB_SET) == MDB_NOTFOUND)
		return 0;
	return delete_row(pop, TXS_PRUNABLE, tx_id, err);
}

/* Indices within an amount count up from 0: the row that the cursor stands on is the last one. */
static int check_last(struct pop *pop, uint64_t index, uint64_t id, struct chain_error *err)
{
	size_t n;
	int rc = mdb_cursor_count(pop->w->cur[OUTPUT_AMOUNTS], &n);

	if (rc)
		return chain_fail_db(err, rc, chain_table_name(OUTPUT_AMOUNTS));
	return n == index + 1 ? 0 : damaged(pop, OUTPUT_AMOUNTS, "as the last output", id, err);
}

/* The last output of the chain: output i of the transaction, with that index within its amount. */
static int pop_output(struct pop *pop, size_t i, uint64_t amount, uint64_t index,
    const uint8_t *hash, struct chain_error *err)
{
	uint64_t id = pop->w->at.output_id - 1;
	struct row_output_tx place = { .output_id = id, .index = i };
	uint64_t row[2] = { index, id }; /* as struct row_output starts */

	memcpy(place.tx_hash, hash, HASH_SIZE);
	if (find_dup(pop, OUTPUT_TXS, 0, &place, sizeof(place), "output", id, err) ||
	    delete_here(pop, OUTPUT_TXS, err) ||
	    find_dup(pop, OUTPUT_AMOUNTS, amount, row, sizeof(row), "output", id, err) ||
	    check_last(pop, index, id, err) || delete_here(pop, OUTPUT_AMOUNTS, err))
		return -1;
	if (!amount)
		pop->w->at.rct_outputs--;
	pop->w->at.output_id--;
	pop->sum->outputs++;
	return 0;
}

/* Amounts stand in the outputs, which can only be read forward. */
static int amounts_of(struct pop *pop, const struct tx *tx, uint64_t **out, struct chain_error *err)
{
	struct cursor c;

	*out = malloc(tx->n_outputs * sizeof(**out));
	if (!*out)
		return chain_fail(err, CHAIN_SYSTEM, "no memory for %zu outputs", tx->n_outputs);
	cursor_init(&c, tx->outputs.p, tx->outputs.n, 0);
	for (size_t i = 0; i < tx->n_outputs; i++) {
		struct tx_output o;

		tx_read_output(&c, &o);
		(*out)[i] = tx->version == 1 ? o.amount : 0;
	}
	return 0;
}

static int pop_outputs(struct pop *pop, const struct tx *tx, uint64_t tx_id, const uint8_t *hash,
    struct chain_error *err)
{
	struct copy indices = { 0 };
	uint64_t *amounts = NULL, index;
	int rc = -1;

	if (take(pop, TX_OUTPUTS, tx_id, &indices, err) || amounts_of(pop, tx, &amounts, err))
		goto out;
	if (!indices.p || indices.n != tx->n_outputs * sizeof(index)) {
		rc = damaged(pop, TX_OUTPUTS, "transaction", tx_id, err);
		goto out;
	}
	if (delete_here(pop, TX_OUTPUTS, err))
		goto out;
	for (size_t i = tx->n_outputs; i-- > 0;) {
		memcpy(&index, indices.p + i * sizeof(index), sizeof(index));
		if (pop_output(pop, i, amounts[i], index, hash, err))
			goto out;
	}
	rc = 0;
out:
	free(indices.p);
	free(amounts);
	return rc;
}

static int pop_key_images(struct pop *pop, const struct tx *tx, struct chain_error *err)
{
	struct key_images images;
	const uint8_t *image;

	key_images_begin(&images, tx);
	while ((image = key_images_next(&images))) {
		if (delete_dup(pop, SPENT_KEYS, 0, image, HASH_SIZE, "the key image of input",
			images.i - 1, err))
			return -1;
		pop->sum->key_images++;
	}
	return 0;
}

/* The last transaction of the chain, which has this hash. */
static int pop_tx(struct pop *pop, const uint8_t *hash, bool miner, struct chain_error *err)
{
	uint64_t tx_id = pop->w->at.tx_id - 1;
	struct row_tx_index index = { .tx_id = tx_id, .height = pop->height };
	struct cursor c;
	struct tx tx;

	if (take(pop, TXS_PRUNED, tx_id, &pop->tx_bytes, err) || delete_here(pop, TXS_PRUNED, err))
		return -1;
	cursor_init(&c, pop->tx_bytes.p, pop->tx_bytes.n, 0);
	tx_parse_pruned(&c, miner, &tx);
	cursor_end(&c, "transaction");
	if (!cursor_ok(&c))
		return damaged(pop, TXS_PRUNED, "transaction", tx_id, err);
	memcpy(index.hash, hash, HASH_SIZE);
	index.unlock_time = tx.unlock_time;
	if (delete_dup(pop, TX_INDICES, 0, &index, sizeof(index), "transaction", tx_id, err) ||
	    delete_prunable(pop, tx_id, tx.version, err) ||
	    (tx.version == 2 && delete_row(pop, TXS_PRUNABLE_HASH, tx_id, err)) ||
	    pop_key_images(pop, &tx, err) || pop_outputs(pop, &tx, tx_id, hash, err))
		return -1;
	pop->w->at.tx_id--;
	pop->sum->txs++;
	return 0;
}

static int pop_txs(struct pop *pop, struct chain_error *err)
{
	const struct block *b = &pop->block;
	uint8_t none[HASH_SIZE], miner[HASH_SIZE];

	for (size_t i = b->n_txs; i-- > 0;)
		if (pop_tx(pop, b->hashes.p + i * HASH_SIZE, false, err))
			return -1;
	hash_prunable(&b->miner, none);
	hash_tx(&b->miner, none, miner);
	return pop_tx(pop, miner, true, err);
}

static int pop_block(struct pop *pop, struct chain_error *err)
{
	uint64_t height = pop->height, zero = 0;
	MDB_val k = { sizeof(zero), &zero }, v = { sizeof(height), &height };
	struct row_block_height by_hash = { .height = height };
	struct row_block_info info;
	struct cursor c;
	int rc;

	if (take(pop, BLOCKS, height, &pop->block_bytes, err) || delete_here(pop, BLOCKS, err))
		return -1;
	cursor_init(&c, pop->block_bytes.p, pop->block_bytes.n, 0);
	block_parse(&c, &pop->block);
	cursor_end(&c, "block");
	if (!cursor_ok(&c))
		return damaged(pop, BLOCKS, "block", height, err);
	rc = mdb_cursor_get(pop->w->cur[BLOCK_INFO], &k, &v, MDB_GET_BOTH);
	if (rc && rc != MDB_NOTFOUND)
		return chain_fail_db(err, rc, chain_table_name(BLOCK_INFO));
	if (rc || v.mv_size != sizeof(info))
		return damaged(pop, BLOCK_INFO, "block", height, err);
	memcpy(&info, v.mv_data, sizeof(info));
	memcpy(by_hash.hash, info.hash, HASH_SIZE);
	if (delete_here(pop, BLOCK_INFO, err) ||
	    delete_dup(pop, BLOCK_HEIGHTS, 0, &by_hash, sizeof(by_hash), "block", height, err) ||
	    delete_row(pop, HF_VERSIONS, height, err) || pop_txs(pop, err))
		return -1;
	return 0;
}

int writer_pop(struct writer *w, struct pop_result *sum, struct chain_error *err)
{
	struct pop pop = { .w = w, .sum = sum, .height = w->at.height - 1 };
	int rc;

	if (w->at.height == 0)
		return chain_fail(err, CHAIN_REFUSED, "there is no block left");
	rc = pop_block(&pop, err);
	if (!rc) {
		w->at.height--;
		sum->blocks++;
		sum->height = w->at.height;
	}
	free(pop.block_bytes.p);
	free(pop.tx_bytes.p);
	return rc;
}

int chain_pop(struct chain_db *db, uint64_t n, struct pop_result *sum, struct chain_error *err)
{
	struct weight_window window = { 0 };
	struct writer w = { .db = db, .window = &window };
	int rc = -1;

	*sum = (struct pop_result){ 0 };
	if (writer_begin(&w, err)) {
		writer_finish(&w);
		return -1;
	}
	sum->height = w.at.height;
	if (n > w.at.height) {
		chain_error_set(err, CHAIN_REFUSED,
		    "cannot take %" PRIu64 " blocks off: the chain has %" PRIu64, n, w.at.height);
		goto abort;
	}
	while (sum->blocks < n)
		if (writer_pop(&w, sum, err))
			goto abort;
	rc = writer_commit(&w, err);
	writer_finish(&w);
	return rc;
abort:
	writer_abort(&w);
	writer_finish(&w);
	return -1;
}
