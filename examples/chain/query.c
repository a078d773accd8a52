/* SPDX-License-Identifier: BSD-2-Clause
 *
 * query.c - see query.h.
 */
#include "query.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "pool.h"

static void print_difficulty(struct out *o, uint64_t high, uint64_t low)
{
	out_u64(o, "cumulative_difficulty", low);
	if (high)
		out_u64(o, "cumulative_difficulty_top64", high);
}

static int print_info(struct reader *r, struct out *o, struct chain_error *err)
{
	struct row_block_info info;
	uint64_t n;
	struct tip tip;

	if (reader_tip(r, &tip, err))
		return -1;
	out_u64(o, "height", tip.height);
	if (tip.height) {
		if (reader_block_info(r, tip.height - 1, &info, err))
			return -1;
		out_hash(o, "top_hash", info.hash);
		out_u64(o, "top_timestamp", info.timestamp);
		print_difficulty(o, info.difficulty_high, info.difficulty_low);
		out_u64(o, "coins", info.coins);
		out_u64(o, "rct_outputs", info.rct_outputs);
	}
	out_open(o, "rows", '{');
	for (int t = 0; t < ALL_TABLES; t++) {
		if (!r->db->present[t])
			continue;
		if (chain_rows(r->txn, r->db, t, &n, err))
			return -1;
		out_u64(o, chain_table_name(t), n);
	}
	out_close(o, '}');
	return 0;
}

int query_info(struct chain_db *db, struct out *o, struct chain_error *err)
{
	struct reader r;
	MDB_envinfo env;
	MDB_stat st;
	int rc;

	if (reader_begin(&r, db, err))
		return -1;
	rc = print_info(&r, o, err);
	reader_end(&r);
	if (rc)
		return -1;
	rc = mdb_env_info(db->env, &env);
	if (!rc)
		rc = mdb_env_stat(db->env, &st);
	if (rc)
		return chain_fail_db(err, rc, "environment");
	out_u64(o, "used_bytes", (uint64_t)(env.me_last_pgno + 1) * st.ms_psize);
	out_u64(o, "map_bytes", env.me_mapsize);
	out_u64(o, "last_transaction", env.me_last_txnid);
	out_text(o, "engine", mdb_version(NULL, NULL, NULL));
	return 0;
}

/* A height in digits, or a hash. */
static int height_of(struct reader *r, const char *which, uint64_t *height, struct chain_error *err)
{
	uint8_t hash[HASH_SIZE];
	struct row_block_height row;
	uint64_t n;
	char *end;
	int rc;

	if (chain_unhex(which, hash)) {
		rc = reader_find(r, BLOCK_HEIGHTS, 0, hash, sizeof(hash), &row, sizeof(row), err);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return chain_fail(err, CHAIN_REFUSED, "no block has the hash %s", which);
		*height = row.height;
		return 0;
	}
	errno = 0;
	*height = strtoull(which, &end, 10);
	if (which[0] < '0' || which[0] > '9' || *end || errno)
		return chain_fail(err, CHAIN_REFUSED,
		    "%s: neither a height nor a hash of 64 hexadecimal digits", which);
	if (chain_rows(r->txn, r->db, BLOCKS, &n, err))
		return -1;
	if (*height >= n)
		return chain_fail(err, CHAIN_REFUSED,
		    "no block %" PRIu64 ": the chain has %" PRIu64 " blocks", *height, n);
	return 0;
}

static int print_block(struct reader *r, uint64_t height, struct out *o, struct chain_error *err)
{
	struct row_block_info info;
	struct block b;
	uint8_t miner_hash[HASH_SIZE], none[HASH_SIZE];

	if (reader_block_info(r, height, &info, err) || load_block(r, height, &b, err))
		return -1;
	hash_prunable(&b.miner, none);
	hash_tx(&b.miner, none, miner_hash);
	out_u64(o, "height", height);
	out_hash(o, "hash", info.hash);
	out_hash(o, "prev_hash", b.prev);
	out_u64(o, "major_version", b.major);
	out_u64(o, "minor_version", b.minor);
	out_u64(o, "timestamp", b.timestamp);
	out_u64(o, "nonce", b.nonce);
	out_u64(o, "reward", b.miner.out_amount);
	out_u64(o, "block_weight", info.weight);
	out_u64(o, "long_term_weight", info.long_term_weight);
	print_difficulty(o, info.difficulty_high, info.difficulty_low);
	out_u64(o, "coins", info.coins);
	out_hash(o, "miner_tx_hash", miner_hash);
	out_u64(o, "num_txes", b.n_txs);
	out_open(o, "tx_hashes", '[');
	for (size_t i = 0; i < b.n_txs; i++)
		out_hash(o, NULL, b.hashes.p + i * HASH_SIZE);
	out_close(o, ']');
	return 0;
}

int query_block(struct chain_db *db, const char *which, struct out *o, struct chain_error *err)
{
	struct reader r;
	uint64_t height = 0;
	int rc;

	if (reader_begin(&r, db, err))
		return -1;
	rc = height_of(&r, which, &height, err);
	if (!rc)
		rc = print_block(&r, height, o, err);
	reader_end(&r);
	return rc;
}

static void print_key_images(const struct tx *tx, struct out *o)
{
	struct key_images images;
	const uint8_t *image;

	out_open(o, "key_images", '[');
	key_images_begin(&images, tx);
	while ((image = key_images_next(&images)))
		out_hash(o, NULL, image);
	out_close(o, ']');
}

static int print_output_indices(
    struct reader *r, uint64_t tx_id, const struct tx *tx, struct out *o, struct chain_error *err)
{
	MDB_val k = { sizeof(tx_id), &tx_id }, row;
	int rc = mdb_cursor_get(r->cur[TX_OUTPUTS], &k, &row, MDB_SET);

	if (rc || row.mv_size != tx->n_outputs * sizeof(uint64_t))
		return chain_fail(err, CHAIN_DAMAGED,
		    "table tx_outputs does not have the outputs of transaction %" PRIu64, tx_id);
	out_open(o, "output_indices", '[');
	for (size_t i = 0; i < tx->n_outputs; i++) {
		uint64_t index;

		memcpy(&index, (uint8_t *)row.mv_data + i * sizeof(index), sizeof(index));
		out_u64(o, NULL, index);
	}
	out_close(o, ']');
	return 0;
}

static int print_tx(
    struct reader *r, const struct row_tx_index *index, struct out *o, struct chain_error *err)
{
	struct tx tx;
	uint64_t first;

	/* A miner's transaction reads differently, and only its block tells which one it is. */
	if (reader_first_tx(r, index->height, &first, err) ||
	    load_tx(r, index->tx_id, index->tx_id == first, &tx, err))
		return -1;
	out_hash(o, "hash", index->hash);
	out_u64(o, "tx_id", index->tx_id);
	out_u64(o, "height", index->height);
	out_text(o, "miner", tx.miner ? "yes" : "no");
	out_u64(o, "version", tx.version);
	out_u64(o, "rct_type", tx.type);
	out_u64(o, "unlock_time", tx.unlock_time);
	out_u64(o, "inputs", tx.n_inputs);
	out_u64(o, "ring_size", tx.ring);
	out_u64(o, "outputs", tx.n_outputs);
	out_u64(o, "amount", tx.out_amount);
	out_u64(o, "fee", tx.fee);
	if (tx.stub) {
		out_u64(o, "pruned_size", tx.pruned.n);
	} else {
		out_u64(o, "blob_size", tx.pruned.n + tx.prunable.n);
		out_u64(o, "weight", tx_weight(&tx));
	}
	print_key_images(&tx, o);
	return print_output_indices(r, index->tx_id, &tx, o, err);
}

int query_tx(struct chain_db *db, const char *text, struct out *o, struct chain_error *err)
{
	struct reader r;
	struct row_tx_index index;
	uint8_t hash[HASH_SIZE];
	int rc;

	if (!chain_unhex(text, hash))
		return chain_fail(
		    err, CHAIN_REFUSED, "%s: not a hash of 64 hexadecimal digits", text);
	if (reader_begin(&r, db, err))
		return -1;
	rc = reader_find(&r, TX_INDICES, 0, hash, sizeof(hash), &index, sizeof(index), err);
	if (rc == 0)
		rc = chain_fail(err, CHAIN_REFUSED, "no transaction has the hash %s", text);
	else if (rc > 0)
		rc = print_tx(&r, &index, o, err);
	reader_end(&r);
	return rc;
}

static void print_pool_tx(void *ctx, const struct pool_tx *p)
{
	struct out *o = ctx;

	out_open(o, NULL, '{');
	out_hash(o, "hash", p->hash);
	out_u64(o, "blob_size", p->bytes);
	out_u64(o, "weight", p->meta.weight);
	out_u64(o, "fee", p->meta.fee);
	out_u64(o, "receive_time", p->meta.receive_time);
	out_u64(o, "max_used_block_height", p->meta.max_used_height);
	out_u64(o, "last_failed_height", p->meta.last_failed_height);
	out_u64(o, "kept_by_block", p->meta.kept_by_block);
	out_u64(o, "relayed", p->meta.relayed);
	out_u64(o, "do_not_relay", p->meta.do_not_relay);
	out_u64(o, "double_spend_seen", (p->meta.flags & POOL_DOUBLE_SPEND) != 0);
	print_key_images(&p->tx, o);
	out_close(o, '}');
}

static void print_alt_block(void *ctx, const struct alt_block *b)
{
	struct out *o = ctx;

	out_open(o, NULL, '{');
	out_hash(o, "hash", b->hash);
	out_hash(o, "prev_hash", b->block.prev);
	out_u64(o, "height", b->row.height);
	out_u64(o, "block_weight", b->row.weight);
	print_difficulty(o, b->row.difficulty_high, b->row.difficulty_low);
	out_u64(o, "coins", b->row.coins);
	out_u64(o, "num_txes", b->block.n_txs);
	out_close(o, '}');
}

int query_pool(struct chain_db *db, struct out *o, struct chain_error *err)
{
	struct reader r;
	uint64_t n;
	int rc;

	if (reader_begin(&r, db, err))
		return -1;
	out_open(o, "transactions", '[');
	rc = pool_each_tx(&r, print_pool_tx, o, &n, err);
	out_close(o, ']');
	out_open(o, "alternative_blocks", '[');
	if (!rc)
		rc = pool_each_alt_block(&r, print_alt_block, o, &n, err);
	out_close(o, ']');
	reader_end(&r);
	return rc;
}
