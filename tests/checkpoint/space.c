/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.c - disk space under a writable map: who asks for it, and what an answer leads to.
 *
 * The disk is simulated: fallocate has a limit, or does not exist. full.sh fills real ones.
 */
#include "util.h"

#include <errno.h>
#include <sys/stat.h>

#include "../../store/env.h"
#include "sys.h"

#define MADV_POPULATE_WRITE_ 23

static struct {
	uint64_t size; /* of the disk: what lies behind cannot be allocated; 0: no limit */
	int allocate;  /* if not 0, the answer of every call */
	int populate;  /* the same */
	unsigned calls, populated;
} disk;

static int disk_allocate(int fd, uint64_t off, uint64_t len)
{
	disk.calls++;
	if (disk.allocate)
		return disk.allocate;
	if (disk.size && off + len > disk.size)
		return -ENOSPC;
	return pgw__sys_real.allocate(fd, off, len);
}

static int disk_madvise(void *addr, size_t len, int advice)
{
	if (advice != MADV_POPULATE_WRITE_)
		return pgw__sys_real.madvise(addr, len, advice);
	disk.populated++;
	return disk.populate;
}

static int setup(void **state)
{
	memset(&disk, 0, sizeof(disk));
	pgw__sys.allocate = disk_allocate;
	pgw__sys.madvise = disk_madvise;
	return make_dir(state);
}

static int teardown(void **state)
{
	pgw__sys = pgw__sys_real;
	return remove_dir(state);
}

static const struct spec writemap = { .flags = MDB_WRITEMAP | MDB_NOSYNC, .map_size = 64u << 20 };

/* Keys from *n on until one fails; each has a value of size bytes, in its own transaction. */
static int put_until_it_fails(MDB_env *env, uint32_t *n, size_t size)
{
	static char value[1 << 16];
	int rc = 0;

	for (; !rc && *n < 1000000; ++*n) {
		MDB_val k = { sizeof(*n), n }, v = { size, value };
		MDB_txn *txn;
		MDB_dbi dbi;

		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		rc = mdb_put(txn, dbi, &k, &v, 0);
		if (rc)
			mdb_txn_abort(txn);
		else
			rc = mdb_txn_commit(txn);
	}
	return rc;
}

static uint64_t bytes_in_use(MDB_env *env)
{
	MDB_envinfo info;

	OK(mdb_env_info(env, &info));
	return (info.me_last_pgno + 1) * 4096;
}

static void a_full_disk_is_enospc(void **state)
{
	MDB_env *env = open_env(*state, writemap);
	uint32_t n = 0;

	disk.size = 8u << 20;
	assert_int_equal(put_until_it_fails(env, &n, 3000), ENOSPC);
	assert_true(bytes_in_use(env) <= disk.size);
	assert_true(bytes_in_use(env) > disk.size - (3u << 20)); /* not long before it is full */
	assert_int_equal(put_until_it_fails(env, &n, 30000), ENOSPC);
	assert_true(bytes_in_use(env) <= disk.size);
	disk.size = 16u << 20; /* somebody has removed a file */
	assert_int_equal(put_until_it_fails(env, &n, 30000), ENOSPC);
	assert_true(bytes_in_use(env) <= disk.size && bytes_in_use(env) > 12u << 20);
	assert_int_equal(stats(env).failed, 0);
	mdb_env_close(env);
}

static void a_full_map_is_still_map_full(void **state)
{
	MDB_env *env = open_env(*state, writemap);
	uint32_t n = 0;

	assert_int_equal(put_until_it_fails(env, &n, 60000), MDB_MAP_FULL);
	assert_true(bytes_in_use(env) > writemap.map_size - (2u << 20));
	mdb_env_close(env);
}

/* LMDB compares the snapshot of a reader with its limit, too. */
static void readers_do_not_notice(void **state)
{
	MDB_env *env = open_env(*state, writemap);
	MDB_txn *txn;
	MDB_dbi dbi;
	uint32_t n = 0, key = 5000000;
	char value[20] = "";
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };

	disk.size = 4u << 20;
	assert_int_equal(put_until_it_fails(env, &n, 3000), ENOSPC);
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	(void)mdb_put(txn, dbi, &k, &v, 0);
	assert_int_equal(get(env, 999999), 0); /* begins a transaction meanwhile */
	mdb_txn_abort(txn);
	assert_int_equal(get(env, 999999), 0);
	mdb_env_close(env);
}

static void without_fallocate_pages_are_faulted_in(void **state)
{
	MDB_env *env = open_env(*state, writemap);

	disk.allocate = -EOPNOTSUPP;
	put(env, 1, 1);
	assert_true(disk.populated > 0);
	disk.populate = -EFAULT; /* that would have been SIGBUS */
	for (uint32_t n = 0; n < 100; n++) {
		int rc = try_put(env, n, n, NULL);

		assert_true(!rc || rc == ENOSPC);
	}
	assert_int_equal(get(env, 1), 1);
	mdb_env_close(env);
}

static void where_nothing_works_lmdb_is_let_through(void **state)
{
	MDB_env *env = open_env(*state, writemap);
	unsigned calls;

	disk.allocate = -EOPNOTSUPP;
	disk.populate = -EINVAL;
	put(env, 1, 1);
	calls = disk.calls + disk.populated;
	put(env, 2, 2);
	assert_int_equal(disk.calls + disk.populated, calls); /* it is not tried again */
	mdb_env_close(env);
}

/* It is one call for many transactions. */
static void space_is_asked_for_ahead(void **state)
{
	MDB_env *env = open_env(*state, writemap);

	put(env, 1, 1);
	disk.calls = 0;
	for (uint32_t n = 0; n < 100; n++)
		put(env, n, n);
	assert_int_equal(disk.calls, 0);
	mdb_env_close(env);
}

static void a_file_that_was_cut_is_mended(void **state)
{
	MDB_env *env = open_env(*state, writemap);
	uint32_t n = 0;

	put(env, 1, 1);
	disk.size = 8u << 20;
	assert_int_equal(put_until_it_fails(env, &n, 3000), ENOSPC);
	disk.size = 0;
	/* As another process does that opens it with a smaller map. */
	assert_int_equal(truncate(data_file(*state), (off_t)bytes_in_use(env)), 0);
	for (uint32_t i = 0; i < 2000; i++)
		put(env, 3000000 + i, i);
	mdb_env_close(env);
}

static void without_a_writable_map_nothing_is_asked_for(void **state)
{
	struct spec plain = { .map_size = 64u << 20 };
	MDB_env *env = open_env(*state, plain);

	disk.calls = 0;
	for (uint32_t n = 0; n < 100; n++)
		put(env, n, n);
	assert_int_equal(disk.calls + disk.populated, 0);
	mdb_env_close(env);
}

static void a_lock_file_without_room_is_an_error(void **state)
{
	MDB_env *env = NULL;

	disk.allocate = -ENOSPC;
	assert_int_equal(try_open(*state, writemap, &env), ENOSPC);
	assert_null(env);
	disk.allocate = 0;
	mdb_env_close(open_env(*state, writemap));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_full_disk_is_enospc),
		TEST(a_full_map_is_still_map_full),
		TEST(readers_do_not_notice),
		TEST(without_fallocate_pages_are_faulted_in),
		TEST(where_nothing_works_lmdb_is_let_through),
		TEST(space_is_asked_for_ahead),
		TEST(a_file_that_was_cut_is_mended),
		TEST(without_a_writable_map_nothing_is_asked_for),
		TEST(a_lock_file_without_room_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
