/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pop.c - reorganisations: import N + k and pop k is import N, row by row in every table.
 */
#include <string.h>
#include <unistd.h>

#include "pop.h"
#include "support.h"

#define FIRST_CHUNK 1028

static char popped[64], fresh[64];

static int start(void **state)
{
	make_dir(popped);
	make_dir(fresh);
	return 0;
}

static int finish(void **state)
{
	remove_dir(popped);
	remove_dir(fresh);
	return 0;
}

static void import(const char *dir, const struct buf *f, size_t n)
{
	struct import_result r;
	struct chain_error err = { 0 };

	assert_fine(import_bytes(dir, f->p, n, 64, &r, &err), &err);
}

static int pop(const char *dir, uint64_t n, struct pop_result *r, struct chain_error *err)
{
	struct chain_db db;
	int rc;

	open_store(&db, dir);
	rc = chain_pop(&db, n, r, err);
	chain_db_close(&db);
	return rc;
}

/* The length of the file with its first blocks only. */
static size_t length_of(const struct buf *f, uint64_t blocks)
{
	size_t at = FIRST_CHUNK;
	uint32_t len;

	for (; blocks > 0; blocks--) {
		memcpy(&len, f->p + at, 4);
		at += 4 + len;
	}
	return at;
}

/* Pops in steps of every size, down to the empty store, and holds each against a new import. */
static void pop_all(const struct buf *f, uint64_t height)
{
	struct chain_error err = { 0 };
	struct pop_result r;

	import(popped, f, f->n);
	while (height > 0) {
		uint64_t k = 1 + test_random() % 29;

		if (k > height)
			k = height;
		height -= k;
		assert_fine(pop(popped, k, &r, &err), &err);
		assert_int_equal(r.height, height);
		assert_int_equal(r.blocks, k);
		remove_dir(fresh);
		make_dir(fresh);
		import(fresh, f, length_of(f, height));
		assert_same_rows(popped, fresh, all_tables);
		verify_store(popped, height);
	}
	/* And up again. */
	import(popped, f, f->n);
	import(fresh, f, f->n);
	assert_same_rows(popped, fresh, all_tables);
}

static void real_chain(void **state)
{
	struct buf f = data_file("c.raw");

	pop_all(&f, 150);
	buf_free(&f);
}

static void every_version_and_type(void **state)
{
	struct chain_builder c;
	uint64_t height = 0;

	builder_start(&c, 1);
	for (size_t i = 0; i < every_shape_count; i++, height++)
		builder_block(
		    &c, every_shape[i].version == 1 ? 1 : 4 + (unsigned)i, &every_shape[i], 1);
	for (; height < 40; height++)
		builder_block(&c, 16, every_shape, test_random() % (every_shape_count + 1));
	pop_all(&c.file, height);
	buf_free(&c.file);
}

/* One transaction takes two blocks off and puts them on again: what is committed is as before. */
static void pop_and_append(void **state)
{
	struct buf f = data_file("c.raw");
	struct chain_error err = { 0 };
	struct weight_window window = { 0 };
	struct pop_result sum = { 0 };
	struct package p = { 0 };
	struct bootstrap b;
	struct chunk chunk;
	struct chain_db db;
	struct writer w = { .db = &db, .window = &window };

	import(popped, &f, f.n);
	import(fresh, &f, f.n);
	open_store(&db, popped);
	assert_fine(writer_begin(&w, &err), &err);
	assert_fine(writer_pop(&w, &sum, &err), &err);
	assert_fine(writer_pop(&w, &sum, &err), &err);
	assert_fine(bootstrap_open_memory(&b, f.p, f.n, &err), &err);
	b.offset = length_of(&f, 148);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(bootstrap_next(&b, &chunk, &err), 1);
		assert_fine(package_parse(&p, chunk.body, chunk.body_offset, 1, &err), &err);
		assert_fine(package_hash(&p, &err), &err);
		assert_fine(writer_append(&w, &p, &err), &err);
	}
	assert_fine(writer_commit(&w, &err), &err);
	writer_finish(&w);
	package_finish(&p);
	bootstrap_close(&b);
	chain_db_close(&db);
	assert_same_rows(popped, fresh, all_tables);
	verify_store(popped, 150);
	buf_free(&f);
}

/* Deletes one row of a table; 'last' of the table, as the cursor runs. */
static void damage(const char *dir, enum chain_table t)
{
	struct chain_db db;
	MDB_cursor *cur;
	MDB_txn *txn;
	MDB_val k, v;

	open_store(&db, dir);
	assert_int_equal(mdb_txn_begin(db.env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_cursor_open(txn, db.dbi[t], &cur), 0);
	/* Genesis is the only one with outputs of a public amount, which is the last key. */
	if (t == OUTPUT_AMOUNTS) {
		assert_int_equal(mdb_cursor_get(cur, &k, &v, MDB_FIRST), 0);
		assert_int_equal(mdb_cursor_get(cur, &k, &v, MDB_LAST_DUP), 0);
	} else {
		assert_int_equal(mdb_cursor_get(cur, &k, &v, MDB_LAST), 0);
	}
	assert_int_equal(mdb_cursor_del(cur, 0), 0);
	mdb_cursor_close(cur);
	assert_int_equal(mdb_txn_commit(txn), 0);
	chain_db_close(&db);
}

/* A row that is missing is named, and nothing is changed. */
static void damage_changes_nothing(void **state)
{
	static const enum chain_table found[] = { BLOCK_INFO, TXS_PRUNED, TXS_PRUNABLE,
		TXS_PRUNABLE_HASH, TX_OUTPUTS, OUTPUT_TXS, OUTPUT_AMOUNTS, HF_VERSIONS };
	struct buf f = data_file("c.raw");

	for (size_t i = 0; i < sizeof(found) / sizeof(*found); i++) {
		struct chain_error err = { 0 };
		struct pop_result r;

		remove_dir(popped);
		remove_dir(fresh);
		make_dir(popped);
		make_dir(fresh);
		import(popped, &f, f.n);
		import(fresh, &f, f.n);
		damage(popped, found[i]);
		damage(fresh, found[i]);
		assert_error(pop(popped, 150, &r, &err), &err, CHAIN_DAMAGED, "");
		assert_same_rows(popped, fresh, all_tables);
	}
	buf_free(&f);
}

static void too_many(void **state)
{
	struct buf f = data_file("c.raw");
	struct chain_error err = { 0 };
	struct pop_result r;

	import(popped, &f, f.n);
	assert_error(pop(popped, 151, &r, &err), &err, CHAIN_REFUSED, "the chain has 150");
	memset(&err, 0, sizeof(err));
	assert_fine(pop(popped, 0, &r, &err), &err);
	verify_store(popped, 150);
	buf_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(real_chain, start, finish),
		cmocka_unit_test_setup_teardown(every_version_and_type, start, finish),
		cmocka_unit_test_setup_teardown(pop_and_append, start, finish),
		cmocka_unit_test_setup_teardown(damage_changes_nothing, start, finish),
		cmocka_unit_test_setup_teardown(too_many, start, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
