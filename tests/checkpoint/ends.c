/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ends.c - threads and processes that end where programs seldom look: main leaves by pthread_exit.
 *
 * Each process under test is a child. One that hangs is ended by an alarm, and its status tells.
 */
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "../../shim/sys.h"

#define PATIENCE 100 /* seconds, for what takes milliseconds on an idle machine */

static const char *dir;
static enum pgw_durability durability;
static bool in_a_child;

/* A process whose main thread is gone has leaks, seen from its last thread. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return in_a_child;
}

static unsigned threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void nap(void)
{
	usleep(10000);
}

static MDB_env *open_here(unsigned checkpoint_ms)
{
	return open_env(dir, (struct spec){ durability, 0, checkpoint_ms, 0 });
}

/* --- main leaves by pthread_exit (the thread sanitizer has a thread of its own, that stays) --- */

#ifndef __SANITIZE_THREAD__
/* Attaching opens the data file through /proc, where /proc/self shows no descriptors then. */
static void *work_alone(void *arg)
{
	MDB_env *env;
	char path[40];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	while (!access(path, F_OK))
		nap();
	env = open_here(20);
	for (uint32_t i = 1; i <= 20; i++)
		put(env, i, i);
	return NULL; /* env stays open, as in many programs */
}

static int main_leaves(void *arg)
{
	pthread_t t;

	in_a_child = true;
	alarm(PATIENCE);
	if (pthread_create(&t, NULL, work_alone, NULL))
		return 3;
	pthread_exit(NULL);
}

static void the_process_ends_with_the_last_thread_of_the_program(void **state)
{
	MDB_env *env;

	dir = *state;
	for (durability = PGW_DURABILITY_STRICT; durability <= PGW_DURABILITY_RELAXED;
	     durability++) {
		assert_int_equal(in_child(main_leaves, NULL), 0);
		assert_false(is_fenced(dir));
		env = open_here(0);
		for (uint32_t i = 1; i <= 20; i++)
			assert_int_equal(get(env, i), i);
		mdb_env_close(env);
	}
}

#endif

/* --- the thread of relaxed --- */

static void *nothing(void *arg)
{
	return arg;
}

static void it_ends_when_idle_and_comes_back(void **state)
{
	uint64_t ticket;
	unsigned before;
	pthread_t t;
	MDB_env *env;

	/* The thread sanitizer's own thread comes with the first one. */
	assert_int_equal(pthread_create(&t, NULL, nothing, NULL), 0);
	pthread_join(t, NULL);
	nap();
	before = threads();

	dir = *state;
	durability = PGW_DURABILITY_RELAXED;
	env = open_here(10);
	for (uint32_t round = 1; round <= 2; round++) {
		OK(try_put(env, 1, round, &ticket));
		while (durable(env) < ticket) /* by itself: nobody waits for it */
			nap();
		assert_int_equal(durable(env), ticket);
		while (threads() > before)
			nap();
	}
	mdb_env_close(env);
}

/* --- destructors of libraries, which can come after the library's own --- */

static MDB_env *left_to_destructor;

__attribute__((destructor(101))) static void write_and_close(void)
{
	MDB_env *env = left_to_destructor;

	if (!env)
		return;
	if (try_put(env, 2, 22, NULL) || mdb_env_sync(env, 1) || is_fenced(dir))
		_exit(4);
	mdb_env_close(env);
	_exit(5);
}

static int leaves_the_rest_to_a_destructor(void *arg)
{
	in_a_child = true;
	alarm(PATIENCE);
	left_to_destructor = open_here(0);
	put(left_to_destructor, 1, 11);
	exit(3);
}

static void a_destructor_can_write(void **state)
{
	dir = *state;
	for (durability = PGW_DURABILITY_STRICT; durability <= PGW_DURABILITY_RELAXED;
	     durability++) {
		MDB_env *env;

		assert_int_equal(in_child(leaves_the_rest_to_a_destructor, NULL), 5);
		assert_false(is_fenced(dir));
		env = open_here(0);
		assert_int_equal(get(env, 1), 11);
		assert_int_equal(get(env, 2), 22);
		mdb_env_close(env);
		OK(run("rm -f %s/*", dir));
	}
}

/* --- exit in a signal handler --- */

static void leave(int signo)
{
	alarm(PATIENCE);
	exit(0);
}

/* Every checkpoint has a barrier: one of these. */
static int leave_in_fdatasync(int fd)
{
	raise(SIGUSR1);
	return pgw__sys_real.fdatasync(fd);
}

static int leave_in_msync(void *addr, size_t len, int flags)
{
	raise(SIGUSR1);
	return pgw__sys_real.msync(addr, len, flags);
}

static int interrupted(void *arg)
{
	MDB_env *env = open_here(1000);

	in_a_child = true;
	put(env, 1, 1);
	OK(mdb_env_sync(env, 1));
	signal(SIGUSR1, leave);
	pgw__sys.fdatasync = leave_in_fdatasync;
	pgw__sys.msync = leave_in_msync;
	put(env, 1, 2);
	(void)mdb_env_sync(env, 1);
	return 3;
}

static void exit_does_not_wait_for_the_checkpoint_that_it_interrupts(void **state)
{
	dir = *state;
	for (durability = PGW_DURABILITY_GROUP; durability <= PGW_DURABILITY_RELAXED;
	     durability++) {
		MDB_env *env;

		assert_int_equal(in_child(interrupted, NULL), 0);
		assert_true(is_fenced(dir)); /* as after a kill */
		env = open_here(0);
		assert_int_equal(get(env, 1), 2);
		mdb_env_close(env);
		assert_false(is_fenced(dir));
	}
}

/* --- a transaction that nobody ends --- */

static MDB_env *shared_env;

static void *begin_and_end(void *arg)
{
	MDB_txn *txn;

	OK(mdb_txn_begin(shared_env, NULL, 0, &txn));
	return NULL;
}

/* LMDB answers with MDB_PANIC, and so it is here. */
static int a_writer_dies(void *arg)
{
	pthread_t t;
	MDB_txn *txn;

	in_a_child = true;
	alarm(PATIENCE);
	shared_env = open_here(0);
	put(shared_env, 1, 3);
	if (pthread_create(&t, NULL, begin_and_end, NULL))
		return 3;
	pthread_join(t, NULL);
	if (mdb_txn_begin(shared_env, NULL, 0, &txn) != MDB_PANIC)
		return 4;
	mdb_env_close(shared_env);
	return 0;
}

static int closed_in_a_transaction(void *arg)
{
	MDB_env *env;
	MDB_txn *txn;

	in_a_child = true;
	alarm(PATIENCE);
	env = open_here(0);
	put(env, 1, 4);
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	mdb_env_close(env);
	return is_fenced(dir);
}

static void other_threads_and_close_outlive_an_open_transaction(void **state)
{
	dir = *state;
	for (durability = PGW_DURABILITY_STRICT; durability <= PGW_DURABILITY_RELAXED;
	     durability++) {
		MDB_env *env;

		assert_int_equal(in_child(a_writer_dies, NULL), 0);
		env = open_here(0);
		assert_int_equal(get(env, 1), 3);
		mdb_env_close(env);
		assert_int_equal(in_child(closed_in_a_transaction, NULL), 0);
		env = open_here(0);
		assert_int_equal(get(env, 1), 4);
		mdb_env_close(env);
	}
}

static void attaching_in_a_transaction_is_refused(void **state)
{
	struct pgw_env_options o;
	MDB_txn *txn;
	MDB_env *env;

	dir = *state;
	durability = PGW_DURABILITY_STRICT;
	env = open_here(0);
	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_GROUP;
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	assert_int_equal(pgw_env_attach(env, &o), EBUSY);
	mdb_txn_abort(txn);
	OK(pgw_env_attach(env, &o));
	put(env, 1, 1);
	mdb_env_close(env);
}

/* --- a thread that is cancelled while it waits for its barrier (the address sanitizer takes the unwound
 * stack for an error) --- */

#ifndef __SANITIZE_ADDRESS__

static _Atomic bool in_barrier, go_on;

static int slow_fdatasync(int fd)
{
	atomic_store(&in_barrier, true);
	while (!atomic_load(&go_on))
		nap();
	return pgw__sys_real.fdatasync(fd);
}

static int slow_msync(void *addr, size_t len, int flags)
{
	atomic_store(&in_barrier, true);
	while (!atomic_load(&go_on))
		nap();
	return pgw__sys_real.msync(addr, len, flags);
}

static void *commit_once(void *arg)
{
	put(shared_env, (uint32_t)(uintptr_t)arg, 1);
	return NULL;
}

static void a_cancelled_committer_stops_nobody(void **state)
{
	pthread_t runner, waiter;

	dir = *state;
	durability = PGW_DURABILITY_GROUP;
	shared_env = open_here(0);
	put(shared_env, 1, 1);
	pgw__sys.fdatasync = slow_fdatasync;
	pgw__sys.msync = slow_msync;
	assert_int_equal(pthread_create(&runner, NULL, commit_once, (void *)2), 0);
	while (!atomic_load(&in_barrier))
		nap();
	assert_int_equal(pthread_create(&waiter, NULL, commit_once, (void *)3), 0);
	while (!get(shared_env, 3))
		nap();
	pthread_cancel(runner);
	pthread_cancel(waiter);
	atomic_store(&go_on, true);
	pthread_join(runner, NULL);
	pthread_join(waiter, NULL);
	pgw__sys = pgw__sys_real;
	put(shared_env, 4, 1);
	mdb_env_close(shared_env);
	assert_false(is_fenced(dir));
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
#ifndef __SANITIZE_THREAD__
		TEST(the_process_ends_with_the_last_thread_of_the_program),
#endif
		TEST(it_ends_when_idle_and_comes_back),
		TEST(a_destructor_can_write),
		TEST(exit_does_not_wait_for_the_checkpoint_that_it_interrupts),
		TEST(other_threads_and_close_outlive_an_open_transaction),
		TEST(attaching_in_a_transaction_is_refused),
#ifndef __SANITIZE_ADDRESS__
		TEST(a_cancelled_committer_stops_nobody),
#endif
	};

	return cmocka_run_group_tests_name("ends", tests, NULL, NULL);
}
