/* SPDX-License-Identifier: BSD-2-Clause
 *
 * synth.c - synthetic chains: the same for the same seed, of the length and the shape that was asked
 * for, and good enough for the import, for verify, and to come out again byte for byte.
 */
#include "synth.h"

#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "support.h"
#include "verify.h"

struct file {
	char *p;
	size_t n;
	struct synth_result result;
};

static struct file make(const struct synth_options *opt)
{
	struct chain_error err = { 0 };
	struct file file = { 0 };
	FILE *f = open_memstream(&file.p, &file.n);

	assert_non_null(f);
	assert_fine(chain_synth(opt, f, &file.result, &err), &err);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(file.n, file.result.bytes);
	return file;
}

static void same_seed(void **state)
{
	struct synth_options opt = { .seed = 1, .blocks = 130, .txs = 5 };
	struct file a = make(&opt), b = make(&opt), c;

	opt.seed = 2;
	c = make(&opt);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.p, b.p, a.n);
	assert_false(a.n == c.n && memcmp(a.p, c.p, a.n) == 0);
	free(a.p);
	free(b.p);
	free(c.p);
}

/* A shorter chain of the same seed is the start of a longer one, but for the header. */
static void prefix(void **state)
{
	struct synth_options opt = { .seed = 3, .blocks = 140, .txs = 5 };
	struct file longer = make(&opt), shorter;

	opt.blocks = 120;
	shorter = make(&opt);
	assert_true(shorter.n < longer.n);
	assert_memory_equal(shorter.p + BOOTSTRAP_HEADER_SIZE, longer.p + BOOTSTRAP_HEADER_SIZE,
	    shorter.n - BOOTSTRAP_HEADER_SIZE);
	free(longer.p);
	free(shorter.p);
}

static void as_many_outputs(void **state)
{
	struct synth_options opt = { .seed = 4, .outputs = 5000, .txs = 20 };
	struct file f = make(&opt);

	/* No block has more than a few hundred. */
	assert_in_range(f.result.outputs, 5000, 5000 + 2000);
	free(f.p);
}

/* The mean of what is drawn, far from its limits: a few hundred transactions. */
static void shape(void **state)
{
	struct synth_options opt = { .seed = 5, .blocks = 300, .txs = 10 };
	struct file f = make(&opt);
	uint64_t outputs = f.result.outputs - f.result.blocks;

	assert_int_equal(f.result.blocks, 300);
	assert_in_range(f.result.txs, 1200, 2800);
	assert_in_range(f.result.inputs * 10 / f.result.txs, 15, 35);
	assert_in_range(outputs * 10 / f.result.txs, 20, 35);
	free(f.p);
}

static void in_and_out(void **state)
{
	struct synth_options opt = { .seed = 6, .blocks = 180, .txs = 8 };
	struct file f = make(&opt);
	struct export_range all = { 0 };
	struct export_result exported;
	struct chain_error err = { 0 };
	struct row_block_info info;
	struct import_result r;
	struct verify_result v;
	struct reader reader;
	struct chain_db db;
	char dir[64], hex[HEX_SIZE], *again;
	size_t n;
	FILE *out;

	make_dir(dir);
	assert_fine(import_bytes(dir, f.p, f.n, 50, &r, &err), &err);
	assert_int_equal(r.blocks, 180);
	assert_int_equal(r.missing, 0);
	open_store(&db, dir);
	assert_fine(chain_verify(&db, &v, &err), &err);
	assert_int_equal(v.outputs, f.result.outputs);
	assert_int_equal(v.key_images, f.result.inputs);
	assert_int_equal(v.txs, f.result.txs + 180);
	assert_fine(reader_begin(&reader, &db, &err), &err);
	assert_fine(reader_block_info(&reader, 0, &info, &err), &err);
	reader_end(&reader);
	assert_string_equal(chain_hex(info.hash, hex),
	    "418015bb9ae982a1975da7d79277c2705727a56894ba0fb246adaabb1f4632e3");
	out = open_memstream(&again, &n);
	assert_non_null(out);
	assert_fine(chain_export(&db, &all, out, &exported, &err), &err);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(n, f.n);
	assert_memory_equal(again, f.p, n);
	chain_db_close(&db);
	remove_dir(dir);
	free(again);
	free(f.p);
}

static bool never(void *ctx, uint64_t done, uint64_t blocks)
{
	return done < 10;
}

static void stopped(void **state)
{
	struct synth_options opt = { .seed = 7, .blocks = 1000, .txs = 8, .progress = never };
	struct chain_error err = { 0 };
	struct synth_result r;
	FILE *f = fopen("/dev/null", "w");

	assert_non_null(f);
	assert_error(chain_synth(&opt, f, &r, &err), &err, CHAIN_REFUSED, "stopped at block 10 of");
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed),
		cmocka_unit_test(prefix),
		cmocka_unit_test(as_many_outputs),
		cmocka_unit_test(shape),
		cmocka_unit_test(in_and_out),
		cmocka_unit_test(stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
