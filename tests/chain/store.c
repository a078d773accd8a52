/* SPDX-License-Identifier: BSD-2-Clause
 *
 * store.c - imports: the same rows as monerod's, in batches of any size, in parts, after errors.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "verify.h"

#define FIRST_CHUNK 1028

static struct buf c_raw;
static char dir[64];

static int start(void **state)
{
	if (!c_raw.p)
		c_raw = data_file("c.raw");
	make_dir(dir);
	return 0;
}

static int finish(void **state)
{
	remove_dir(dir);
	return 0;
}

/* The offset of the chunk of block `height`. */
static size_t chunk_at(const struct buf *f, uint64_t height)
{
	size_t at = FIRST_CHUNK;
	uint32_t len;

	for (; height > 0; height--) {
		memcpy(&len, f->p + at, 4);
		at += 4 + len;
	}
	return at;
}

static void import_fine(const struct buf *f, uint64_t batch, uint64_t blocks)
{
	struct import_result r;
	struct chain_error err = { 0 };

	assert_fine(import_bytes(dir, f->p, f->n, batch, &r, &err), &err);
	assert_int_equal(r.blocks, blocks);
	assert_int_equal(r.bulk.n, (blocks + batch - 1) / batch);
}

/* monerod's own file, where a lock file may be made beside it. */
static void copy_of_monerod(char path[128])
{
	struct buf f = data_file("c.monerod.mdb");

	join(path, dir, "monerod.mdb");
	write_file(path, f.p, f.n);
	buf_free(&f);
}

static void rows_as_monerod(void **state)
{
	char monerod[128];

	import_fine(&c_raw, 40, 150);
	copy_of_monerod(monerod);
	assert_same_rows(dir, monerod, all_tables);
	verify_store(dir, 150);
	verify_store(monerod, 150);
}

static void any_batch(void **state)
{
	char monerod[128], other[128];

	copy_of_monerod(monerod);
	for (uint64_t batch = 1; batch < 1000; batch = batch * 7 + 3) {
		import_fine(&c_raw, batch, 150);
		assert_same_rows(dir, monerod, all_tables);
		join(other, dir, "data.mdb");
		assert_int_equal(unlink(other), 0);
		join(other, dir, "lock.mdb");
		assert_int_equal(unlink(other), 0);
	}
}

static void every_version_and_type(void **state)
{
	struct chain_builder c;

	builder_start(&c, 1);
	for (size_t i = 0; i < every_shape_count; i++)
		builder_block(
		    &c, every_shape[i].version == 1 ? 1 : 4 + (unsigned)i, &every_shape[i], 1);
	builder_block(&c, 16, NULL, 0);
	/* Several amounts in one block, the same ones again. */
	builder_block(&c, 16, every_shape, every_shape_count);
	import_fine(&c.file, 5, every_shape_count + 2);
	verify_store(dir, every_shape_count + 2);
	buf_free(&c.file);
}

/* Cut at places all over the file, import, then the whole file on top. */
static void cut_then_whole(void **state)
{
	char monerod[128], data[128], lock[128];
	struct import_result r;
	struct chain_error err;

	copy_of_monerod(monerod);
	join(data, dir, "data.mdb");
	join(lock, dir, "lock.mdb");
	for (size_t n = FIRST_CHUNK; n < c_raw.n; n += 1 + test_random() % 6000) {
		uint64_t blocks = 0;

		while (blocks < 150 && chunk_at(&c_raw, blocks + 1) <= n)
			blocks++;
		memset(&err, 0, sizeof(err));
		if (import_bytes(dir, c_raw.p, n, 16, &r, &err))
			assert_error(-1, &err, CHAIN_INPUT, "cut short");
		else
			assert_int_equal(chunk_at(&c_raw, blocks), n);
		assert_int_equal(r.blocks, blocks);
		assert_int_equal(r.height, blocks);
		if (err.kind == CHAIN_OK)
			assert_int_equal(r.missing, 150 - blocks);
		verify_store(dir, blocks);
		memset(&err, 0, sizeof(err));
		assert_fine(import_bytes(dir, c_raw.p, c_raw.n, 16, &r, &err), &err);
		assert_int_equal(r.start_height, blocks);
		assert_int_equal(r.blocks, 150 - blocks);
		assert_int_equal(r.missing, 0);
		assert_same_rows(dir, monerod, all_tables);
		assert_int_equal(unlink(data), 0);
		assert_int_equal(unlink(lock), 0);
	}
}

static void again_changes_nothing(void **state)
{
	struct stat before, after;
	char data[128];

	join(data, dir, "data.mdb");
	import_fine(&c_raw, 100, 150);
	assert_int_equal(stat(data, &before), 0);
	import_fine(&c_raw, 100, 0);
	assert_int_equal(stat(data, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	verify_store(dir, 150);
}

/* Damage in block 120: those before it are stored, block 119 included, and no other. */
static void damage_keeps_what_was_good(void **state)
{
	struct buf f = data_file("c.raw");
	struct import_result r;
	struct chain_error err = { 0 };
	uint64_t batch = 50;

	memset(f.p + chunk_at(&f, 120), 0, 4);
	assert_error(
	    import_bytes(dir, f.p, f.n, batch, &r, &err), &err, CHAIN_INPUT, "chunk length is 0");
	assert_int_equal(r.height, 120);
	verify_store(dir, 120);
	import_fine(&c_raw, batch, 30);
	verify_store(dir, 150);
	buf_free(&f);
}

/* The nonce of block 100 is in no hash but those of the blocks after it. It must not be stored. */
static void damaged_block_is_not_stored(void **state)
{
	struct buf f = data_file("c.raw");
	struct import_result r;
	struct chain_error err = { 0 };

	/* Length, two version bytes, five of the timestamp, 32 of the hash. */
	f.p[chunk_at(&f, 100) + 4 + 2 + 5 + 32] ^= 1;
	assert_error(import_bytes(dir, f.p, f.n, 30, &r, &err), &err, CHAIN_INPUT,
	    "block 100 is not the one that the next block follows");
	assert_int_equal(r.height, 100);
	buf_free(&f);
	import_fine(&c_raw, 30, 50);
	verify_store(dir, 150);
}

static void another_chain(void **state)
{
	struct buf f = data_file("a.raw");
	struct import_result r;
	struct chain_error err = { 0 };

	import_fine(&c_raw, 100, 150);
	assert_error(import_bytes(dir, f.p, f.n, 100, &r, &err), &err, CHAIN_REFUSED,
	    "another chain: block 149 is 5641a889");
	assert_int_equal(r.blocks, 0);
	/* A shorter one, whose end lies within the store. */
	memset(&err, 0, sizeof(err));
	assert_error(import_bytes(dir, f.p, chunk_at(&f, 80), 100, &r, &err), &err, CHAIN_REFUSED,
	    "another chain: block 79 is ");
	buf_free(&f);
	verify_store(dir, 150);
}

/* Exports of parts: 0 to 59, then 40 to 99, then 101 on. */
static void parts(void **state)
{
	struct import_result r;
	struct chain_error err = { 0 };
	struct buf part = { 0 };
	size_t from;

	import_fine(&(struct buf){ .p = c_raw.p, .n = chunk_at(&c_raw, 60) }, 100, 60);
	from = chunk_at(&c_raw, 40);
	buf_put(&part, c_raw.p, FIRST_CHUNK);
	buf_put(&part, c_raw.p + from, chunk_at(&c_raw, 100) - from);
	import_fine(&part, 100, 40);
	verify_store(dir, 100);
	part.n = FIRST_CHUNK;
	from = chunk_at(&c_raw, 101);
	buf_put(&part, c_raw.p + from, c_raw.n - from);
	assert_error(import_bytes(dir, part.p, part.n, 100, &r, &err), &err, CHAIN_REFUSED,
	    "starts at block 101, but the store needs block 100");
	verify_store(dir, 100);
	/* A part of a damaged file: a block is missing in the middle. */
	part.n = FIRST_CHUNK;
	from = chunk_at(&c_raw, 90);
	buf_put(&part, c_raw.p + from, chunk_at(&c_raw, 110) - from);
	from = chunk_at(&c_raw, 111);
	buf_put(&part, c_raw.p + from, c_raw.n - from);
	memset(&err, 0, sizeof(err));
	assert_error(import_bytes(dir, part.p, part.n, 100, &r, &err), &err, CHAIN_INPUT,
	    "block 109 is not the one that the next block follows");
	verify_store(dir, 109);
	buf_free(&part);
}

static void header_alone(void **state)
{
	import_fine(&(struct buf){ .p = c_raw.p, .n = FIRST_CHUNK }, 100, 0);
	verify_store(dir, 0);
	import_fine(&c_raw, 100, 150);
}

/* A key image that was there before: in an earlier batch, in the same one, in the same block. What
 * the batch held before it must be stored all the same. */
static void double_spend(void **state)
{
	static const uint8_t image[32] = { 0xda, 0x7a };
	struct tx_shape once = every_shape[8];
	struct tx_shape twice[2];
	struct import_result r;
	struct chain_error err;
	struct chain_builder c;
	char data[128];

	once.key_image = image;
	twice[0] = twice[1] = once;
	join(data, dir, "data.mdb");
	for (uint64_t batch = 1; batch <= 16; batch *= 2) {
		builder_start(&c, 1);
		for (int i = 0; i < 5; i++)
			builder_block(&c, 16, every_shape, 2);
		builder_block(&c, 16, &once, 1);
		for (int i = 0; i < 5; i++)
			builder_block(&c, 16, every_shape, 3);
		builder_block(&c, 16, &once, 1);
		builder_block(&c, 16, NULL, 0);
		memset(&err, 0, sizeof(err));
		assert_error(import_bytes(dir, c.file.p, c.file.n, batch, &r, &err), &err,
		    CHAIN_INPUT, "block 11 brings da7a0000");
		assert_int_equal(r.height, 11);
		assert_int_equal(r.blocks, 11);
		assert_int_equal(r.outputs, 5 * 6 + 3 + 5 * 8);
		verify_store(dir, 11);
		assert_int_equal(unlink(data), 0);
		buf_free(&c.file);
	}
	builder_start(&c, 1);
	builder_block(&c, 16, NULL, 0);
	builder_block(&c, 16, twice, 2);
	memset(&err, 0, sizeof(err));
	assert_error(import_bytes(dir, c.file.p, c.file.n, 10, &r, &err), &err, CHAIN_INPUT,
	    "block 1 brings da7a0000");
	verify_store(dir, 1);
	buf_free(&c.file);
}

/* The map is full: what was committed stays, and a larger map goes on from there. */
static void map_full(void **state)
{
	struct chain_db_options opt = { .write = true, .map_size = 600 << 10 };
	struct import_options how = { .batch = 10 };
	struct buf f = data_file("a.raw");
	struct import_result r;
	struct chain_error err = { 0 };
	struct bootstrap b;
	struct chain_db db;
	uint64_t height;

	assert_fine(chain_db_open(&db, dir, &opt, &err), &err);
	assert_fine(bootstrap_open_memory(&b, f.p, f.n, &err), &err);
	assert_error(chain_import(&db, &b, &how, &r, &err), &err, CHAIN_SYSTEM, "--map-size");
	chain_db_close(&db);
	height = r.height;
	assert_in_range(height, 10, 1199);
	assert_int_equal(height % 10, 0);
	assert_int_equal(r.bulk.n, height / 10);
	verify_store(dir, height);
	memset(&err, 0, sizeof(err));
	assert_fine(import_bytes(dir, f.p, f.n, 100, &r, &err), &err);
	assert_int_equal(r.start_height, height);
	verify_store(dir, 1200);
	buf_free(&f);
}

static bool stop_at_33(void *ctx, const struct import_result *r)
{
	return r->height < 33;
}

static void stopped(void **state)
{
	struct import_options opt = { .batch = 50, .progress = stop_at_33 };
	struct chain_error err = { 0 };
	struct import_result r;
	struct bootstrap b;
	struct chain_db db;

	open_store(&db, dir);
	assert_fine(bootstrap_open_memory(&b, c_raw.p, c_raw.n, &err), &err);
	assert_fine(chain_import(&db, &b, &opt, &r, &err), &err);
	assert_true(r.interrupted);
	assert_int_equal(r.height, 33);
	assert_int_equal(r.missing, 0);
	chain_db_close(&db);
	verify_store(dir, 33);
	import_fine(&c_raw, 50, 117);
	verify_store(dir, 150);
}

/* A database that is none of Monero's. */
static void not_a_chain(void **state)
{
	struct chain_db_options opt = { .write = true, .map_size = 1 << 20 };
	struct chain_error err = { 0 };
	struct chain_db db;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	assert_error(
	    chain_db_open(&db, "nowhere/at/all", &opt, &err), &err, CHAIN_SYSTEM, "nowhere");
	memset(&err, 0, sizeof(err));
	opt.write = false;
	assert_error(
	    chain_db_open(&db, dir, &opt, &err), &err, CHAIN_REFUSED, "no chain is stored");
	memset(&err, 0, sizeof(err));
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, 4), 0);
	assert_int_equal(mdb_env_open(env, dir, 0, 0644), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, "blocks", MDB_CREATE | MDB_DUPSORT, &dbi), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
	assert_error(
	    chain_db_open(&db, dir, &opt, &err), &err, CHAIN_REFUSED, "table blocks has flags");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rows_as_monerod, start, finish),
		cmocka_unit_test_setup_teardown(any_batch, start, finish),
		cmocka_unit_test_setup_teardown(every_version_and_type, start, finish),
		cmocka_unit_test_setup_teardown(cut_then_whole, start, finish),
		cmocka_unit_test_setup_teardown(again_changes_nothing, start, finish),
		cmocka_unit_test_setup_teardown(damage_keeps_what_was_good, start, finish),
		cmocka_unit_test_setup_teardown(damaged_block_is_not_stored, start, finish),
		cmocka_unit_test_setup_teardown(another_chain, start, finish),
		cmocka_unit_test_setup_teardown(parts, start, finish),
		cmocka_unit_test_setup_teardown(header_alone, start, finish),
		cmocka_unit_test_setup_teardown(double_spend, start, finish),
		cmocka_unit_test_setup_teardown(map_full, start, finish),
		cmocka_unit_test_setup_teardown(stopped, start, finish),
		cmocka_unit_test_setup_teardown(not_a_chain, start, finish),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	buf_free(&c_raw);
	return rc;
}
