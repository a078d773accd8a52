/* SPDX-License-Identifier: BSD-2-Clause
 *
 * files.c - real chain files: every hash, the header's variants, and damage of every kind, held
 * against the parser and the checks, without a database.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "block.h"
#include "support.h"

/* Reads to the end or to an error, and returns the blocks that were good. Without check: parses
 * only. */
static uint64_t read_all(struct bootstrap *b, bool check, struct chain_error *err)
{
	struct package p = { 0 };
	struct tip tip = { 0 };
	struct chunk chunk;
	uint64_t n = 0;

	while (bootstrap_next(b, &chunk, err) > 0) {
		if (package_parse(&p, chunk.body, chunk.body_offset, b->major, err))
			break;
		if (check) {
			const uint8_t *named = block_peek_prev(chunk.after);

			if (package_check(&p, &tip, err))
				break;
			if (named && memcmp(named, p.hash, HASH_SIZE) != 0) {
				chain_error_set(err, CHAIN_INPUT, "offset: the next names another");
				break;
			}
			tip = package_tip(&p);
		}
		n++;
	}
	package_finish(&p);
	return n;
}

static uint64_t read_bytes(const void *data, size_t n, bool check, struct chain_error *err)
{
	struct bootstrap b;
	uint64_t blocks;

	memset(err, 0, sizeof(*err));
	if (bootstrap_open_memory(&b, data, n, err))
		return 0;
	blocks = read_all(&b, check, err);
	bootstrap_close(&b);
	return blocks;
}

/* ---- hashes ---- */

static const char *text_at(struct json_object *list, size_t i)
{
	return json_object_get_string(json_object_array_get_idx(list, i));
}

static void assert_hashes(const char *raw, const char *json)
{
	char path[512], hex[HEX_SIZE];
	struct json_object *top, *blocks, *txs;
	struct chain_error err = { 0 };
	struct package p = { 0 };
	struct tip tip = { 0 };
	struct bootstrap b;
	struct chunk chunk;
	size_t n_txs = 0;

	snprintf(path, sizeof(path), CHAIN_DATA "/%s", json);
	top = json_object_from_file(path);
	assert_non_null(top);
	assert_true(json_object_object_get_ex(top, "block_hashes", &blocks));
	assert_true(json_object_object_get_ex(top, "txs", &txs));
	snprintf(path, sizeof(path), CHAIN_DATA "/%s", raw);
	assert_fine(bootstrap_open(&b, path, &err), &err);
	while (bootstrap_next(&b, &chunk, &err) > 0) {
		assert_fine(package_parse(&p, chunk.body, chunk.body_offset, b.major, &err), &err);
		assert_fine(package_check(&p, &tip, &err), &err);
		assert_string_equal(chain_hex(p.hash, hex), text_at(blocks, tip.height));
		for (size_t i = 0; i < p.block.n_txs; i++) {
			/* package_check() has compared the list with what it computed. */
			struct json_object *tx = json_object_array_get_idx(txs, n_txs++);

			chain_hex(p.block.hashes.p + i * HASH_SIZE, hex);
			assert_string_equal(hex, text_at(tx, 0));
			assert_int_equal(
			    tip.height, json_object_get_int64(json_object_array_get_idx(tx, 1)));
		}
		tip = package_tip(&p);
	}
	assert_fine(0, &err);
	assert_int_equal(tip.height, json_object_array_length(blocks));
	assert_int_equal(n_txs, json_object_array_length(txs));
	package_finish(&p);
	bootstrap_close(&b);
	json_object_put(top);
}

static void hashes_of_c(void **state)
{
	assert_hashes("c.raw", "c.hashes.json");
}

static void hashes_of_a(void **state)
{
	assert_hashes("a.raw", "a.hashes.json");
}

/* ---- header ---- */

/* A later export appends chunks under the first one's header: what it says is a hint. */
static void heights_are_hints(void **state)
{
	struct buf f = data_file("c.raw");
	struct chain_error err;
	struct bootstrap b;

	memset(&err, 0, sizeof(err));
	assert_fine(bootstrap_open_memory(&b, f.p, f.n, &err), &err);
	assert_int_equal(b.major, 1);
	assert_int_equal(b.hint_first, 0);
	assert_int_equal(b.hint_last, 149);
	/* As if the first export had ended at 50: record of 3 bytes. */
	f.p[12] = 3;
	f.p[17] = 50;
	f.p[18] = 0;
	assert_fine(bootstrap_open_memory(&b, f.p, f.n, &err), &err);
	assert_int_equal(b.hint_last, 50);
	assert_int_equal(read_all(&b, true, &err), 150);
	assert_fine(0, &err);
	buf_free(&f);
}

/* A larger header moves the chunks; records say nothing of where they are. */
static void header_size_counts(void **state)
{
	struct buf f = data_file("c.raw"), g = { 0 };
	struct chain_error err;
	uint8_t zeros[16] = { 0 };

	buf_put(&g, f.p, 1028);
	buf_put(&g, zeros, 16);
	buf_put(&g, f.p + 1028, f.n - 1028);
	g.p[10] = 0x90; /* 1040 */
	assert_int_equal(read_bytes(g.p, g.n, true, &err), 150);
	assert_fine(0, &err);
	buf_free(&f);
	buf_free(&g);
}

/* Older exports: one varint less a block. */
static void format_0(void **state)
{
	for (uint8_t major = 0; major < 2; major++) {
		struct chain_builder c;
		struct chain_error err;

		builder_start(&c, major);
		for (size_t i = 0; i < 4; i++)
			builder_block(&c, 1, every_shape, 2);
		assert_int_equal(read_bytes(c.file.p, c.file.n, true, &err), 4);
		assert_fine(0, &err);
		assert_int_equal(c.tip.difficulty_high, major);
		/* Read as the other format, it is no block. */
		c.file.p[8] = !major;
		assert_true(read_bytes(c.file.p, c.file.n, true, &err) < 4);
		assert_error(-1, &err, CHAIN_INPUT, "offset ");
		buf_free(&c.file);
	}
}

static void bad_headers(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
		const char *why;
	} cases[] = {
		{ 0, 0x85, "offset 0 (0x0): magic number" },
		{ 3, 0x29, "offset 0 (0x0): magic number" },
		{ 4, 255, "offset 8 (0x8): file-info record" },
		{ 4, 2, "offset 10 (0xa): header size runs past" },
		{ 8, 2, "offset 8 (0x8): format major version" },
		{ 11, 0xff, "header size" },
		{ 12, 0, "offset 16 (0x10): first height" },
		{ 15, 1, "blocks-info record" },
	};
	struct buf f = data_file("c.raw");
	struct chain_error err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t was = f.p[cases[i].at];

		f.p[cases[i].at] = cases[i].value;
		assert_int_equal(read_bytes(f.p, f.n, false, &err), 0);
		assert_error(-1, &err, CHAIN_INPUT, cases[i].why);
		f.p[cases[i].at] = was;
	}
	buf_free(&f);
}

static void bad_chunks(void **state)
{
	struct buf f = data_file("c.raw");
	struct chain_error err;

	memset(f.p + 1028, 0, 4);
	assert_int_equal(read_bytes(f.p, f.n, false, &err), 0);
	assert_error(-1, &err, CHAIN_INPUT, "offset 1028 (0x404): chunk length is 0");
	memset(f.p + 1028, 0xff, 4);
	assert_int_equal(read_bytes(f.p, f.n, false, &err), 0);
	assert_error(-1, &err, CHAIN_INPUT, "offset 1028 (0x404): chunk length is over 2 MiB");
	memcpy(f.p + 1028, "\x84\0\0", 4);
	assert_int_equal(read_bytes(f.p, f.n, false, &err), 0);
	assert_error(-1, &err, CHAIN_INPUT, "offset 1163 (0x48b): block package bytes left over");
	buf_free(&f);
}

static void no_file(void **state)
{
	struct bootstrap b;
	struct chain_error err = { 0 };

	assert_error(
	    bootstrap_open(&b, "nowhere/c.raw", &err), &err, CHAIN_SYSTEM, "nowhere/c.raw");
	memset(&err, 0, sizeof(err));
	/* A directory opens, and cannot be read. */
	assert_error(bootstrap_open(&b, "/", &err), &err, CHAIN_SYSTEM, "cannot read");
}

/* ---- the window ---- */

/* A file of several windows, with chunks up to the limit, read from a descriptor and from memory. */
static void larger_than_the_window(void **state)
{
	struct buf f = { 0 };
	struct chain_builder c;
	struct chain_error err = { 0 };
	struct bootstrap a, b;
	struct chunk ca, cb;
	char dir[64], path[128];
	size_t n = 0, skipped = 0;
	int ra, rb;

	builder_start(&c, 1);
	f = c.file;
	for (size_t i = 0; i < 14; i++) {
		size_t len = i % 3 == 2 ? 1 + test_random() % 100 : (2U << 20) - i;

		buf_u32(&f, (uint32_t)len);
		buf_random(&f, len);
	}
	make_dir(dir);
	join(path, dir, "big.raw");
	write_file(path, f.p, f.n);
	assert_fine(bootstrap_open(&a, path, &err), &err);
	assert_fine(bootstrap_open_memory(&b, f.p, f.n, &err), &err);
	do {
		ra = bootstrap_next(&a, &ca, &err);
		rb = bootstrap_next(&b, &cb, &err);
		assert_fine(ra, &err);
		assert_int_equal(ra, rb);
		if (ra == 0)
			break;
		n++;
		assert_int_equal(ca.offset, cb.offset);
		assert_int_equal(ca.body.n, cb.body.n);
		assert_int_equal(ca.after.n, cb.after.n);
		assert_memory_equal(ca.body.p, cb.body.p, ca.body.n);
		if (ca.after.n)
			assert_memory_equal(ca.after.p, cb.after.p, ca.after.n);
	} while (ra > 0);
	assert_int_equal(n, 14);
	a.offset = 1028;
	while ((ra = bootstrap_skip(&a, &err)) > 0)
		skipped++;
	assert_fine(ra, &err);
	assert_int_equal(skipped, 14);
	assert_int_equal(a.offset, f.n);
	/* The file shrinks under the reader: an error with an offset, and no signal. */
	assert_int_equal(truncate(path, (off_t)f.n - 20), 0);
	a.offset = cb.offset;
	assert_error(bootstrap_next(&a, &ca, &err), &err, CHAIN_INPUT, "is cut short");
	bootstrap_close(&a);
	bootstrap_close(&b);
	remove(path);
	remove_dir(dir);
	buf_free(&f);
}

/* ---- damage ---- */

/* n bytes of a file, in a buffer of exactly that size, where a sanitizer sees its end. Reads from
 * the chunk at `from` (0: from the header on) and returns the blocks that were good. */
static uint64_t read_cut(const struct buf *f, size_t n, size_t from, struct chain_error *err)
{
	uint8_t *cut = malloc(n ? n : 1);
	struct bootstrap b;
	uint64_t blocks = 0;

	assert_non_null(cut);
	memcpy(cut, f->p, n);
	memset(err, 0, sizeof(*err));
	if (bootstrap_open_memory(&b, cut, n, err) == 0) {
		if (from)
			b.offset = from;
		blocks = read_all(&b, from == 0, err);
		bootstrap_close(&b);
	}
	free(cut);
	return blocks;
}

/* Every offset, read from the chunk it lies in; some of them from the start, with all checks. */
static void cut_at_every_offset(void **state)
{
	struct buf f = data_file("c.raw");
	struct chain_error err;
	uint64_t whole = 0;
	size_t next = 1028;
	uint32_t len;

	for (size_t n = 0; n < f.n; n++) {
		if (n >= next + 4) {
			memcpy(&len, f.p + next, 4);
			if (n >= next + 4 + len) {
				next += 4 + len;
				whole++;
			}
		}
		if (n >= 1028) {
			assert_int_equal(read_cut(&f, n, next, &err), 0);
			if (n == next)
				assert_fine(0, &err);
			else
				assert_error(-1, &err, CHAIN_INPUT, "is cut short");
		}
		if (n < 1028 || n % 211 == 0 || n == next) {
			assert_int_equal(read_cut(&f, n, 0, &err), whole);
			if (n == next)
				assert_fine(0, &err);
			else
				assert_error(-1, &err, CHAIN_INPUT, "offset ");
		}
	}
	assert_int_equal(whole, 149);
	buf_free(&f);
}

/* What no check can see (see README.md): the header of the file, the last block's own bytes (what
 * lies before its trailer), and a difficulty that still grows. */
static bool beyond_checks(size_t at, size_t last, const struct buf *was, const struct buf *now)
{
	struct bootstrap a, b;
	struct chain_error err = { 0 };
	struct package p = { 0 }, q = { 0 };
	struct chunk ca, cb;
	bool difficulty = false;

	if (at < 1028 || at >= last + 4)
		return true;
	assert_fine(bootstrap_open_memory(&a, was->p, was->n, &err), &err);
	assert_fine(bootstrap_open_memory(&b, now->p, now->n, &err), &err);
	while (
	    !difficulty && bootstrap_next(&a, &ca, &err) > 0 && bootstrap_next(&b, &cb, &err) > 0) {
		assert_fine(package_parse(&p, ca.body, 0, 1, &err), &err);
		assert_fine(package_parse(&q, cb.body, 0, 1, &err), &err);
		difficulty =
		    p.difficulty_low != q.difficulty_low || p.difficulty_high != q.difficulty_high;
	}
	package_finish(&p);
	package_finish(&q);
	return difficulty;
}

static void flipped_bits(void **state)
{
	struct buf f = data_file("c.raw"), was = data_file("c.raw");
	struct chain_error err;
	size_t last = 1028, n = 0;
	uint32_t len;

	for (size_t at = 1028; at < f.n; at += 4 + len) {
		last = at;
		memcpy(&len, f.p + at, 4);
	}
	for (size_t at = 0; at < f.n; at += 1 + test_random() % 240, n++) {
		uint8_t bit = (uint8_t)(1U << test_random() % 8);

		f.p[at] ^= bit;
		(void)read_bytes(f.p, f.n, true, &err);
		if (err.kind == CHAIN_OK && !beyond_checks(at, last, &was, &f))
			fail_msg("bit 0x%02x of byte %zu flipped, and nobody noticed", bit, at);
		if (err.kind != CHAIN_OK)
			assert_error(-1, &err, CHAIN_INPUT, "offset");
		f.p[at] ^= bit;
	}
	assert_true(n > 500);
	buf_free(&f);
	buf_free(&was);
}

/* Every byte of a package with all types set to the worst values: errors only, whatever it hits. */
static void worst_bytes(void **state)
{
	static const uint8_t worst[] = { 0x00, 0x7f, 0x80, 0xff };
	struct chain_builder c;
	struct chain_error err;

	builder_start(&c, 1);
	builder_block(&c, 1, every_shape, 2);
	builder_block(&c, 16, every_shape + 4, 3);
	for (size_t at = 0; at < c.file.n; at++) {
		uint8_t was = c.file.p[at];

		for (size_t i = 0; i < sizeof(worst); i++) {
			c.file.p[at] = worst[i];
			(void)read_bytes(c.file.p, c.file.n, false, &err);
		}
		c.file.p[at] = was;
	}
	assert_int_equal(read_bytes(c.file.p, c.file.n, true, &err), 2);
	assert_fine(0, &err);
	buf_free(&c.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_of_c),
		cmocka_unit_test(hashes_of_a),
		cmocka_unit_test(heights_are_hints),
		cmocka_unit_test(header_size_counts),
		cmocka_unit_test(format_0),
		cmocka_unit_test(bad_headers),
		cmocka_unit_test(bad_chunks),
		cmocka_unit_test(no_file),
		cmocka_unit_test(larger_than_the_window),
		cmocka_unit_test(cut_at_every_offset),
		cmocka_unit_test(flipped_bits),
		cmocka_unit_test(worst_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
