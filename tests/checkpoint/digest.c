/* SPDX-License-Identifier: BSD-2-Clause
 *
 * digest.c - the digest of a durable snapshot stays true, whatever later transactions do (C4 in
 * store/checkpoint.c).
 *
 * Random transactions, with nested ones, with values of many pages that come and go within one
 * transaction, and with so many pages that LMDB writes some before the commit. After a checkpoint,
 * transactions go on without one; the record must prove itself after each of them.
 */
#include "util.h"

#include <fcntl.h>

#include "../../store/checkpoint.h"
#include "../../store/fence.h"
#include "../../store/record.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define ADDRESS_SANITIZER 0
#endif

static uint64_t seed = 1;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

struct checked {
	unsigned with_digest, without;
};

static void check_record(MDB_env *env, struct checked *n)
{
	static struct pgw__heads h;
	struct pgw__record r, newest = { 0 };
	struct pgw_ranges ranges, of_newest;
	unsigned char digest[16];
	int fd;

	OK(mdb_env_get_fd(env, &fd));
	assert_int_equal(pgw__heads_read(fd, &h), 0);
	pgw_ranges_init(&ranges);
	pgw_ranges_init(&of_newest);
	for (int i = 0; i < 2; i++) {
		if (pgw__record_decode(h.page[i].record, h.psize, &r, &ranges) ||
		    r.seq < newest.seq)
			continue;
		newest = r;
		pgw_ranges_clear(&of_newest);
		assert_int_equal(pgw_ranges_add_all(&of_newest, &ranges), 0);
	}
	assert_int_equal(newest.txnid, durable(env));
	if (newest.has_digest) {
		assert_int_equal(pgw__record_digest(NULL, fd, &of_newest, digest), 0);
		assert_memory_equal(digest, newest.digest, 16);
		n->with_digest++;
	} else {
		n->without++;
	}
	pgw_ranges_finish(&ranges);
	pgw_ranges_finish(&of_newest);
}

static int random_changes(MDB_txn *txn, MDB_dbi dbi, unsigned n)
{
	static char value[60000];
	int rc = 0;

	while (n-- && !rc) {
		uint32_t key = (uint32_t)random_below(300);
		size_t size = random_below(3) ? random_below(2000) : random_below(sizeof(value));
		MDB_val k = { sizeof(key), &key }, v = { size, value };

		memset(value, (int)random_below(256), 64);
		if (random_below(3)) {
			rc = mdb_put(txn, dbi, &k, &v, 0);
			continue;
		}
		rc = mdb_del(txn, dbi, &k, NULL);
		if (rc == MDB_NOTFOUND)
			rc = 0;
	}
	return rc;
}

static void random_transaction(MDB_env *env, bool nested)
{
	uint64_t ticket;
	MDB_txn *txn, *child;
	MDB_dbi dbi;
	unsigned n = random_below(8) ? 1 + (unsigned)random_below(6) : 60;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	OK(random_changes(txn, dbi, n));
	if (nested && !random_below(3)) {
		OK(mdb_txn_begin(env, txn, 0, &child));
		OK(random_changes(child, dbi, 5));
		if (random_below(2))
			OK(mdb_txn_commit(child));
		else
			mdb_txn_abort(child);
		OK(random_changes(txn, dbi, 2));
	}
	if (random_below(8))
		OK(pgw_txn_commit_async(txn, &ticket));
	else
		mdb_txn_abort(txn);
}

static void stays_true(const char *dir, unsigned flags)
{
	struct pgw_env_options o;
	struct checked n = { 0 };
	MDB_env *env;

	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_RELAXED;
	o.checkpoint_ms = 3600 * 1000;
	o.checkpoint_bytes = UINT64_C(1) << 40;
	o.flags = flags;
	o.map_size = 128u << 20;
	OK(pgw_env_open(dir, &o, &env));
	for (int i = 0; i < 120; i++) {
		for (uint64_t k = random_below(6); k; k--)
			random_transaction(env, !(flags & MDB_WRITEMAP));
		OK(pgw_env_checkpoint(env));
		for (int k = 0; k < 6; k++) {
			check_record(env, &n);
			random_transaction(env, !(flags & MDB_WRITEMAP));
		}
		check_record(env, &n);
	}
	print_message("%u digests, %u records without\n", n.with_digest, n.without);
	assert_true(n.with_digest > 600);
	mdb_env_close(env);
}

static void of_written_pages(void **state)
{
	stays_true(*state, 0);
}

static void of_mapped_pages(void **state)
{
	stays_true(*state, MDB_WRITEMAP);
}

/* ---- a transaction that is too large for LMDB's list of dirty pages ---- */

enum { MANY = 90000 }; /* of an entry each; the list has 131071, and what was put last is spilled */

static void put_sized(MDB_txn *txn, MDB_dbi dbi, uint32_t key, size_t size)
{
	static char value[70000];
	MDB_val k = { sizeof(key), &key }, v = { size, value };

	memcpy(value, &key, sizeof(key));
	OK(mdb_put(txn, dbi, &k, &v, 0));
}

/* Pages that were spilled and are given back go among the records that may be recycled at once: some
 * values, of a page each and side by side, are replaced before the commit. */
static void spill(MDB_env *env)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	for (uint32_t i = 0; i < 2 * MANY; i++)
		put_sized(txn, dbi, 10000 + i, 3000);
	for (uint32_t i = 120000; i < 122000; i++)
		put_sized(txn, dbi, 10000 + i, 9000);
	OK(mdb_txn_commit(txn));
}

static void of_spilled_pages(void **state)
{
	struct pgw_env_options o;
	char dir[] = "/dev/shm/checkpoint-test-XXXXXX";
	struct checked n = { 0 };
	uint64_t ticket;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	if (ADDRESS_SANITIZER) {
		print_message("LMDB 0.9.24 leaks its list of spilled pages\n");
		skip();
	}
	if (!mkdtemp(dir)) {
		print_message("no /dev/shm to write 1 GB to\n");
		skip();
	}
	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_GROUP;
	o.map_size = UINT64_C(4) << 30;
	OK(pgw_env_open(dir, &o, &env));
	/* Free pages that are old enough to be used. */
	for (uint32_t round = 0; round < 6; round++) {
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		for (uint32_t i = 0; i < 50; i++)
			put_sized(txn, dbi, i, 60000);
		OK(mdb_txn_commit(txn));
	}
	spill(env);
	for (uint32_t round = 0; round < 10; round++) {
		check_record(env, &n);
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		for (uint32_t i = 0; i < 100; i++)
			put_sized(txn, dbi, 5000 + (i * 37 + round) % 1000, 3000);
		OK(pgw_txn_commit_async(txn, &ticket));
	}
	check_record(env, &n);
	print_message("%u digests, %u records without\n", n.with_digest, n.without);
	mdb_env_close(env);
	OK(run("rm -rf %s", dir));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(of_written_pages),
		TEST(of_mapped_pages),
		cmocka_unit_test(of_spilled_pages),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
