/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_commit.c - what a commit costs and counts, on the real kernel, through the public interface.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagewise/store.h>

#include "scratch.h"

#define GIB	 ((size_t)1 << 30)
#define OK(call) assert_int_equal(call, 0)

static char top[512], dir[1024];

/* LMDB's page of a new file is the system's. */
static uint64_t psize(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static MDB_env *open_at(const char *path, unsigned flags, size_t map)
{
	MDB_env *env;

	OK(mdb_env_create(&env));
	OK(mdb_env_set_mapsize(env, map));
	OK(mdb_env_set_maxdbs(env, 4));
	OK(mdb_env_open(env, path, flags, 0600));
	return env;
}

/* In a folder of its own. */
static MDB_env *open_new(unsigned flags, size_t map)
{
	static unsigned n;

	snprintf(dir, sizeof(dir), "%s/%u", top, n++);
	OK(mkdir(dir, 0700));
	return open_at(dir, flags, map);
}

static void put(MDB_txn *txn, MDB_dbi dbi, unsigned key, size_t len)
{
	static char buf[1 << 20];
	MDB_val k = { sizeof(key), &key }, v = { len, buf };

	memset(buf, (int)key, len);
	OK(mdb_put(txn, dbi, &k, &v, 0));
}

static void commit(MDB_env *env, unsigned key, size_t len)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	put(txn, dbi, key, len);
	OK(mdb_txn_commit(txn));
}

static struct pgw_env_stats stats(MDB_env *env)
{
	struct pgw_env_stats st;

	OK(pgw_env_stats(env, &st));
	return st;
}

static uint64_t full(const struct pgw_env_stats *st)
{
	uint64_t sum = 0;

	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		sum += st->full_syncs[i];
	return sum;
}

/* Barriers are not counted where there is no device. */
static void need_a_device(MDB_env *env)
{
	if (!strcmp(stats(env).fs, "tmpfs"))
		skip();
}

static void one_record(unsigned flags)
{
	MDB_env *env = open_new(flags, 32 * GIB);
	struct pgw_env_stats a, b;

	need_a_device(env);
	commit(env, 0, 100);
	for (unsigned i = 1; i < 50; i++) {
		uint64_t bytes;

		a = stats(env);
		commit(env, i, 100);
		b = stats(env);
		bytes = b.msync_bytes - a.msync_bytes + b.sync_file_range_bytes -
			a.sync_file_range_bytes;
		assert_int_equal(b.barriers - a.barriers, 2);
		assert_true(bytes <= 16 * psize());
		assert_int_equal(full(&b), 1); /* that of the first */
		assert_int_equal(b.commits - a.commits, 1);
		assert_int_equal(b.durable_txnid, i + 1);
		/* dirty: at least the leaf; what is dirty is synced, and the meta page */
		assert_true(b.dirty_bytes > a.dirty_bytes);
		if (b.strategy != PGW_SYNC_FDATASYNC)
			assert_true(
			    b.synced_bytes - a.synced_bytes >= b.dirty_bytes - a.dirty_bytes);
	}
	mdb_env_close(env);
}

static void one_record_by_write_is_two_barriers(void **state)
{
	one_record(0);
}

static void one_record_by_map_is_two_barriers(void **state)
{
	one_record(MDB_WRITEMAP);
}

static void dirty_bytes_are_those_of_the_value(void **state)
{
	for (int map = 0; map < 2; map++) {
		MDB_env *env = open_new(map ? MDB_WRITEMAP : 0, GIB);
		struct pgw_env_stats a, b;
		uint64_t pages;

		commit(env, 0, 100);
		a = stats(env);
		commit(env, 1, 1 << 20);
		b = stats(env);
		/* The pages of the value, one more for its header, and a few of the tree. */
		pages = (b.dirty_bytes - a.dirty_bytes) / psize();
		assert_in_range(pages, (1 << 20) / psize() + 1, (1 << 20) / psize() + 9);
		mdb_env_close(env);
	}
}

static void reasons_for_a_full_sync(void **state)
{
	MDB_env *env = open_new(MDB_WRITEMAP, GIB);
	struct pgw_env_stats st;

	commit(env, 0, 100);
	commit(env, 1, 100);
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_FIRST], 1);
	assert_int_equal(full(&st), 1);

	OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	commit(env, 2, 100);
	commit(env, 3, 100);
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 0));
	commit(env, 4, 100);
	commit(env, 5, 100);
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_NOSYNC], 1);
	assert_int_equal(full(&st), 2);

	OK(mdb_env_set_flags(env, MDB_MAPASYNC, 1));
	commit(env, 6, 100);
	OK(mdb_env_set_flags(env, MDB_MAPASYNC, 0));
	commit(env, 7, 100);
	commit(env, 8, 100);
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_NOSYNC], 2);
	assert_int_equal(full(&st), 3);

	OK(mdb_env_set_mapsize(env, 2 * GIB));
	commit(env, 9, 100);
	commit(env, 10, 100);
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_REMAPPED], 1);
	assert_int_equal(full(&st), 4);

	OK(mdb_env_sync(env, 1)); /* nothing to do */
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	commit(env, 11, 100);
	OK(mdb_env_sync(env, 0)); /* not forced */
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_ASKED], 0);
	OK(mdb_env_sync(env, 1));
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_ASKED], 1);
	assert_int_equal(full(&st), 5);
	assert_int_equal(st.commits, 12);

	mdb_env_close(env);
	env = open_at(dir, 0, GIB);
	commit(env, 12, 100);
	st = stats(env);
	assert_int_equal(st.full_syncs[PGW_FULL_FIRST], 1);
	assert_int_equal(full(&st), 1);
	mdb_env_close(env);
}

/* The second handle is to the first what another process is. */
static void another_writer_is_noticed(void **state)
{
	MDB_env *a = open_new(0, GIB), *b = open_at(dir, 0, GIB);
	struct pgw_env_stats st;

	commit(a, 0, 100);
	commit(a, 1, 100);
	commit(b, 2, 100);
	commit(a, 3, 100);
	commit(a, 4, 100);
	st = stats(a);
	assert_int_equal(st.full_syncs[PGW_FULL_OTHER_WRITER], 1);
	assert_int_equal(full(&st), 2);
	mdb_env_close(b);
	mdb_env_close(a);
}

static void without_metasync_one_barrier(void **state)
{
	for (int map = 0; map < 2; map++) {
		MDB_env *env = open_new(MDB_NOMETASYNC | (map ? MDB_WRITEMAP : 0), GIB);
		struct pgw_env_stats a, b;

		need_a_device(env);
		commit(env, 0, 100);
		commit(env, 1, 100);
		a = stats(env);
		commit(env, 2, 100);
		b = stats(env);
		assert_int_equal(b.barriers - a.barriers, 1);
		assert_int_equal(full(&b), 1);
		if (b.strategy != PGW_SYNC_FDATASYNC) /* with the meta page of the last commit */
			assert_int_equal(b.synced_bytes - a.synced_bytes,
			    b.dirty_bytes - a.dirty_bytes + psize());
		assert_int_equal(b.durable_txnid, 0);
		mdb_env_close(env);
	}
}

static void abort_one(MDB_env *env, unsigned key)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	put(txn, dbi, key, 1000);
	mdb_txn_abort(txn);
}

/* Pages that lie apart are one msync, as nothing else is dirty; unless a transaction was given up that may
 * have stored into a writable map. */
static void ranges_are_named_where_others_are_dirty(void **state)
{
	MDB_env *env = open_new(MDB_WRITEMAP, GIB);
	struct pgw_env_stats a, b;
	MDB_txn *txn;
	MDB_dbi dbi;

	need_a_device(env);
	if (stats(env).strategy != PGW_SYNC_WRITEOUT) {
		mdb_env_close(env);
		skip();
	}
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	for (unsigned i = 0; i < 2000; i++)
		put(txn, dbi, i, 1000);
	OK(mdb_txn_commit(txn));
	a = stats(env);
	for (unsigned i = 0; i < 20; i++)
		commit(env, i * 617 % 2000, 1000);
	b = stats(env);
	assert_int_equal(b.sync_file_range_calls, a.sync_file_range_calls);
	assert_int_equal(b.msync_calls, a.msync_calls + 40);
	abort_one(env, 1);
	a = stats(env);
	for (unsigned i = 0; i < 20; i++)
		commit(env, i * 617 % 2000, 1000);
	b = stats(env);
	assert_true(b.sync_file_range_calls > a.sync_file_range_calls);
	assert_int_equal(b.msync_calls, a.msync_calls + 40);
	mdb_env_close(env);
}

static void what_commits_nothing_syncs_nothing(void **state)
{
	MDB_env *env = open_new(0, GIB);
	struct pgw_env_stats a, b;
	MDB_txn *txn, *child;
	MDB_dbi dbi;

	commit(env, 0, 100);
	a = stats(env);
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_txn_commit(txn));
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	OK(mdb_txn_commit(txn));
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	put(txn, dbi, 1, 10000);
	OK(mdb_txn_begin(env, txn, 0, &child));
	put(child, dbi, 2, 100);
	OK(mdb_txn_commit(child));
	mdb_txn_abort(txn);
	b = stats(env);
	assert_int_equal(b.commits, a.commits);
	assert_int_equal(b.barriers, a.barriers);

	/* And what was aborted is not synced by the next. */
	commit(env, 3, 100);
	b = stats(env);
	assert_true(b.dirty_bytes - a.dirty_bytes <= 4 * psize());
	assert_int_equal(full(&b), 1);
	mdb_env_close(env);
}

/* Whoever made the file may have made nothing durable: each open that makes something durable is safe by itself. */
static void the_directory_is_synced_once(void **state)
{
	MDB_env *env = open_new(0, GIB);
	char path[1100];

	assert_int_equal(stats(env).directory_syncs, 0);
	commit(env, 0, 100);
	commit(env, 1, 100);
	assert_int_equal(stats(env).directory_syncs, 1);
	mdb_env_close(env);
	env = open_at(dir, 0, GIB);
	commit(env, 2, 100);
	commit(env, 3, 100);
	assert_int_equal(stats(env).directory_syncs, 1);
	mdb_env_close(env);

	snprintf(path, sizeof(path), "%s/file", dir);
	env = open_at(path, MDB_NOSUBDIR, GIB);
	commit(env, 0, 100);
	assert_int_equal(stats(env).directory_syncs, 1);
	mdb_env_close(env);
}

/* MDB_NOSYNC makes no name durable. What does so first, whenever it comes, syncs the directory. */
static void a_name_made_under_nosync_becomes_durable(void **state)
{
	MDB_env *env = open_new(MDB_NOSYNC, GIB);

	commit(env, 0, 100);
	OK(mdb_env_sync(env, 0));
	assert_int_equal(stats(env).directory_syncs, 0);
	OK(mdb_env_sync(env, 1));
	assert_int_equal(stats(env).directory_syncs, 1);
	mdb_env_close(env);

	env = open_new(MDB_NOSYNC, GIB);
	commit(env, 0, 100);
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 0));
	commit(env, 1, 100);
	assert_int_equal(stats(env).directory_syncs, 1);
	mdb_env_close(env);

	env = open_new(MDB_NOSYNC, GIB);
	commit(env, 0, 100);
	mdb_env_close(env);
	for (int forced = 0; forced < 2; forced++) {
		env = open_at(dir, forced ? MDB_NOSYNC : 0, GIB);
		assert_int_equal(stats(env).directory_syncs, 0);
		if (forced)
			OK(mdb_env_sync(env, 1));
		else
			commit(env, 1, 100);
		assert_int_equal(stats(env).directory_syncs, 1);
		mdb_env_close(env);
	}
}

/* A program that closes what it does not know, and opens something else: that is neither synced nor closed. */
static void a_descriptor_that_was_taken_over_is_left_alone(void **state)
{
	MDB_env *env = open_new(0, GIB);
	struct stat st, at;
	int other, number = -1;

	OK(stat(dir, &at));
	for (int fd = 0; fd < 256 && number < 0; fd++)
		if (!fstat(fd, &st) && st.st_dev == at.st_dev && st.st_ino == at.st_ino)
			number = fd;
	assert_true(number >= 0);
	other = open("/dev/null", O_RDWR | O_CLOEXEC);
	assert_int_equal(dup2(other, number), number);
	commit(env, 0, 100);
	assert_int_equal(stats(env).directory_syncs, 0);
	mdb_env_close(env);
	OK(fstat(number, &st));
	assert_true(S_ISCHR(st.st_mode));
	close(number);
	close(other);
}

static void a_refused_resize_changes_nothing(void **state)
{
	MDB_env *env = open_new(MDB_WRITEMAP, GIB);
	struct pgw_env_stats st;
	MDB_txn *txn;
	MDB_dbi dbi;

	commit(env, 0, 100);
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	put(txn, dbi, 1, 100);
	assert_int_equal(mdb_env_set_mapsize(env, 2 * GIB), EINVAL);
	OK(mdb_txn_commit(txn));
	st = stats(env);
	assert_int_equal(full(&st), 1);
	mdb_env_close(env);
}

static void resizing_goes_on(void **state)
{
	MDB_env *env = open_new(MDB_WRITEMAP, 1 << 20);
	struct pgw_env_stats st;

	for (unsigned i = 0; i < 40; i++) {
		OK(mdb_env_set_mapsize(env, (size_t)(i + 2) << 20));
		commit(env, i, 400000);
	}
	st = stats(env);
	assert_int_equal(st.commits, 40);
	assert_int_equal(st.full_syncs[PGW_FULL_UNTRACKED], 0);
	assert_true(st.dirty_bytes >= 40 * 400000);
	mdb_env_close(env);
}

static void statistics_name_their_errors(void **state)
{
	struct pgw_env_stats st = { .commits = 42 }, before, after;
	MDB_env *env;

	assert_int_equal(pgw_env_stats(NULL, &st), EINVAL);
	OK(mdb_env_create(&env));
	assert_int_equal(pgw_env_stats(env, &st), EINVAL);
	assert_int_equal(st.commits, 42);
	mdb_env_close(env);

	pgw_store_stats(&before);
	env = open_new(0, GIB);
	commit(env, 0, 100);
	pgw_store_stats(&after);
	assert_int_equal(after.commits, before.commits + 1);
	mdb_env_close(env);
	pgw_store_stats(&after);
	assert_int_equal(after.commits, before.commits + 1);

	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		assert_non_null(pgw_full_sync_name(i));
	assert_null(pgw_full_sync_name(PGW_FULL_SYNC_COUNT));
}

static void reading_only_is_left_alone(void **state)
{
	MDB_env *env = open_new(0, GIB);
	struct pgw_env_stats st;
	MDB_txn *txn;

	commit(env, 0, 100);
	mdb_env_close(env);
	env = open_at(dir, MDB_RDONLY, GIB);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), EACCES);
	assert_int_equal(mdb_env_sync(env, 1), EACCES);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	mdb_txn_abort(txn);
	st = stats(env);
	assert_int_equal(st.barriers + st.commits + full(&st), 0);
	mdb_env_close(env);
}

static void opening_fails_as_it_does(void **state)
{
	MDB_env *env;

	OK(mdb_env_create(&env));
	assert_int_equal(mdb_env_open(env, "/nonexistent/folder", 0, 0600), ENOENT);
	mdb_env_close(env);
	env = open_new(0, GIB);
	assert_int_equal(mdb_env_open(env, dir, 0, 0600), EINVAL);
	commit(env, 0, 100); /* and the first opening is not harmed */
	assert_int_equal(stats(env).commits, 1);
	mdb_env_close(env);
	mdb_env_close(NULL);
	assert_int_equal(mdb_txn_commit(NULL), EINVAL);
}

static void a_copy_holds_the_same(void **state)
{
	MDB_env *env = open_new(MDB_WRITEMAP, GIB), *copy;
	char path[1100];
	MDB_stat a, b;

	for (unsigned i = 0; i < 20; i++)
		commit(env, i, 5000);
	snprintf(path, sizeof(path), "%s/copy", dir);
	OK(mkdir(path, 0700));
	OK(mdb_env_copy2(env, path, MDB_CP_COMPACT));
	copy = open_at(path, 0, GIB);
	OK(mdb_env_stat(env, &a));
	OK(mdb_env_stat(copy, &b));
	assert_int_equal(a.ms_entries, b.ms_entries);
	mdb_env_close(copy);
	mdb_env_close(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_record_by_write_is_two_barriers),
		cmocka_unit_test(one_record_by_map_is_two_barriers),
		cmocka_unit_test(dirty_bytes_are_those_of_the_value),
		cmocka_unit_test(reasons_for_a_full_sync),
		cmocka_unit_test(another_writer_is_noticed),
		cmocka_unit_test(without_metasync_one_barrier),
		cmocka_unit_test(ranges_are_named_where_others_are_dirty),
		cmocka_unit_test(what_commits_nothing_syncs_nothing),
		cmocka_unit_test(the_directory_is_synced_once),
		cmocka_unit_test(a_name_made_under_nosync_becomes_durable),
		cmocka_unit_test(a_descriptor_that_was_taken_over_is_left_alone),
		cmocka_unit_test(a_refused_resize_changes_nothing),
		cmocka_unit_test(resizing_goes_on),
		cmocka_unit_test(statistics_name_their_errors),
		cmocka_unit_test(reading_only_is_left_alone),
		cmocka_unit_test(opening_fails_as_it_does),
		cmocka_unit_test(a_copy_holds_the_same),
	};
	int failed;

	scratch_make_here(top, sizeof(top));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	scratch_remove(top);
	return failed;
}
