/* SPDX-License-Identifier: BSD-2-Clause
 *
 * types.c - transactions of every version and type, made by hand.
 */
#include <stdlib.h>
#include <string.h>

#include "support.h"

static struct cursor parse(const struct buf *b, struct tx *tx)
{
	struct cursor c;

	cursor_init(&c, b->p, b->n, 1000);
	tx_parse(&c, false, tx);
	cursor_end(&c, "transaction");
	return c;
}

static void assert_refused(const struct buf *b, const char *what, const char *why)
{
	struct tx tx;
	struct cursor c = parse(b, &tx);

	assert_false(cursor_ok(&c));
	assert_string_equal(c.what, what);
	assert_string_equal(c.why, why);
	assert_in_range(c.where, 1000, 1000 + b->n);
}

static void every_type(void **state)
{
	for (size_t i = 0; i < every_shape_count; i++) {
		const struct tx_shape *s = &every_shape[i];
		struct buf b = { 0 };
		struct tx tx;
		struct cursor c;

		build_tx(&b, s);
		c = parse(&b, &tx);
		if (!cursor_ok(&c))
			fail_msg("shape %zu: %s %s", i, c.what, c.why);
		assert_int_equal(tx.version, s->version);
		assert_int_equal(tx.type, s->type);
		assert_int_equal(tx.n_inputs, s->inputs);
		assert_int_equal(tx.n_outputs, s->outputs);
		assert_int_equal(tx.ring, s->ring);
		assert_int_equal(tx.prefix.n + tx.base.n, tx.pruned.n);
		assert_int_equal(tx.pruned.n + tx.prunable.n, b.n);
		assert_int_equal(tx.commitments.n, s->version == 2 ? s->outputs * 32 : 0);
		assert_int_equal(tx.fee,
		    s->version == 2 ? s->fee
				    : s->inputs * s->in_amount - s->outputs * s->out_amount);
		buf_free(&b);
	}
}

/* Cut anywhere, in a buffer of exactly that size, so that a sanitizer sees a read too far. */
static void cut_anywhere(void **state)
{
	for (size_t i = 0; i < every_shape_count; i++) {
		struct buf b = { 0 };

		build_tx(&b, &every_shape[i]);
		for (size_t n = 0; n < b.n; n += 1 + n / 500) {
			struct buf cut = { 0 };
			struct tx tx;
			struct cursor c;

			buf_put(&cut, b.p, n);
			cut.p = realloc(cut.p, n ? n : 1);
			assert_non_null(cut.p);
			c = parse(&cut, &tx);
			assert_false(cursor_ok(&c));
			/* No counts without their bytes. */
			assert_int_equal(tx.n_inputs + tx.n_outputs, 0);
			buf_free(&cut);
		}
		buf_free(&b);
	}
}

static void bytes_left_over(void **state)
{
	struct buf b = { 0 };

	build_tx(&b, &every_shape[0]);
	buf_put(&b, "", 1);
	assert_refused(&b, "transaction", "bytes left over");
	buf_free(&b);
}

/* One byte of a transaction changed: where it is, and what must be said. */
static void refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		const char *what, *why;
	} cases[] = {
		{ 0, 3, "transaction version", "is neither 1 nor 2" },
		{ 0, 0, "transaction version", "is neither 1 nor 2" },
		{ 2, 0, "number of inputs", "is 0" },
		{ 3, 1, "input tag", "is neither 02 (key) nor ff (generated)" },
		{ 3, 0xff, "input", "is a generated one outside a miner transaction" },
		{ 5, 0, "ring", "has no members" },
	};
	struct tx_shape s = { .version = 2, .type = 6, .inputs = 1, .outputs = 2, .ring = 4 };
	struct buf b = { 0 };

	build_tx(&b, &s);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t was = b.p[cases[i].at];

		b.p[cases[i].at] = cases[i].value;
		assert_refused(&b, cases[i].what, cases[i].why);
		b.p[cases[i].at] = was;
	}
	buf_free(&b);
}

static void refused_by_type(void **state)
{
	struct tx_shape s = { .version = 2, .type = 6, .inputs = 2, .outputs = 2, .ring = 1 };
	struct buf b = { 0 };
	struct tx tx;
	size_t base;

	build_tx(&b, &s);
	(void)parse(&b, &tx);
	base = tx.prefix.n;
	b.p[base] = 7;
	assert_refused(&b, "RingCT type", "is none of 0 to 6");
	b.p[base] = 0;
	assert_refused(&b, "RingCT type", "is 0 outside a miner transaction");
	/* L of 6 elements said to be 5: R then starts within it. */
	b.p[base] = 6;
	b.p[tx.pruned.n + 1 + 6 * 32] = 5;
	(void)parse(&b, &tx);
	assert_int_equal(tx.n_outputs, 0);
	buf_free(&b);

	/* More outputs than the proofs have room for. */
	s.proofs = 2;
	s.outputs = 4;
	build_tx(&b, &s);
	(void)parse(&b, &tx);
	assert_int_equal(tx.padded, 4);
	buf_free(&b);
	s = (struct tx_shape){
		.version = 2, .type = 6, .inputs = 1, .outputs = 2, .ring = 1, .proofs = 3
	};
	build_tx(&b, &s);
	assert_refused(&b, "range proofs", "do not fit the number of outputs");
	buf_free(&b);
	s = (struct tx_shape){ .version = 2, .type = 5, .inputs = 1, .outputs = 17, .ring = 1 };
	build_tx(&b, &s);
	assert_refused(&b, "range proof", "has L and R of impossible lengths");
	buf_free(&b);
}

static void refused_amounts(void **state)
{
	struct tx_shape s = { .version = 1, .inputs = 1, .outputs = 1, .ring = 1, .in_amount = 5 };
	struct buf b = { 0 };

	build_tx(&b, &s);
	assert_refused(&b, "output amount", "is 0 in a version 1 output");
	buf_free(&b);
	s.out_amount = 6;
	build_tx(&b, &s);
	assert_refused(&b, "transaction", "spends more than its inputs hold");
	buf_free(&b);
	s.inputs = 2;
	s.in_amount = UINT64_MAX;
	build_tx(&b, &s);
	assert_refused(&b, "input amounts", "add up to more than 64 bits");
	buf_free(&b);
	s = (struct tx_shape){
		.version = 2, .type = 6, .inputs = 1, .outputs = 2, .ring = 1, .out_amount = 4
	};
	build_tx(&b, &s);
	assert_refused(&b, "output amount", "is in clear in a RingCT output");
	buf_free(&b);
}

static void varints(void **state)
{
	static const struct {
		uint8_t bytes[11];
		size_t n;
		uint64_t value;
		const char *why;
	} cases[] = {
		{ { 0x00 }, 1, 0, NULL },
		{ { 0x7f }, 1, 127, NULL },
		{ { 0x80, 0x01 }, 2, 128, NULL },
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 }, 10, UINT64_MAX,
		    NULL },
		{ { 0x80, 0x00 }, 2, 0, "varint not in its shortest form" },
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 }, 10, 0,
		    "varint over 64 bits" },
		{ { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00 }, 11, 0,
		    "varint over 64 bits" },
		{ { 0x80 }, 1, 0, "runs past the end of the data" },
		{ { 0 }, 0, 0, "runs past the end of the data" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cursor c;
		uint64_t v;

		cursor_init(&c, cases[i].bytes, cases[i].n, 0);
		v = cursor_varint(&c, "number");
		assert_int_equal(v, cases[i].value);
		if (cases[i].why) {
			assert_string_equal(c.why, cases[i].why);
			assert_int_equal(c.where, 0);
		} else {
			assert_true(cursor_ok(&c));
			assert_int_equal(c.pos, cases[i].n);
		}
	}
}

/* Errors stick: the first is kept, and nothing is read after it. */
static void first_error_stays(void **state)
{
	static const uint8_t bytes[8] = { 0x80, 0x00, 1, 2, 3, 4, 5, 6 };
	struct cursor c;

	cursor_init(&c, bytes, sizeof(bytes), 0);
	(void)cursor_varint(&c, "first");
	assert_int_equal(cursor_u8(&c, "second"), 0);
	assert_int_equal(cursor_u32(&c, "third"), 0);
	assert_int_equal(cursor_take(&c, SIZE_MAX, SIZE_MAX, "fourth").n, 0);
	assert_string_equal(c.what, "first");
	assert_int_equal(c.pos, 0);
	cursor_init(&c, bytes, sizeof(bytes), 0);
	assert_int_equal(cursor_take(&c, SIZE_MAX / 2, 4, "product").n, 0);
	assert_false(cursor_ok(&c));
}

/* Clawback: by hand for 16 outputs in one proof of Bulletproofs+ and of Bulletproofs. Half of a proof
 * for two: (6 + 14) * 32 / 2 = 320 and (9 + 14) * 32 / 2 = 368; one for 16: (6 + 20) * 32 = 832 and
 * (9 + 20) * 32 = 928; so (320 * 16 - 832) * 4 / 5 = 3430 and (368 * 16 - 928) * 4 / 5 = 3968. */
static void weights(void **state)
{
	static const struct {
		unsigned type, outputs;
		uint64_t more;
	} cases[] = { { 6, 16, 3430 }, { 5, 16, 3968 }, { 6, 2, 0 }, { 2, 5, 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tx_shape s = { .version = 2,
			.type = cases[i].type,
			.inputs = 1,
			.outputs = cases[i].outputs,
			.ring = 2 };
		struct buf b = { 0 };
		struct tx tx;

		build_tx(&b, &s);
		(void)parse(&b, &tx);
		assert_int_equal(tx_weight(&tx), b.n + cases[i].more);
		buf_free(&b);
	}
}

/* Each number of leaves, against the definition level by level. */
static void tree(void **state)
{
	uint8_t leaves[40][32], scratch[40][32], level[40][32], out[32];

	for (size_t i = 0; i < 40; i++)
		for (size_t j = 0; j < 32; j++)
			leaves[i][j] = (uint8_t)test_random();
	for (size_t n = 1; n <= 40; n++) {
		size_t c = 1, m = n;

		memcpy(level, leaves, n * 32);
		while (2 * c < n)
			c *= 2;
		if (n > 2) {
			/* Keep 2c - n, hash the others by twos. */
			for (size_t i = 2 * c - n, j = 2 * c - n; i < n; i += 2, j++)
				keccak256(leaves[i], 64, level[j]);
			m = c;
		}
		for (; m > 1; m /= 2)
			for (size_t i = 0; i < m / 2; i++)
				keccak256(level[2 * i], 64, level[i]);
		hash_tree(leaves[0], leaves[1], n - 1, scratch[0], out);
		assert_memory_equal(out, level[0], 32);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(bytes_left_over),
		cmocka_unit_test(refused),
		cmocka_unit_test(refused_by_type),
		cmocka_unit_test(refused_amounts),
		cmocka_unit_test(varints),
		cmocka_unit_test(first_error_stays),
		cmocka_unit_test(weights),
		cmocka_unit_test(tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
