/* SPDX-License-Identifier: BSD-2-Clause
 *
 * prune.c - pruned stores: what must go is gone, what must stay is there, and the store verifies,
 * grows and shrinks as before. Stripes of 4 blocks, and 10 at the end that are always whole.
 */
#include "prune.h"

#include <string.h>

#include "export.h"
#include "pop.h"
#include "support.h"
#include "verify.h"

#define STRIPE_BLOCKS 4
#define TIP_BLOCKS    10

static char dir[64];

static int start(void **state)
{
	make_dir(dir);
	return 0;
}

static int finish(void **state)
{
	remove_dir(dir);
	return 0;
}

static void open_small(struct chain_db *db)
{
	open_store(db, dir);
	db->prune_rule = (struct prune_rule){ STRIPE_BLOCKS, TIP_BLOCKS };
}

static void prune(unsigned stripe, struct prune_result *r)
{
	struct chain_error err = { 0 };
	struct chain_db db;

	open_small(&db);
	assert_fine(chain_prune(&db, stripe, r, &err), &err);
	chain_db_close(&db);
}

static void verify(uint64_t blocks)
{
	struct chain_error err = { 0 };
	struct verify_result r;
	struct chain_db db;

	open_small(&db);
	assert_fine(chain_verify(&db, &r, &err), &err);
	assert_int_equal(r.blocks, blocks);
	chain_db_close(&db);
}

/* Which transactions have their prunable part, by Monero's rule, written down once more; and that the
 * last blocks' are listed. */
static void check_rows(unsigned stripe, uint64_t height)
{
	struct chain_error err = { 0 };
	struct chain_db db;
	struct reader r;
	uint64_t tx_id = 0, listed = 0, n;

	open_small(&db);
	assert_fine(reader_begin(&r, &db, &err), &err);
	for (uint64_t h = 0; h < height; h++) {
		struct block b;
		struct tx tx;
		bool tip = h + TIP_BLOCKS >= height;

		assert_fine(load_block(&r, h, &b, &err), &err);
		for (size_t i = 0; i <= b.n_txs; i++, tx_id++, listed += tip) {
			assert_fine(load_tx(&r, tx_id, i == 0, &tx, &err), &err);
			assert_int_equal(
			    tx.stub, tx.version == 2 && !tip && (h / 4) % 8 != stripe - 1);
		}
	}
	assert_fine(chain_rows(r.txn, &db, TXS_PRUNABLE_TIP, &n, &err), &err);
	assert_int_equal(n, listed);
	reader_end(&r);
	chain_db_close(&db);
}

static void import(const struct chain_builder *c)
{
	struct chain_error err = { 0 };
	struct import_result r;

	assert_fine(import_bytes(dir, c->file.p, c->file.n, 7, &r, &err), &err);
}

static void grow(struct chain_builder *c, uint64_t height)
{
	while (c->tip.height < height)
		builder_block(c, 16, every_shape, (size_t)test_random() % (every_shape_count + 1));
}

static void every_stripe(void **state)
{
	for (unsigned stripe = 1; stripe <= PRUNE_STRIPES; stripe++) {
		struct chain_builder c;
		struct prune_result r;

		builder_start(&c, 1);
		grow(&c, 60);
		import(&c);
		prune(stripe, &r);
		assert_int_equal(r.stripe, stripe);
		assert_true(r.txs > 0 && r.bytes > 0);
		check_rows(stripe, 60);
		verify(60);
		/* It grows, and what has become old can go. */
		grow(&c, 90);
		import(&c);
		verify(90);
		prune(0, &r);
		assert_int_equal(r.stripe, stripe);
		check_rows(stripe, 90);
		verify(90);
		/* Nothing is left to be done. */
		prune(stripe, &r);
		assert_int_equal(r.txs, 0);
		check_rows(stripe, 90);
		buf_free(&c.file);
		remove_dir(dir);
		make_dir(dir);
	}
}

static void pop_and_again(void **state)
{
	struct chain_error err = { 0 };
	struct pop_result popped;
	struct chain_builder c;
	struct prune_result r;
	struct chain_db db;

	builder_start(&c, 1);
	grow(&c, 80);
	import(&c);
	prune(5, &r);
	/* Deep into what was pruned. */
	open_small(&db);
	assert_fine(chain_pop(&db, 50, &popped, &err), &err);
	chain_db_close(&db);
	verify(30);
	import(&c);
	verify(80);
	prune(5, &r);
	check_rows(5, 80);
	verify(80);
	open_small(&db);
	assert_fine(chain_pop(&db, 80, &popped, &err), &err);
	chain_db_close(&db);
	verify(0);
	buf_free(&c.file);
}

static void refused(void **state)
{
	struct chain_error err = { 0 };
	struct export_range range = { 0 };
	struct export_result exported;
	struct chain_builder c;
	struct prune_result r;
	struct chain_db db;
	FILE *f = fopen("/dev/null", "w");

	assert_non_null(f);
	builder_start(&c, 1);
	grow(&c, 60);
	import(&c);
	prune(2, &r);
	open_small(&db);
	assert_error(chain_prune(&db, 3, &r, &err), &err, CHAIN_REFUSED, "stripe 2");
	memset(&err, 0, sizeof(err));
	assert_error(chain_export(&db, &range, f, &exported, &err), &err, CHAIN_REFUSED, "pruned");
	chain_db_close(&db);
	fclose(f);
	buf_free(&c.file);
}

/* A row that the rule says must be there. */
static void lost_row(void **state)
{
	struct chain_error err = { 0 };
	struct verify_result v;
	struct chain_builder c;
	struct prune_result r;
	struct chain_db db;
	uint64_t first = 0;
	MDB_txn *txn;
	MDB_val k = { sizeof(first), &first };

	builder_start(&c, 1);
	/* Blocks 0 to 3 are stripe 1. */
	grow(&c, 60);
	import(&c);
	prune(1, &r);
	open_small(&db);
	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_del(txn, db.dbi[TXS_PRUNABLE], &k, NULL), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	assert_error(
	    chain_verify(&db, &v, &err), &err, CHAIN_DAMAGED, "block 0: table txs_prunable");
	chain_db_close(&db);
	buf_free(&c.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_stripe, start, finish),
		cmocka_unit_test_setup_teardown(pop_and_again, start, finish),
		cmocka_unit_test_setup_teardown(refused, start, finish),
		cmocka_unit_test_setup_teardown(lost_row, start, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
