/* SPDX-License-Identifier: BSD-2-Clause
 *
 * descriptors.c - a program takes away the descriptors of an open environment, and opens other files by
 * the same numbers. Nothing of the environment may be written there, and the program must learn it.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { OTHER_BYTES = 1 << 20, NUMBERS_MAX = 16 };

struct other {
	char path[256];
	int number[NUMBERS_MAX]; /* that lead to it in place of the data file */
	unsigned n;
};

static bool is_file(int fd, const struct stat *file)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* What a program that forgets LMDB does: all numbers of the data file become those of another one. */
static void take_over(const char *dir, struct other *o)
{
	struct stat data;
	int fd;

	assert_int_equal(stat(data_file(dir), &data), 0);
	snprintf(o->path, sizeof(o->path), "%s/other", dir);
	fd = open(o->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < OTHER_BYTES / 8; i++)
		assert_int_equal(write(fd, "the same", 8), 8);
	for (int i = 0; i < 256 && o->n < NUMBERS_MAX; i++) {
		if (!is_file(i, &data))
			continue;
		assert_int_equal(dup2(fd, i), i);
		o->number[o->n++] = i;
	}
	close(fd);
	assert_true(o->n > 0);
}

static void check_untouched(const struct other *o)
{
	FILE *f = fopen(o->path, "r");
	char text[8];
	unsigned n = 0;

	assert_non_null(f);
	while (fread(text, sizeof(text), 1, f)) {
		assert_memory_equal(text, "the same", 8);
		n++;
	}
	fclose(f);
	assert_int_equal(n, OTHER_BYTES / 8);
}

static void after_a_commit(const char *dir, struct spec s)
{
	struct other o = { 0 };
	MDB_env *env = open_env(dir, s);

	put(env, 1, 11);
	OK(mdb_env_sync(env, 1));
	take_over(dir, &o);
	assert_int_equal(mdb_env_set_mapsize(env, 64u << 20), EBADF);
	assert_int_equal(try_put(env, 2, 22, NULL), MDB_PANIC);
	assert_int_equal(mdb_env_sync(env, 1), EBADF);
	assert_int_equal(get(env, 1), 11); /* the map is still there */
	mdb_env_close(env);
	check_untouched(&o);
	env = open_env(dir, s);
	assert_int_equal(get(env, 1), 11);
	put(env, 2, 23);
	mdb_env_close(env);
}

static void at_begin(const char *dir, struct spec s)
{
	struct other o = { 0 };
	MDB_env *env = open_env(dir, s);

	put(env, 1, 12);
	OK(mdb_env_sync(env, 1));
	take_over(dir, &o);
	assert_int_equal(try_put(env, 1, 13, NULL), EBADF);
	assert_int_equal(try_put(env, 1, 14, NULL), MDB_PANIC);
	mdb_env_close(env);
	check_untouched(&o);
	env = open_env(dir, s);
	assert_int_equal(get(env, 1), 12);
	mdb_env_close(env);
}

static void within_a_transaction(const char *dir, struct spec s)
{
	struct other o = { 0 };
	MDB_env *env = open_env(dir, s);
	uint32_t key = 1;
	uint64_t value = 15;
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), &value };
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	OK(mdb_put(txn, dbi, &k, &v, 0));
	take_over(dir, &o);
	assert_int_equal(mdb_txn_commit(txn), EBADF);
	assert_int_equal(try_put(env, 1, 14, NULL), MDB_PANIC);
	mdb_env_close(env);
	check_untouched(&o);
	env = open_env(dir, s);
	assert_int_equal(get(env, 1), 12);
	mdb_env_close(env);
}

/* Where a checkpoint is still to be made of what was committed. */
static void before_a_checkpoint(const char *dir, struct spec s, bool wait)
{
	struct other o = { 0 };
	MDB_env *env;
	uint64_t ticket;

	s.checkpoint_ms = 100000;
	env = open_env(dir, s);
	OK(try_put(env, 3, 33, &ticket));
	take_over(dir, &o);
	if (wait)
		assert_int_equal(pgw_env_wait(env, ticket, -1), EBADF);
	mdb_env_close(env);
	check_untouched(&o);
	/* It was committed: it may be there. */
	env = open_env(dir, s);
	assert_int_equal(get(env, 1), 12);
	assert_true(get(env, 3) == 33 || get(env, 3) == 0);
	mdb_env_close(env);
}

static void in_mode(const char *dir, enum pgw_durability d, unsigned flags)
{
	struct spec s = { .durability = d, .flags = flags };

	after_a_commit(dir, s);
	at_begin(dir, s);
	within_a_transaction(dir, s);
	if (d != PGW_DURABILITY_STRICT) {
		before_a_checkpoint(dir, s, false);
		before_a_checkpoint(dir, s, true);
	}
}

MODE_TEST(strict, STRICT, 0)
MODE_TEST(strict_writemap, STRICT, MDB_WRITEMAP)
CHECKPOINTED_MODE_TESTS

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(strict),
		TEST(strict_writemap),
		TEST(group),
		TEST(group_writemap),
		TEST(relaxed),
		TEST(relaxed_writemap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
