/* SPDX-License-Identifier: BSD-2-Clause
 *
 * writeout.c - how pages get to the disk: each by itself, before the cut is taken, and while writers go
 * on.
 */
#include "util.h"

#include <fcntl.h>
#include <semaphore.h>

#include "sys.h"

#define VALUE 100000 /* bytes: 25 pages in a row */

static MDB_env *open_relaxed(const char *dir, uint64_t checkpoint_bytes)
{
	struct pgw_env_options o;
	MDB_env *env;

	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_RELAXED;
	o.checkpoint_ms = 3600 * 1000;
	o.checkpoint_bytes = checkpoint_bytes;
	o.map_size = 64u << 20;
	OK(pgw_env_open(dir, &o, &env));
	return env;
}

static uint64_t put_large(MDB_env *env, uint32_t key)
{
	static const char value[VALUE];
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), (void *)value };
	uint64_t ticket;
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	OK(mdb_put(txn, dbi, &k, &v, 0));
	OK(pgw_txn_commit_async(txn, &ticket));
	return ticket;
}

/* --- writes, counted --- */

static unsigned writes, vectors, long_writes;

static int64_t count_write(int fd, const struct iovec *v, int n, uint64_t off)
{
	writes++;
	vectors += n > 1;
	for (int i = 0; i < n; i++)
		long_writes += v[i].iov_len > 4096;
	return pgw__sys_real.pwritev(fd, v, n, off);
}

/* Many pages in a row, and one value on overflow pages. */
static void commit_many(MDB_env *env)
{
	static char value[VALUE];
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	for (uint32_t i = 0; i < 100; i++) {
		MDB_val k = { sizeof(i), &i }, v = { i ? 1000 : VALUE, value };

		OK(mdb_put(txn, dbi, &k, &v, 0));
	}
	writes = vectors = long_writes = 0;
	pgw__sys.pwritev = count_write;
	OK(mdb_txn_commit(txn));
	pgw__sys.pwritev = pgw__sys_real.pwritev;
}

static void pages_are_written_apart(void **state)
{
	struct spec s = { .durability = PGW_DURABILITY_GROUP };
	MDB_env *env = open_env(*state, s);
	MDB_stat st;

	OK(mdb_env_stat(env, &st));
	if (st.ms_psize != 4096) { /* the counts are for that */
		mdb_env_close(env);
		skip();
	}
	commit_many(env);
	assert_true(writes > 30);
	assert_int_equal(vectors, 0);
	assert_int_equal(long_writes, 1);
	assert_int_equal(get(env, 1), 0); /* it can be read, and is what was put */
	mdb_env_close(env);

	/* All that a strict commit syncs was written by it: nothing to keep apart. */
	s.durability = PGW_DURABILITY_STRICT;
	env = open_env(*state, s);
	commit_many(env);
	assert_true(vectors > 0);
	mdb_env_close(env);
}

/* --- a transaction that is committed while write-out is started --- */

static MDB_env *late_env;
static uint64_t late_ticket;

static int commit_meanwhile(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	if (!late_ticket) {
		late_ticket = 1; /* its own calls do not come here again */
		late_ticket = put_large(late_env, 1000);
	}
	return pgw__sys_real.sync_file_range(fd, off, len, flags);
}

static void what_is_committed_during_write_out_is_in_the_cut(void **state)
{
	struct pgw_env_stats before;

	late_env = open_relaxed(*state, 64u << 20);
	before = stats(late_env);
	if (before.strategy != PGW_SYNC_WRITEOUT || !strcmp(before.fs, "tmpfs")) {
		mdb_env_close(late_env);
		skip();
	}
	for (uint32_t i = 0; i < 20; i++)
		put_large(late_env, i);
	late_ticket = 0;
	pgw__sys.sync_file_range = commit_meanwhile;
	OK(pgw_env_checkpoint(late_env));
	pgw__sys.sync_file_range = pgw__sys_real.sync_file_range;
	assert_true(late_ticket > 1);
	assert_int_equal(durable(late_env), late_ticket);
	assert_int_equal(stats(late_env).checkpoints, before.checkpoints + 1);
	assert_int_equal(stats(late_env).barriers, before.barriers + 1);
	mdb_env_close(late_env);
}

static sem_t write_out_begun, write_out_allowed;
static _Atomic bool held_up;

static int hold_up_the_first(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	if (!atomic_exchange(&held_up, true)) {
		sem_post(&write_out_begun);
		sem_wait(&write_out_allowed);
	}
	return pgw__sys_real.sync_file_range(fd, off, len, flags);
}

/* Nobody waits for the barrier of relaxed's own thread, and a late cut would only hold back more. */
static void the_thread_cuts_at_once(void **state)
{
	MDB_env *env = open_relaxed(*state, 4u << 20);
	struct pgw_env_stats before = stats(env);
	uint64_t ticket;

	if (before.strategy != PGW_SYNC_WRITEOUT || !strcmp(before.fs, "tmpfs")) {
		mdb_env_close(env);
		skip();
	}
	sem_init(&write_out_begun, 0, 0);
	sem_init(&write_out_allowed, 0, 0);
	atomic_store(&held_up, false);
	pgw__sys.sync_file_range = hold_up_the_first;
	/* Enough for one checkpoint, and not for a second. Two values of three are free again, so that
	 * what is live is named. */
	for (uint32_t i = 0; i < 48; i++)
		put_large(env, i % 3 ? 500 : i);
	sem_wait(&write_out_begun);
	ticket = put_large(env, 1000);
	sem_post(&write_out_allowed);
	while (stats(env).checkpoints == before.checkpoints || !durable(env))
		usleep(1000);
	assert_true(durable(env) < ticket);
	assert_int_equal(stats(env).checkpoints, before.checkpoints + 1);
	mdb_env_close(env); /* ends the thread */
	pgw__sys.sync_file_range = pgw__sys_real.sync_file_range;
	sem_destroy(&write_out_begun);
	sem_destroy(&write_out_allowed);
}

/* --- one call for all, or one for each --- */

static unsigned starts;

static int count_starts(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	starts += flags == SYNC_FILE_RANGE_WRITE;
	return pgw__sys_real.sync_file_range(fd, off, len, flags);
}

static void pages_that_are_free_again_are_not_written(void **state)
{
	struct pgw_env_stats before;
	MDB_env *env = open_relaxed(*state, 64u << 20);

	before = stats(env);
	if (before.strategy != PGW_SYNC_WRITEOUT || !strcmp(before.fs, "tmpfs")) {
		mdb_env_close(env);
		skip();
	}
	commit_many(env);
	OK(pgw_env_checkpoint(env));
	pgw__sys.sync_file_range = count_starts;

	/* One transaction: all that it wrote is in use. That and the record are two ranges at least. */
	starts = 0;
	put(env, 1, 1);
	OK(pgw_env_checkpoint(env));
	assert_int_equal(starts, 1);

	/* Many: most pages are free again, and lie between the others. */
	starts = 0;
	for (uint32_t i = 0; i < 100; i++)
		put(env, i, 2);
	before = stats(env);
	OK(pgw_env_checkpoint(env));
	assert_true(starts >= stats(env).live_ranges - before.live_ranges);
	pgw__sys.sync_file_range = pgw__sys_real.sync_file_range;
	mdb_env_close(env);
}

/* --- a writer that is too far ahead, while barriers take as long as the test wants --- */

static sem_t barriers_allowed;
static _Atomic unsigned barriers_begun, commits;
static _Atomic bool done;

static int slow_msync(void *addr, size_t len, int flags)
{
	atomic_fetch_add(&barriers_begun, 1);
	sem_wait(&barriers_allowed);
	return pgw__sys_real.msync(addr, len, flags);
}

static int slow_fdatasync(int fd)
{
	atomic_fetch_add(&barriers_begun, 1);
	sem_wait(&barriers_allowed);
	return pgw__sys_real.fdatasync(fd);
}

static void slow_barriers(bool on)
{
	pgw__sys.msync = on ? slow_msync : pgw__sys_real.msync;
	pgw__sys.fdatasync = on ? slow_fdatasync : pgw__sys_real.fdatasync;
}

/* One barrier, once the writer is about to be stopped. Were that not enough for it, it would be stuck:
 * then all of them, so that it finds out. */
static void *allow_barriers(void *arg)
{
	while (atomic_load(&commits) < 25)
		usleep(1000);
	usleep(100000);
	sem_post(&barriers_allowed);
	for (unsigned ms = 0; ms < 20000 && !atomic_load(&done); ms++)
		usleep(1000);
	for (unsigned i = 0; i < 1000; i++)
		sem_post(&barriers_allowed);
	return NULL;
}

static void a_writer_waits_for_the_checkpoint_under_way_only(void **state)
{
	MDB_env *env = open_relaxed(*state, 1 << 20);
	uint64_t ticket = 0;
	pthread_t thread;

	if (!strcmp(stats(env).fs, "tmpfs")) {
		mdb_env_close(env);
		skip();
	}
	sem_init(&barriers_allowed, 0, 0);
	slow_barriers(true);
	assert_int_equal(pthread_create(&thread, NULL, allow_barriers, NULL), 0);
	for (uint32_t i = 0; !durable(env); i++) {
		ticket = put_large(env, i);
		atomic_store(&commits, i + 1);
		/* The first checkpoint is due by then; it is held up in its barrier. */
		while (i == 15 && !atomic_load(&barriers_begun))
			usleep(1000);
	}
	assert_true(durable(env) < ticket);
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	OK(pgw_env_checkpoint(env));
	slow_barriers(false);
	assert_true(durable(env) >= ticket);
	mdb_env_close(env);
	sem_destroy(&barriers_allowed);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pages_are_written_apart),
		TEST(what_is_committed_during_write_out_is_in_the_cut),
		TEST(the_thread_cuts_at_once),
		TEST(pages_that_are_free_again_are_not_written),
		TEST(a_writer_waits_for_the_checkpoint_under_way_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
