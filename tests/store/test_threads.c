/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_threads.c - many environments, threads and processes: what is known of one must not be taken
 * for another.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagewise/store.h>

#include "scratch.h"

static char top[512];

/* In threads cmocka's assertions do not work. */
#define MUST(cond)                                                                 \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                   \
		}                                                                  \
	} while (0)

static MDB_env *open_env(const char *name, unsigned flags, size_t map)
{
	char path[1024];
	MDB_env *env;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	mkdir(path, 0700);
	MUST(!mdb_env_create(&env));
	MUST(!mdb_env_set_mapsize(env, map));
	MUST(!mdb_env_open(env, path, flags, 0600));
	return env;
}

static void commit(MDB_env *env, unsigned key, size_t len)
{
	static const char zeros[100000];
	MDB_val k = { sizeof(key), &key }, v = { len, (void *)zeros };
	MDB_txn *txn;
	MDB_dbi dbi;

	MUST(!mdb_txn_begin(env, NULL, 0, &txn));
	MUST(!mdb_dbi_open(txn, NULL, 0, &dbi));
	MUST(!mdb_put(txn, dbi, &k, &v, 0));
	MUST(!mdb_txn_commit(txn));
}

static struct pgw_env_stats stats(MDB_env *env)
{
	struct pgw_env_stats st;

	MUST(!pgw_env_stats(env, &st));
	return st;
}

/* A thread's own environment, opened and closed while others do the same. */
static void *own_environment(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "own%u", me);
	for (unsigned round = 0; round < 30; round++) {
		MDB_env *env = open_env(name, me & 1 ? MDB_WRITEMAP : 0, 8 << 20);
		struct pgw_env_stats st;

		for (unsigned i = 0; i < 10; i++)
			commit(env, i, 10000);
		MUST(!mdb_env_set_mapsize(env, 9 << 20));
		commit(env, 10, 50000);
		st = stats(env);
		MUST(st.commits == 11);
		MUST(st.full_syncs[PGW_FULL_FIRST] == 1);
		MUST(st.full_syncs[PGW_FULL_REMAPPED] == 1);
		MUST(st.full_syncs[PGW_FULL_UNTRACKED] == 0);
		MUST(st.full_syncs[PGW_FULL_OTHER_WRITER] == 0);
		/* Three pages of a value each, and what is around them: nobody else's. */
		MUST(st.dirty_bytes >= 10 * 3 * 4096 + 13 * 4096);
		MUST(st.dirty_bytes <= 11 * 8 * 4096 + 13 * 4096);
		mdb_env_close(env);
	}
	return NULL;
}

static void threads_in_their_own_environments(void **state)
{
	pthread_t t[4];

	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, own_environment, (void *)i), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static struct {
	MDB_env *env;
	atomic_bool stop;
} shared;

static void *keep_syncing(void *arg)
{
	while (!atomic_load(&shared.stop)) {
		struct pgw_env_stats st;

		MUST(!mdb_env_sync(shared.env, 1));
		MUST(!pgw_env_stats(shared.env, &st));
	}
	return NULL;
}

static void *keep_reading(void *arg)
{
	while (!atomic_load(&shared.stop)) {
		MDB_txn *txn;

		MUST(!mdb_txn_begin(shared.env, NULL, MDB_RDONLY, &txn));
		MUST(!mdb_txn_commit(txn));
	}
	return NULL;
}

static void *write_some(void *arg)
{
	for (unsigned i = 0; i < 150; i++)
		commit(shared.env, i, 300);
	return NULL;
}

static void writers_syncs_and_readers_at_once(void **state)
{
	for (int map = 0; map < 2; map++) {
		pthread_t t[4];
		struct pgw_env_stats st;

		shared.env = open_env("shared", map ? MDB_WRITEMAP : 0, 8 << 20);
		atomic_store(&shared.stop, false);
		pthread_create(&t[0], NULL, write_some, NULL);
		pthread_create(&t[1], NULL, write_some, NULL);
		pthread_create(&t[2], NULL, keep_syncing, NULL);
		pthread_create(&t[3], NULL, keep_reading, NULL);
		pthread_join(t[0], NULL);
		pthread_join(t[1], NULL);
		atomic_store(&shared.stop, true);
		pthread_join(t[2], NULL);
		pthread_join(t[3], NULL);
		st = stats(shared.env);
		assert_int_equal(st.commits, 300);
		/* Two threads of one environment are one writer. */
		assert_int_equal(st.full_syncs[PGW_FULL_OTHER_WRITER], 0);
		assert_int_equal(st.full_syncs[PGW_FULL_FIRST], 1);
		mdb_env_close(shared.env);
	}
}

static void opened_and_closed_hundreds_of_times(void **state)
{
	for (unsigned i = 0; i < 500; i++) {
		MDB_env *env = open_env("often", i & 1 ? MDB_WRITEMAP : 0, 1 << 20);

		commit(env, i, 100);
		assert_int_equal(stats(env).commits, 1);
		mdb_env_close(env);
	}
}

static void many_at_once(void **state)
{
	enum { N = 60 };
	MDB_env *env[N];
	char name[16];

	for (unsigned i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "many%u", i);
		env[i] = open_env(name, i & 1 ? MDB_WRITEMAP : 0, 1 << 20);
	}
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < N; i++)
			commit(env[(i * 7) % N], round, 100);
	for (unsigned i = 0; i < N; i++) {
		struct pgw_env_stats st = stats(env[i]);

		assert_int_equal(st.commits, 3);
		assert_int_equal(st.full_syncs[PGW_FULL_UNTRACKED], 0);
		assert_int_equal(st.full_syncs[PGW_FULL_FIRST], 1);
		mdb_env_close(env[i]);
	}
}

/* One thread, two write transactions at a time: the hint of the thread is wrong half of the time.
 */
static void two_transactions_side_by_side(void **state)
{
	MDB_env *a = open_env("a", MDB_WRITEMAP, 8 << 20),
		*b = open_env("b", MDB_WRITEMAP, 8 << 20);
	uint64_t before_a, before_b;
	static char buf[5000];
	MDB_txn *ta, *tb;
	MDB_dbi da, db;

	commit(a, 1000, 10);
	commit(b, 1000, 10);
	before_a = stats(a).dirty_bytes;
	before_b = stats(b).dirty_bytes;
	assert_int_equal(mdb_txn_begin(a, NULL, 0, &ta), 0);
	assert_int_equal(mdb_txn_begin(b, NULL, 0, &tb), 0);
	assert_int_equal(mdb_dbi_open(ta, NULL, 0, &da), 0);
	assert_int_equal(mdb_dbi_open(tb, NULL, 0, &db), 0);
	for (unsigned i = 0; i < 20; i++) {
		MDB_val k = { sizeof(i), &i }, v = { sizeof(buf), buf };

		assert_int_equal(mdb_put(ta, da, &k, &v, 0), 0);
		v.mv_size = 50;
		assert_int_equal(mdb_put(tb, db, &k, &v, 0), 0);
	}
	assert_int_equal(mdb_txn_commit(ta), 0);
	assert_int_equal(mdb_txn_commit(tb), 0);
	assert_true(stats(a).dirty_bytes - before_a >= 20 * 2 * 4096);
	assert_true(stats(b).dirty_bytes - before_b <= 4 * 4096);
	mdb_env_close(b);
	mdb_env_close(a);
}

/* A child may not use its parent's environment; ending must work. */
static void a_forked_child_ends(void **state)
{
	MDB_env *env = open_env("fork", MDB_WRITEMAP, 8 << 20);
	MDB_txn *txn;
	int status, fd;
	pid_t pid;

	commit(env, 0, 100);
	assert_int_equal(mdb_env_get_fd(env, &fd), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0); /* the writer lock is held */
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		MDB_env *own;

		close(fd);
		own = open_env("child", 0, 1 << 20); /* may get the same descriptor */
		commit(own, 1, 100);
		mdb_env_close(own);
		_exit(stats(env).commits == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	mdb_txn_abort(txn);
	commit(env, 1, 100);
	assert_int_equal(stats(env).commits, 2);
	mdb_env_close(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_in_their_own_environments),
		cmocka_unit_test(writers_syncs_and_readers_at_once),
		cmocka_unit_test(opened_and_closed_hundreds_of_times),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(two_transactions_side_by_side),
		cmocka_unit_test(a_forked_child_ends),
	};
	int failed;

	scratch_make(top, sizeof(top));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	scratch_remove(top);
	return failed;
}
