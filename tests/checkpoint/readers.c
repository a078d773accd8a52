/* SPDX-License-Identifier: BSD-2-Clause
 *
 * readers.c - readers that are stalled are seen, and readers that were killed are in nobody's way.
 */
#include "util.h"

#include <errno.h>
#include <signal.h>

static struct pgw_readers readers(MDB_env *env)
{
	struct pgw_readers r;

	OK(pgw_env_readers(env, &r));
	return r;
}

static uint64_t pages(MDB_env *env)
{
	MDB_envinfo info;

	OK(mdb_env_info(env, &info));
	return info.me_last_pgno;
}

static void overwrite(MDB_env *env, unsigned times)
{
	for (uint32_t n = 0; n < times; n++)
		put(env, n % 50, n);
}

/* A process that is in a read transaction. */
static pid_t start_reader(const char *dir, int *release)
{
	int ready[2], hold[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		MDB_env *env;
		MDB_txn *txn;

		close(hold[1]);
		if (mdb_env_create(&env) || mdb_env_open(env, dir, MDB_RDONLY, 0600) ||
		    mdb_txn_begin(env, NULL, MDB_RDONLY, &txn))
			_exit(1);
		if (write(ready[1], "x", 1) != 1 || read(hold[0], &c, 1) != 0)
			_exit(2);
		mdb_txn_abort(txn);
		mdb_env_close(env);
		_exit(0);
	}
	close(ready[1]);
	close(hold[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	*release = hold[1];
	return pid;
}

static void end_reader(pid_t pid, int release, int sig)
{
	int status;

	if (sig)
		kill(pid, sig);
	close(release);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(sig ? WTERMSIG(status) : status, sig);
}

static const struct spec specs[] = {
	{ .flags = MDB_NOSYNC },
	{ .flags = MDB_NOSYNC | MDB_NOTLS },
	{ .durability = PGW_DURABILITY_RELAXED },
	{ .durability = PGW_DURABILITY_RELAXED, .flags = MDB_NOTLS },
};

#define EACH_SPEC(i) (unsigned i = 0; i < sizeof(specs) / sizeof(*specs); i++)

static void our_own_pins_are_none(void **state)
{
	for
		EACH_SPEC(i)
		{
			MDB_env *env = open_env(*state, specs[i]);

			overwrite(env, 20);
			assert_int_equal(readers(env).readers, 0);
			assert_int_equal(readers(env).held_pages, 0);
			mdb_env_close(env);
		}
}

static void a_stalled_one_is_seen(void **state)
{
	for
		EACH_SPEC(i)
		{
			MDB_env *env = open_env(*state, specs[i]);
			struct pgw_readers r;
			int release;
			pid_t pid;

			overwrite(env, 60);
			pid = start_reader(*state, &release);
			r = readers(env);
			assert_int_equal(r.readers, 1);
			assert_int_equal(r.age, 0);
			overwrite(env, 40);
			r = readers(env);
			assert_int_equal(r.readers, 1);
			assert_int_equal(r.oldest_pid, pid);
			assert_int_equal(r.age, 40);
			assert_int_equal(r.newest_txnid, r.oldest_txnid + 40);
			assert_true(
			    r.held_pages >= 40); /* each transaction replaces a page at least */
			end_reader(pid, release, 0);
			assert_int_equal(readers(env).readers, 0);
			mdb_env_close(env);
		}
}

static void one_of_this_thread_is_seen(void **state)
{
	MDB_env *env = open_env(*state, specs[0]);
	struct pgw_readers r;
	MDB_txn *txn;

	overwrite(env, 10);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	r = readers(env); /* within the transaction */
	assert_int_equal(r.readers, 1);
	assert_int_equal(r.oldest_pid, getpid());
	assert_int_equal(r.oldest_txnid, mdb_txn_id(txn));
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void a_killed_one_does_not_make_the_file_grow(void **state)
{
	for
		EACH_SPEC(i)
		{
			MDB_env *env = open_env(*state, specs[i]);
			uint64_t before;
			int release;
			pid_t pid;

			overwrite(env, 60);
			pid = start_reader(*state, &release);
			end_reader(pid, release, SIGKILL);
			overwrite(env, 300); /* somewhere in there it is found */
			assert_int_equal(stats(env).dead_readers, 1);
			OK(mdb_env_sync(env, 1));
			before = pages(env);
			for (unsigned n = 0; n < 10; n++) {
				overwrite(env, 60);
				OK(mdb_env_sync(env, 1));
			}
			assert_true(
			    pages(env) <= before + 300); /* 600 transactions take over 1200 pages */
			mdb_env_close(env);
			OK(run("rm -f %s/*", (char *)*state));
		}
}

/* The library's own readers give back what they take. */
static void asking_takes_no_slot_for_good(void **state)
{
	for
		EACH_SPEC(i)
		{
			MDB_env *env = open_env(*state, specs[i]);
			MDB_envinfo info;

			overwrite(env, 5);
			for (unsigned n = 0; n < 300; n++)
				(void)readers(env);
			OK(mdb_env_info(env, &info));
			assert_true(info.me_numreaders < 10);
			overwrite(env, 5);
			mdb_env_close(env);
		}
}

/* What the program was promised is there, pins or not. */
static void pins_take_no_slot_from_readers(void **state)
{
	struct pgw_env_options o;
	MDB_txn *txn[2], *third;
	MDB_envinfo info;
	unsigned n;
	MDB_env *env;

	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_RELAXED;
	o.flags = MDB_NOTLS;
	o.max_readers = 2;
	OK(pgw_env_open(*state, &o, &env));
	OK(mdb_env_get_maxreaders(env, &n));
	assert_int_equal(n, 2);
	OK(mdb_env_info(env, &info));
	assert_int_equal(info.me_maxreaders, 2);
	overwrite(env, 5);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn[0]));
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn[1]));
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &third), MDB_READERS_FULL);
	mdb_txn_abort(txn[0]);
	mdb_txn_abort(txn[1]);
	mdb_env_close(env);
}

static void bad_arguments(void **state)
{
	struct pgw_readers r = { .readers = 7 };

	assert_int_equal(pgw_env_readers(NULL, &r), EINVAL);
	assert_int_equal(r.readers, 7);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(our_own_pins_are_none),
		TEST(a_stalled_one_is_seen),
		TEST(one_of_this_thread_is_seen),
		TEST(a_killed_one_does_not_make_the_file_grow),
		TEST(asking_takes_no_slot_for_good),
		TEST(pins_take_no_slot_from_readers),
		TEST(bad_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
