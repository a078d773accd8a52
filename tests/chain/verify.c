/* SPDX-License-Identifier: BSD-2-Clause
 *
 * verify.c - chain_verify() must see each byte of each row of each table change, each row go, and a
 * row too many.
 */
#include "verify.h"

#include <string.h>

#include "support.h"

static char dir[64];
static struct chain_db db;

/* Small, with all the versions and types, some public amounts twice. */
static int start(void **state)
{
	struct import_result r;
	struct chain_error err = { 0 };
	struct chain_builder c;

	builder_start(&c, 1);
	builder_block(&c, 1, every_shape, 2);
	builder_block(&c, 3, every_shape, 1);
	builder_block(&c, 12, every_shape + 4, 3);
	builder_block(&c, 16, every_shape + 8, 2);
	make_dir(dir);
	assert_fine(import_bytes(dir, c.file.p, c.file.n, 3, &r, &err), &err);
	buf_free(&c.file);
	open_store(&db, dir);
	assert_int_equal(mdb_env_set_flags(db.env, MDB_NOSYNC, 1), 0);
	return 0;
}

static int finish(void **state)
{
	chain_db_close(&db);
	remove_dir(dir);
	return 0;
}

static int verify(struct chain_error *err)
{
	struct verify_result r;

	memset(err, 0, sizeof(*err));
	return chain_verify(&db, &r, err);
}

static void assert_clean(void)
{
	struct chain_error err;

	assert_fine(verify(&err), &err);
}

static void assert_seen(enum chain_table t, size_t row, const char *how)
{
	struct chain_error err;

	if (verify(&err) == 0)
		fail_msg("table %s, row %zu %s: not seen", chain_table_name(t), row, how);
	if (err.kind != CHAIN_DAMAGED)
		fail_msg("table %s, row %zu %s: '%s'", chain_table_name(t), row, how, err.text);
}

/* Row number `row` of t, copied out; false beyond the last. */
static bool row_at(enum chain_table t, size_t row, uint64_t *key, struct buf *value)
{
	MDB_cursor *cur;
	MDB_val k, v;
	MDB_txn *txn;
	int rc;

	assert_int_equal(mdb_txn_begin(db.env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(mdb_cursor_open(txn, db.dbi[t], &cur), 0);
	rc = mdb_cursor_get(cur, &k, &v, MDB_FIRST);
	for (; row > 0 && !rc; row--)
		rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT);
	if (!rc) {
		memcpy(key, k.mv_data, sizeof(*key));
		value->n = 0;
		buf_put(value, v.mv_data, v.mv_size);
	}
	mdb_cursor_close(cur);
	mdb_txn_abort(txn);
	return rc == 0;
}

/* Takes out (if old) and puts in (if new). False, with nothing changed, if another row sorts as new. */
static bool replace(enum chain_table t, uint64_t key, const struct buf *old, const struct buf *new)
{
	MDB_val k = { sizeof(key), &key }, v;
	unsigned flags = 0;
	MDB_txn *txn;
	int rc = 0;

	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_flags(txn, db.dbi[t], &flags), 0);
	if (old) {
		v = (MDB_val){ old->n, old->p };
		assert_int_equal(mdb_del(txn, db.dbi[t], &k, &v), 0);
	}
	if (new) {
		v = (MDB_val){ new->n, new->p };
		rc = mdb_put(
		    txn, db.dbi[t], &k, &v, flags & MDB_DUPSORT ? MDB_NODUPDATA : MDB_NOOVERWRITE);
	}
	if (rc) {
		assert_int_equal(rc, MDB_KEYEXIST);
		mdb_txn_abort(txn);
		return false;
	}
	assert_int_equal(mdb_txn_commit(txn), 0);
	return true;
}

/* The cumulative difficulty is in no hash and follows from nothing stored. */
static bool free_byte(enum chain_table t, size_t at)
{
	return t == BLOCK_INFO && at >= offsetof(struct row_block_info, difficulty_low) &&
	       at < offsetof(struct row_block_info, hash);
}

static void changed_bytes(void **state)
{
	struct buf was = { 0 };
	uint64_t key = 0, changes = 0;

	for (int t = 0; t < CHAIN_TABLES; t++) {
		for (size_t row = 0; row_at(t, row, &key, &was); row++) {
			for (size_t at = 0; at < was.n; at += 1 + test_random() % (was.n / 8 + 1)) {
				struct buf now = { 0 };

				if (free_byte(t, at))
					continue;
				buf_put(&now, was.p, was.n);
				now.p[at] ^= (uint8_t)(1U << test_random() % 8);
				if (replace(t, key, &was, &now)) {
					assert_seen(t, row, "changed");
					assert_true(replace(t, key, &now, &was));
					changes++;
				}
				buf_free(&now);
			}
		}
	}
	assert_clean();
	assert_true(changes > 500);
	buf_free(&was);
}

static void missing_rows(void **state)
{
	struct buf was = { 0 };
	uint64_t key = 0;

	for (int t = 0; t < CHAIN_TABLES; t++) {
		for (size_t row = 0; row_at(t, row, &key, &was); row++) {
			assert_true(replace(t, key, &was, NULL));
			assert_seen(t, row, "deleted");
			assert_true(replace(t, key, NULL, &was));
		}
	}
	assert_clean();
	buf_free(&was);
}

static void rows_too_many(void **state)
{
	struct buf last = { 0 };

	for (int t = 0; t < CHAIN_TABLES; t++) {
		uint64_t key = 0;
		size_t row = 0;

		if (t == HF_VERSIONS) /* monerod leaves such rows: tests/chain/pool.c */
			continue;
		while (row_at(t, row, &key, &last))
			row++;
		if (!last.p) {
			fail_msg("table %s is empty", chain_table_name(t));
			return;
		}
		/* A new key where rows are found by key, a new row under the old one where they are found
		 * by their first bytes. */
		switch (t) {
		case BLOCKS:
		case TXS_PRUNED:
		case TXS_PRUNABLE:
		case TXS_PRUNABLE_HASH:
		case TX_OUTPUTS:
			key += 7;
			break;
		default:
			last.p[7] ^= 0x40;
			break;
		}
		assert_true(replace(t, key, NULL, &last));
		assert_seen(t, row, "added");
		assert_true(replace(t, key, &last, NULL));
	}
	assert_clean();
	buf_free(&last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_bytes),
		cmocka_unit_test(missing_rows),
		cmocka_unit_test(rows_too_many),
	};

	return cmocka_run_group_tests(tests, start, finish);
}
