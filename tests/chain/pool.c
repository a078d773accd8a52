/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pool.c - transactions and blocks that are not in the chain: rows as monerod writes them, made from the
 * rest of a real chain; damage to them; and what an import and a reorganisation do to them.
 */
#include <string.h>
#include <unistd.h>

#include "pool.h"
#include "pop.h"
#include "support.h"
#include "verify.h"

#define FIRST_CHUNK 1028
#define BLOCKS_IN   120 /* of the 150 in c.raw; transactions are in blocks before and after */

static char dir[64], whole[64];
static struct buf file;
static uint64_t waiting; /* transactions after the first BLOCKS_IN blocks */
static uint64_t soon;	 /* of those, in the first 10 blocks */

static size_t length_of(uint64_t blocks)
{
	size_t at = FIRST_CHUNK;
	uint32_t len;

	for (; blocks > 0; blocks--) {
		memcpy(&len, file.p + at, 4);
		at += 4 + len;
	}
	return at;
}

static void put(MDB_txn *txn, struct chain_db *db, enum chain_table t, const uint8_t *hash,
    const void *row, size_t n)
{
	MDB_val k = { HASH_SIZE, (void *)hash }, v = { n, (void *)row };

	assert_int_equal(mdb_put(txn, db->dbi[t], &k, &v, 0), 0);
}

static void put_tx(MDB_txn *txn, struct chain_db *db, const struct tx *tx, const uint8_t *hash)
{
	struct row_pool_meta meta = { .weight = tx_weight(tx), .fee = tx->fee };
	struct buf blob = { 0 };

	buf_put(&blob, tx->pruned.p, tx->pruned.n);
	buf_put(&blob, tx->prunable.p, tx->prunable.n);
	put(txn, db, TXPOOL_META, hash, &meta, sizeof(meta));
	put(txn, db, TXPOOL_BLOB, hash, blob.p, blob.n);
	buf_free(&blob);
}

static void put_block(MDB_txn *txn, struct chain_db *db, const struct block *b, const uint8_t *hash)
{
	struct row_alt_block row = { .height = b->miner.height };
	struct buf bytes = { 0 };

	buf_put(&bytes, &row, sizeof(row));
	buf_put(&bytes, b->blob.p, b->blob.n);
	put(txn, db, ALT_BLOCKS, hash, bytes.p, bytes.n);
	buf_free(&bytes);
}

/* The blocks of `from` that db lacks, and their transactions, into db's other tables. */
static void fill(MDB_txn *txn, struct chain_db *db, struct reader *from)
{
	struct chain_error err = { 0 };
	struct package p = { 0 };
	struct row_block_info info;
	uint64_t height, tx_id;

	assert_fine(chain_rows(from->txn, from->db, BLOCKS, &height, &err), &err);
	waiting = 0;
	for (uint64_t h = BLOCKS_IN; h < height; h++) {
		assert_fine(reader_first_tx(from, h, &tx_id, &err), &err);
		assert_fine(load_package(from, h, tx_id, &p, &info, &err), &err);
		for (size_t i = 0; i < p.block.n_txs; i++)
			put_tx(txn, db, &p.txs[i], p.block.hashes.p + i * HASH_SIZE);
		put_block(txn, db, &p.block, info.hash);
		waiting += p.block.n_txs;
		if (h < BLOCKS_IN + 10)
			soon = waiting;
	}
	package_finish(&p);
}

static void import(const char *into, size_t n)
{
	struct chain_error err = { 0 };
	struct import_result r;

	assert_fine(import_bytes(into, file.p, n, 7, &r, &err), &err);
}

static int start(void **state)
{
	struct chain_error err = { 0 };
	struct chain_db db, other;
	struct reader from;
	MDB_txn *txn;

	file = data_file("c.raw");
	make_dir(dir);
	make_dir(whole);
	import(whole, file.n);
	import(dir, length_of(BLOCKS_IN));
	open_store(&other, whole);
	open_store(&db, dir);
	assert_fine(reader_begin(&from, &other, &err), &err);
	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	fill(txn, &db, &from);
	assert_int_equal(mdb_txn_commit(txn), 0);
	reader_end(&from);
	chain_db_close(&db);
	chain_db_close(&other);
	assert_true(soon > 0 && waiting > soon);
	return 0;
}

static int finish(void **state)
{
	remove_dir(dir);
	remove_dir(whole);
	buf_free(&file);
	return 0;
}

static void assert_outside(uint64_t blocks, uint64_t txs, uint64_t alt)
{
	struct chain_error err = { 0 };
	struct verify_result v;
	struct chain_db db;

	open_store(&db, dir);
	assert_fine(chain_verify(&db, &v, &err), &err);
	chain_db_close(&db);
	assert_int_equal(v.blocks, blocks);
	assert_int_equal(v.pool_txs, txs);
	assert_int_equal(v.alt_blocks, alt);
}

static void test_verify(void **state)
{
	assert_outside(BLOCKS_IN, waiting, 30);
}

/* ---- damage ---- */

struct row {
	enum chain_table t;
	uint8_t key[HASH_SIZE];
	uint8_t bytes[8192];
	size_t n;
};

static void first_row(MDB_txn *txn, struct chain_db *db, struct row *row)
{
	MDB_cursor *cur;
	MDB_val k, v;

	assert_int_equal(mdb_cursor_open(txn, db->dbi[row->t], &cur), 0);
	assert_int_equal(mdb_cursor_get(cur, &k, &v, MDB_FIRST), 0);
	assert_true(v.mv_size <= sizeof(row->bytes));
	memcpy(row->key, k.mv_data, HASH_SIZE);
	memcpy(row->bytes, v.mv_data, v.mv_size);
	row->n = v.mv_size;
	mdb_cursor_close(cur);
}

/* Both tables of the pool have the same first key. */
static void assert_damage(enum chain_table t, void (*harm)(struct row *), const char *says)
{
	struct chain_error err = { 0 };
	struct verify_result v;
	struct row row = { .t = t }, before;
	struct chain_db db;
	MDB_txn *txn;
	MDB_val k;

	open_store(&db, dir);
	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	first_row(txn, &db, &row);
	before = row;
	harm(&row);
	k = (MDB_val){ HASH_SIZE, before.key };
	assert_int_equal(mdb_del(txn, db.dbi[t], &k, NULL), 0);
	if (row.n)
		put(txn, &db, t, row.key, row.bytes, row.n);
	assert_int_equal(mdb_txn_commit(txn), 0);

	assert_error(chain_verify(&db, &v, &err), &err, CHAIN_DAMAGED, says);

	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	k.mv_data = row.key;
	if (row.n)
		assert_int_equal(mdb_del(txn, db.dbi[t], &k, NULL), 0);
	put(txn, &db, t, before.key, before.bytes, before.n);
	assert_int_equal(mdb_txn_commit(txn), 0);
	chain_db_close(&db);
}

static void other_weight(struct row *r)
{
	((struct row_pool_meta *)r->bytes)->weight++;
}

static void other_fee(struct row *r)
{
	((struct row_pool_meta *)r->bytes)->fee++;
}

static void other_height(struct row *r)
{
	((struct row_alt_block *)r->bytes)->height++;
}

static void other_key(struct row *r)
{
	r->key[5] ^= 1;
}

static void other_last_byte(struct row *r)
{
	r->bytes[r->n - 1] ^= 1;
}

static void a_byte_less(struct row *r)
{
	r->n--;
}

static void a_byte_more(struct row *r)
{
	r->bytes[r->n++] = 0;
}

static void short_row(struct row *r)
{
	r->n = 39;
}

static void nothing(struct row *r)
{
	r->n = 0;
}

static void test_damage(void **state)
{
	assert_damage(TXPOOL_META, other_weight, "the weight is not");
	assert_damage(TXPOOL_META, other_fee, "the fee is not");
	assert_damage(TXPOOL_META, other_key, "it is missing");
	assert_damage(TXPOOL_META, a_byte_less, "192 bytes");
	assert_damage(TXPOOL_META, nothing, "rows, and table txpool_meta has");
	assert_damage(TXPOOL_BLOB, other_last_byte, "another hash");
	assert_damage(TXPOOL_BLOB, a_byte_less, "table txpool_blob, row");
	assert_damage(TXPOOL_BLOB, a_byte_more, "table txpool_blob, row");
	assert_damage(TXPOOL_BLOB, nothing, "it is missing");
	assert_damage(ALT_BLOCKS, other_height, "the height is not");
	assert_damage(ALT_BLOCKS, other_key, "another hash");
	assert_damage(ALT_BLOCKS, short_row, "40 bytes");
	assert_damage(ALT_BLOCKS, a_byte_more, "table alt_blocks, row");
	assert_outside(BLOCKS_IN, waiting, 30);
}

/* ---- a chain that moves ---- */

/* Blocks taken off are gone, as with Monero's own tool; what waits goes on waiting. */
static void test_pop(void **state)
{
	struct chain_error err = { 0 };
	struct pop_result r;
	struct chain_db db;

	open_store(&db, dir);
	assert_fine(chain_pop(&db, 20, &r, &err), &err);
	chain_db_close(&db);
	assert_outside(BLOCKS_IN - 20, waiting, 30);
}

/* What comes into the chain waits no longer. */
static void test_import(void **state)
{
	import(dir, length_of(BLOCKS_IN + 10));
	assert_outside(BLOCKS_IN + 10, waiting - soon, 20);
	import(dir, file.n);
	assert_outside(150, 0, 0);
	assert_same_rows(dir, whole, all_tables);
}

/* monerod leaves these rows when it takes blocks off. */
static void test_hf_rows_left(void **state)
{
	uint64_t height = 150;
	uint8_t fork = 99;
	MDB_val k = { sizeof(height), &height }, v = { sizeof(fork), &fork };
	struct chain_error err = { 0 };
	struct pop_result r;
	struct chain_db db;
	MDB_txn *txn;

	open_store(&db, dir);
	assert_fine(chain_pop(&db, 1, &r, &err), &err);
	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	for (height = 149; height < 152; height++)
		assert_int_equal(mdb_put(txn, db.dbi[HF_VERSIONS], &k, &v, 0), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	chain_db_close(&db);
	verify_store(dir, 149);
	import(dir, file.n);
	verify_store(dir, 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verify),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_pop),
		cmocka_unit_test(test_import),
		cmocka_unit_test(test_hf_rows_left),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
