/* SPDX-License-Identifier: BSD-2-Clause
 *
 * copies.c - mdb_env_copy and its kin while another thread commits: each copy is a plain file that holds exactly what
 * one transaction left.
 */
#include "util.h"

#include <fcntl.h>

/* A copy keeps its snapshot: no more than AHEAD transactions are made meanwhile, so that the map has room
 * however long it takes. */
enum { KEYS = 60, COPIES = 12, AHEAD = 1000 };

static MDB_env *env;
static _Atomic bool enough;
static _Atomic uint64_t committed, copied; /* copied: committed when the last copy was begun */

static int set_all(uint64_t n)
{
	char value[1500] = { 0 };
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	memcpy(value, &n, sizeof(n));
	for (uint32_t key = 0; key < KEYS && !rc; key++) {
		MDB_val k = { sizeof(key), &key }, v = { 8 + (n * (key + 1)) % 1400, value };

		rc = mdb_put(txn, dbi, &k, &v, 0);
	}
	if (!rc)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

static void *write_on(void *arg)
{
	for (uint64_t n = 2; !atomic_load(&enough);) {
		if (n > atomic_load(&copied) + AHEAD) {
			usleep(100);
			continue;
		}
		OK(set_all(n));
		atomic_store(&committed, n++);
	}
	return NULL;
}

static void copy(const char *to, unsigned how)
{
	char path[320];
	int fd;

	OK(run("mkdir %s", to));
	snprintf(path, sizeof(path), "%s/data.mdb", to);
	if (how % 4 < 2) {
		OK(how % 4 ? mdb_env_copy(env, to) : mdb_env_copy2(env, to, MDB_CP_COMPACT));
		return;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	OK(how % 4 == 2 ? mdb_env_copyfd(env, fd) : mdb_env_copyfd2(env, fd, MDB_CP_COMPACT));
	close(fd);
}

static void copies_in(const char *dir, struct spec s)
{
	pthread_t thread;

	env = open_env(dir, s);
	OK(set_all(1));
	atomic_store(&committed, 1);
	atomic_store(&copied, 1);
	atomic_store(&enough, false);
	assert_int_equal(pthread_create(&thread, NULL, write_on, NULL), 0);
	for (unsigned i = 0; i < COPIES; i++) {
		uint64_t before, n;
		MDB_env *of_copy;
		char to[300];

		snprintf(to, sizeof(to), "%s/copy%u", dir, i);
		before = atomic_load(&committed);
		atomic_store(&copied, before);
		copy(to, i);
		assert_false(is_fenced(to));
		of_copy = open_env(to, (struct spec){ 0 });
		n = get(of_copy, 0);
		assert_true(n >= before && n <= atomic_load(&committed) + 1);
		for (uint32_t key = 1; key < KEYS; key++)
			assert_int_equal(get(of_copy, key), n);
		put(of_copy, 0, 1);
		mdb_env_close(of_copy);
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	mdb_env_close(env);
}

static void in_mode(const char *dir, enum pgw_durability d, unsigned flags)
{
	copies_in(
	    dir, (struct spec){
		     .durability = d, .flags = flags, .checkpoint_ms = 1, .map_size = 256 << 20 });
}

MODE_TEST(group, GROUP, 0)
MODE_TEST(relaxed, RELAXED, 0)

#ifndef __SANITIZE_THREAD__ /* a copy sees LMDB's stores, and it does not know why that is right */
MODE_TEST(group_writemap, GROUP, MDB_WRITEMAP)
MODE_TEST(relaxed_writemap, RELAXED, MDB_WRITEMAP)
#endif

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(group),
		TEST(relaxed),
#ifndef __SANITIZE_THREAD__
		TEST(group_writemap),
		TEST(relaxed_writemap),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
