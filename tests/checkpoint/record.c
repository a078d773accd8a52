/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.c - what is read back is what was written, and nothing else is taken for a record.
 */
#include "util.h"

#include "../../store/record.h"

#include <errno.h>

#define PSIZE 4096u

static struct pgw__record sample(void)
{
	struct pgw__record r = { .seq = 7,
		.txnid = 4711,
		.wall = 123456789,
		.has_digest = true,
		.id = { .inode = 1, .device = 2, .birth = 3, .mount = 4, .boot = { 5 } } };

	memset(r.digest, 0x5a, sizeof(r.digest));
	pgw__put32(r.meta, PGW__META_MAGIC, PGW__LMDB_MAGIC);
	pgw__put32(r.meta, PGW__META_VERSION, PGW__LMDB_VERSION);
	pgw__put32(r.meta, PGW__META_PSIZE, PSIZE);
	pgw__put64(r.meta, PGW__META_LAST_PG, 100000);
	pgw__put64(r.meta, PGW__META_TXNID, r.txnid);
	return r;
}

/* Runs of 1 to 3 pages with gaps. */
static void fill(struct pgw_ranges *set, unsigned n)
{
	uint64_t page = 2;

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(pgw_ranges_add(set, page * PSIZE, (1 + i % 3) * PSIZE), 0);
		page += 4 + i % 50;
	}
	pgw_ranges_normalize(set);
}

static void reads_back_what_was_written(void **state)
{
	unsigned char slot[PGW__RECORD_SIZE];
	struct pgw__record in = sample(), out;
	struct pgw_ranges set, back;

	pgw_ranges_init(&set);
	pgw_ranges_init(&back);
	for (unsigned n = 0; n < 1600; n = n * 2 + 1) {
		pgw_ranges_clear(&set);
		fill(&set, n);
		assert_int_equal(pgw__record_encode(&in, &set, PSIZE, slot), 0);
		memset(&out, 0xff, sizeof(out));
		assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &back), 0);
		assert_int_equal(out.seq, in.seq);
		assert_int_equal(out.txnid, in.txnid);
		assert_int_equal(out.wall, in.wall);
		assert_true(out.has_digest);
		assert_memory_equal(out.digest, in.digest, 16);
		assert_memory_equal(&out.id, &in.id, sizeof(in.id));
		assert_memory_equal(out.meta, in.meta, PGW__META_SIZE);
		assert_int_equal(back.n, set.n);
		assert_memory_equal(back.v, set.v, set.n * sizeof(*set.v));
	}
	pgw_ranges_finish(&set);
	pgw_ranges_finish(&back);
}

static void says_when_ranges_do_not_fit(void **state)
{
	unsigned char slot[PGW__RECORD_SIZE];
	struct pgw__record r = sample();
	struct pgw_ranges set;

	pgw_ranges_init(&set);
	fill(&set, 1661);
	assert_int_equal(pgw__record_encode(&r, &set, PSIZE, slot), -E2BIG);
	r.has_digest = false;
	assert_int_equal(pgw__record_encode(&r, &set, PSIZE, slot), 0);
	pgw_ranges_finish(&set);
}

static void refuses_every_flipped_bit(void **state)
{
	unsigned char slot[PGW__RECORD_SIZE];
	struct pgw__record r = sample(), out;
	struct pgw_ranges set, back;
	uint32_t length;

	pgw_ranges_init(&set);
	pgw_ranges_init(&back);
	fill(&set, 5);
	assert_int_equal(pgw__record_encode(&r, &set, PSIZE, slot), 0);
	length = pgw__get32(slot, 28);
	for (unsigned bit = 0; bit < length * 8; bit++) {
		slot[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &back), -EBADMSG);
		slot[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
	assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &back), 0);
	pgw_ranges_finish(&set);
	pgw_ranges_finish(&back);
}

static void tells_nothing_from_garbage(void **state)
{
	unsigned char slot[PGW__RECORD_SIZE] = { 0 };
	struct pgw__record out;
	struct pgw_ranges back;

	pgw_ranges_init(&back);
	assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &back), -ENOENT);
	slot[PGW__RECORD_SIZE - 1] = 1;
	assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &back), -EBADMSG);
	pgw_ranges_finish(&back);
}

static void refuses_a_record_of_other_pages(void **state)
{
	unsigned char slot[PGW__RECORD_SIZE];
	struct pgw__record r = sample(), out;
	struct pgw_ranges none;

	pgw_ranges_init(&none);
	assert_int_equal(pgw__record_encode(&r, &none, PSIZE, slot), 0);
	assert_int_equal(pgw__record_decode(slot, 2 * PSIZE, &out, &none), -EPROTO);
	r.txnid++; /* not that of its meta image */
	assert_int_equal(pgw__record_encode(&r, &none, PSIZE, slot), 0);
	assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &none), -EPROTO);
	pgw_ranges_finish(&none);
}

static void refuses_ranges_past_the_last_page(void **state)
{
	unsigned char slot[PGW__RECORD_SIZE];
	struct pgw__record r = sample(), out;
	struct pgw_ranges set;

	pgw_ranges_init(&set);
	assert_int_equal(pgw_ranges_add(&set, UINT64_C(100000) * PSIZE, PSIZE), 0);
	assert_int_equal(pgw__record_encode(&r, &set, PSIZE, slot), 0);
	assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &set), 0);
	pgw_ranges_clear(&set);
	assert_int_equal(pgw_ranges_add(&set, UINT64_C(100000) * PSIZE, 2 * PSIZE), 0);
	assert_int_equal(pgw__record_encode(&r, &set, PSIZE, slot), 0);
	assert_int_equal(pgw__record_decode(slot, PSIZE, &out, &set), -EPROTO);
	assert_int_equal(set.n, 0);
	pgw_ranges_finish(&set);
}

static void digests_map_and_file_alike(void **state)
{
	const char *path = data_file(*state);
	unsigned char a[16], b[16], *bytes = malloc(64 * PSIZE);
	struct pgw_ranges set;
	FILE *f = fopen(path, "w+");

	assert_non_null(bytes);
	assert_non_null(f);
	for (unsigned i = 0; i < 64 * PSIZE; i++)
		bytes[i] = (unsigned char)(i * 2654435761u >> 24);
	assert_int_equal(fwrite(bytes, PSIZE, 64, f), 64);
	fflush(f);
	pgw_ranges_init(&set);
	pgw_ranges_add(&set, 3 * PSIZE, PSIZE);
	pgw_ranges_add(&set, 10 * PSIZE, 40 * PSIZE);
	assert_int_equal(pgw__record_digest(bytes, -1, &set, a), 0);
	assert_int_equal(pgw__record_digest(NULL, fileno(f), &set, b), 0);
	assert_memory_equal(a, b, 16);
	bytes[49 * PSIZE] ^= 1;
	assert_int_equal(pgw__record_digest(bytes, -1, &set, a), 0);
	assert_memory_not_equal(a, b, 16);
	pgw_ranges_add(&set, 63 * PSIZE, 2 * PSIZE);
	assert_int_equal(pgw__record_digest(NULL, fileno(f), &set, b), -ENODATA);
	pgw_ranges_finish(&set);
	fclose(f);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_back_what_was_written),
		cmocka_unit_test(says_when_ranges_do_not_fit),
		cmocka_unit_test(refuses_every_flipped_bit),
		cmocka_unit_test(tells_nothing_from_garbage),
		cmocka_unit_test(refuses_a_record_of_other_pages),
		cmocka_unit_test(refuses_ranges_past_the_last_page),
		cmocka_unit_test_setup_teardown(digests_map_and_file_alike, make_dir, remove_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
