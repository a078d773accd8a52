/* SPDX-License-Identifier: BSD-2-Clause
 *
 * forks.c - a child that goes on with an environment which its parent has opened. LMDB's documentation forbids it,
 * and yet programs do it: they open, and then become a daemon. What is the parent's, its pins above all, the
 * child must leave alone; and nothing that it says to be durable may be lost.
 */
#include "util.h"

#include <errno.h>
#include <semaphore.h>

#define PATIENCE 100 /* seconds, for what takes milliseconds on an idle machine */
#define NEVER	 3600 * 1000

static const struct spec specs[] = {
	{ .durability = PGW_DURABILITY_GROUP },
	{ .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = NEVER },
	{ .durability = PGW_DURABILITY_RELAXED, .flags = MDB_WRITEMAP, .checkpoint_ms = NEVER },
};
enum { SPECS = sizeof(specs) / sizeof(*specs) };

static const char *dir;
static MDB_env *env;
static MDB_txn *open_txn;
static uint64_t ticket;

static int goes_on_beside_it(void *arg)
{
	const struct spec *s = arg;
	bool waits = s->durability == PGW_DURABILITY_GROUP;

	alarm(PATIENCE);
	EXPECT(try_put(env, 1, 100, NULL), PGW_BUSY);
	EXPECT(try_put(env, 1, 101, NULL), PGW_BUSY);
	/* In group all is durable, and that may be said. */
	EXPECT(mdb_env_sync(env, 1), waits ? 0 : PGW_BUSY);
	EXPECT(pgw_env_checkpoint(env), waits ? 0 : PGW_BUSY);
	EXPECT(pgw_env_wait(env, ticket, -1), waits ? 0 : PGW_BUSY);
	mdb_env_close(env);
	return 0;
}

static void a_child_does_not_write_beside_its_parent(void **state)
{
	dir = *state;
	for (int i = 0; i < SPECS; i++) {
		uint64_t before;

		env = open_env(dir, specs[i]);
		OK(mdb_env_sync(env, 1));
		OK(try_put(env, 1, 1, &ticket));
		if (specs[i].durability == PGW_DURABILITY_GROUP)
			OK(pgw_env_wait(env, ticket, -1));
		before = durable(env);
		assert_int_equal(in_child(goes_on_beside_it, (void *)&specs[i]), 0);
		assert_true(is_fenced(dir));
		assert_int_equal(get(env, 1), 1);
		assert_int_equal(durable(env), before);
		put(env, 2, 2);
		OK(mdb_env_sync(env, 1));
		assert_int_equal(durable(env), ticket + 1);
		mdb_env_close(env);
		assert_false(is_fenced(dir));
		OK(run("rm -f %s/*", dir));
	}
}

static int becomes_a_daemon(void *arg)
{
	int rc, ready[2];
	bool leave_it_fenced = *(bool *)arg;

	alarm(PATIENCE);
	if (pipe(ready))
		return 3;
	env = open_env(
	    dir, (struct spec){ .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = NEVER });
	put(env, 1, 1);
	if (fork()) {
		close(ready[0]);
		if (leave_it_fenced)
			_exit(0);
		exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &(char){ 0 }, 1)) /* until the parent has gone */
		return 3;
	rc = try_put(env, 2, 2, NULL);
	if (!rc)
		rc = mdb_env_sync(env, 1);
	mdb_env_close(env);
	_exit(rc ? 1 : 0);
}

/* The process that the test waits for is not the one that works. */
static int waits_for_the_daemon(void *arg)
{
	int done[2];

	if (pipe(done))
		return 3;
	if (in_child(becomes_a_daemon, arg))
		return 4;
	close(done[1]);
	return read(done[0], &(char){ 0 }, 1) ? 3 : 0;
}

static void a_daemon_goes_on_when_its_parent_has_left(void **state)
{
	dir = *state;
	for (int i = 0; i < 2; i++) {
		bool leave_it_fenced = i;

		assert_int_equal(in_child(waits_for_the_daemon, &leave_it_fenced), 0);
		assert_false(is_fenced(dir));
		env = open_env(dir, specs[0]);
		assert_int_equal(get(env, 1), 1);
		assert_int_equal(get(env, 2), 2);
		mdb_env_close(env);
		OK(run("rm -f %s/*", dir));
	}
}

static int ends_a_transaction_of_its_parent(void *arg)
{
	alarm(PATIENCE);
	EXPECT(mdb_txn_commit(open_txn), PGW_BUSY);
	return 0;
}

static int aborts_a_transaction_of_its_parent(void *arg)
{
	alarm(PATIENCE);
	mdb_txn_abort(open_txn);
	return 0;
}

static void a_transaction_is_not_committed_twice(void **state)
{
	dir = *state;
	for (int i = -1; i < SPECS; i++) {
		env = open_env(dir, i < 0 ? (struct spec){ 0 } : specs[i]);
		put(env, 1, 1);
		OK(mdb_txn_begin(env, NULL, 0, &open_txn));
		assert_int_equal(in_child(ends_a_transaction_of_its_parent, NULL), 0);
		assert_int_equal(in_child(aborts_a_transaction_of_its_parent, NULL), 0);
		OK(mdb_txn_commit(open_txn));
		put(env, 1, 2);
		mdb_env_close(env);
		OK(run("rm -f %s/*", dir));
	}
}

/* ---- locks that another thread held when the process was forked ---- */

static sem_t held, let_go;

static void *holds_a_transaction(void *arg)
{
	MDB_txn *txn;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	sem_post(&held);
	while (sem_wait(&let_go))
		;
	mdb_txn_abort(txn);
	return NULL;
}

static int writes_after_that(void *arg)
{
	alarm(PATIENCE);
	EXPECT(try_put(env, 1, 3, NULL), PGW_BUSY);
	mdb_env_close(env);
	return 0;
}

static void locks_of_other_threads_do_not_stop_a_child(void **state)
{
	dir = *state;
	for (int i = 0; i < SPECS; i++) {
		pthread_t thread;
		int status;
		pid_t pid;

		sem_init(&held, 0, 0);
		sem_init(&let_go, 0, 0);
		env = open_env(dir, specs[i]);
		put(env, 1, 1);
		assert_int_equal(pthread_create(&thread, NULL, holds_a_transaction, NULL), 0);
		while (sem_wait(&held))
			;
		fflush(NULL);
		pid = fork();
		if (!pid)
			_exit(writes_after_that(NULL));
		sem_post(&let_go); /* LMDB's own lock is one of both processes */
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		pthread_join(thread, NULL);
		put(env, 1, 2);
		mdb_env_close(env);
		OK(run("rm -f %s/*", dir));
	}
}

/* ---- attaching ---- */

static int attaches(void *arg)
{
	struct pgw_env_options o;

	alarm(PATIENCE);
	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_GROUP;
	EXPECT(pgw_env_attach(env, &o), PGW_NOT_POSSIBLE);
	return 0;
}

/* Its reader slots would be in the parent's name, and given away when that has ended. */
static void a_child_cannot_attach(void **state)
{
	dir = *state;
	env = open_env(dir, (struct spec){ 0 });
	put(env, 1, 1);
	assert_int_equal(in_child(attaches, NULL), 0);
	assert_false(is_fenced(dir));
	put(env, 1, 2);
	mdb_env_close(env);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_child_does_not_write_beside_its_parent),
		TEST(a_daemon_goes_on_when_its_parent_has_left),
		TEST(a_transaction_is_not_committed_twice),
		TEST(locks_of_other_threads_do_not_stop_a_child),
		TEST(a_child_cannot_attach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
