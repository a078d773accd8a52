/* SPDX-License-Identifier: BSD-2-Clause
 *
 * load.c - see load.h.
 */
#include "load.h"

#include <inttypes.h>
#include <string.h>

#include "prune.h"

int reader_begin(struct reader *r, struct chain_db *db, struct chain_error *err)
{
	int rc;

	*r = (struct reader){ .db = db };
	rc = mdb_txn_begin(db->env, NULL, MDB_RDONLY, &r->txn);
	if (rc)
		return chain_fail_db(err, rc, "begin");
	for (int t = 0; t < CHAIN_TABLES; t++) {
		rc = mdb_cursor_open(r->txn, db->dbi[t], &r->cur[t]);
		if (rc) {
			reader_end(r);
			return chain_fail_db(err, rc, "cursor");
		}
	}
	if (prune_read_seed(r->txn, db, &r->pruning_seed, err)) {
		reader_end(r);
		return -1;
	}
	return 0;
}

void reader_end(struct reader *r)
{
	for (int t = 0; t < CHAIN_TABLES; t++)
		if (r->cur[t])
			mdb_cursor_close(r->cur[t]);
	mdb_txn_abort(r->txn);
	memset(r, 0, sizeof(*r));
}

static int no_row(enum chain_table t, uint64_t key, struct chain_error *err)
{
	return chain_fail(
	    err, CHAIN_DAMAGED, "table %s has no row %" PRIu64, chain_table_name(t), key);
}

/* 1: found; 0: not there; -1: error. */
static int lookup(
    struct reader *r, enum chain_table t, uint64_t key, struct span *row, struct chain_error *err)
{
	MDB_val k = { sizeof(key), &key }, v;
	int rc = mdb_cursor_get(r->cur[t], &k, &v, MDB_SET);

	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc)
		return chain_fail_db(err, rc, chain_table_name(t));
	*row = (struct span){ v.mv_data, v.mv_size };
	return 1;
}

static int get(
    struct reader *r, enum chain_table t, uint64_t key, struct span *row, struct chain_error *err)
{
	int rc = lookup(r, t, key, row, err);

	if (rc == 0)
		return no_row(t, key, err);
	return rc < 0 ? -1 : 0;
}

int reader_row(struct reader *r, enum chain_table t, uint64_t key, void *out, size_t n,
    struct chain_error *err)
{
	struct span row;

	if (get(r, t, key, &row, err))
		return -1;
	if (row.n != n)
		return chain_fail(err, CHAIN_DAMAGED,
		    "table %s: row %" PRIu64 " has %zu bytes where %zu are due",
		    chain_table_name(t), key, row.n, n);
	memcpy(out, row.p, n);
	return 0;
}

int reader_find(struct reader *r, enum chain_table t, uint64_t key, const void *probe, size_t size,
    void *out, size_t n, struct chain_error *err)
{
	MDB_val k = { sizeof(key), &key }, v = { size, (void *)probe };
	int rc = mdb_cursor_get(r->cur[t], &k, &v, MDB_GET_BOTH);

	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc)
		return chain_fail_db(err, rc, chain_table_name(t));
	if (v.mv_size != n)
		return chain_fail(err, CHAIN_DAMAGED,
		    "table %s: a row under %" PRIu64 " has %zu bytes where %zu are due",
		    chain_table_name(t), key, v.mv_size, n);
	memcpy(out, v.mv_data, n);
	return 1;
}

int reader_block_info(
    struct reader *r, uint64_t height, struct row_block_info *info, struct chain_error *err)
{
	int rc = reader_find(r, BLOCK_INFO, 0, &height, sizeof(height), info, sizeof(*info), err);

	if (rc == 0)
		return chain_fail(
		    err, CHAIN_DAMAGED, "table block_info has no row of block %" PRIu64, height);
	return rc < 0 ? -1 : 0;
}

int reader_tip_at(struct reader *r, uint64_t height, struct tip *tip, struct chain_error *err)
{
	struct row_block_info info;

	memset(tip, 0, sizeof(*tip));
	if (height == 0)
		return 0;
	if (reader_block_info(r, height - 1, &info, err))
		return -1;
	tip->height = height;
	memcpy(tip->hash, info.hash, HASH_SIZE);
	tip->difficulty_high = info.difficulty_high;
	tip->difficulty_low = info.difficulty_low;
	tip->coins = info.coins;
	return 0;
}

int reader_tip(struct reader *r, struct tip *tip, struct chain_error *err)
{
	uint64_t n;

	return chain_rows(r->txn, r->db, BLOCKS, &n, err) ? -1 : reader_tip_at(r, n, tip, err);
}

int reader_first_tx(struct reader *r, uint64_t height, uint64_t *tx_id, struct chain_error *err)
{
	uint8_t none[HASH_SIZE], miner_hash[HASH_SIZE];
	struct row_tx_index first;
	struct block b;
	int rc;

	if (load_block(r, height, &b, err))
		return -1;
	hash_prunable(&b.miner, none);
	hash_tx(&b.miner, none, miner_hash);
	rc = reader_find(r, TX_INDICES, 0, miner_hash, HASH_SIZE, &first, sizeof(first), err);
	if (rc == 0)
		chain_error_set(err, CHAIN_DAMAGED,
		    "table tx_indices lacks the miner transaction of block %" PRIu64, height);
	if (rc <= 0)
		return -1;
	*tx_id = first.tx_id;
	return 0;
}

/* A parser's error in the row of a table. */
static int bad_row(
    const struct cursor *c, enum chain_table t, uint64_t key, struct chain_error *err)
{
	return chain_fail(err, CHAIN_DAMAGED, "table %s, row %" PRIu64 ", byte %" PRIu64 ": %s %s",
	    chain_table_name(t), key, c->where, c->what, c->why);
}

int load_tx(struct reader *r, uint64_t tx_id, bool miner, struct tx *tx, struct chain_error *err)
{
	struct span row;
	struct cursor c;
	int rc;

	if (get(r, TXS_PRUNED, tx_id, &row, err))
		return -1;
	cursor_init(&c, row.p, row.n, 0);
	tx_parse_pruned(&c, miner, tx);
	cursor_end(&c, "transaction");
	if (!cursor_ok(&c))
		return bad_row(&c, TXS_PRUNED, tx_id, err);
	rc = lookup(r, TXS_PRUNABLE, tx_id, &row, err);
	if (rc < 0)
		return -1;
	if (rc == 0 && tx->version == 2 && r->pruning_seed) {
		tx->stub = true;
		tx->prunable = (struct span){ tx->pruned.p + tx->pruned.n, 0 };
		return 0;
	}
	if (rc == 0)
		return no_row(TXS_PRUNABLE, tx_id, err);
	cursor_init(&c, row.p, row.n, 0);
	tx_parse_prunable(&c, tx);
	cursor_end(&c, "transaction");
	return cursor_ok(&c) ? 0 : bad_row(&c, TXS_PRUNABLE, tx_id, err);
}

int load_block(struct reader *r, uint64_t height, struct block *b, struct chain_error *err)
{
	struct span row;
	struct cursor c;

	if (get(r, BLOCKS, height, &row, err))
		return -1;
	cursor_init(&c, row.p, row.n, 0);
	block_parse(&c, b);
	cursor_end(&c, "block");
	return cursor_ok(&c) ? 0 : bad_row(&c, BLOCKS, height, err);
}

int load_package(struct reader *r, uint64_t height, uint64_t tx_id, struct package *p,
    struct row_block_info *info, struct chain_error *err)
{
	if (reader_block_info(r, height, info, err) || load_block(r, height, &p->block, err) ||
	    package_reserve(p, p->block.n_txs, err))
		return -1;
	for (size_t i = 0; i < p->block.n_txs; i++) {
		struct tx *tx = &p->txs[i];

		if (load_tx(r, tx_id + 1 + i, false, tx, err) ||
		    (tx->stub && reader_row(r, TXS_PRUNABLE_HASH, tx_id + 1 + i,
				     p->prunable_hashes + i * HASH_SIZE, HASH_SIZE, err)))
			return -1;
	}
	p->weight = info->weight;
	p->difficulty_high = info->difficulty_high;
	p->difficulty_low = info->difficulty_low;
	p->coins = info->coins;
	p->offset = PACKAGE_STORED;
	return 0;
}
