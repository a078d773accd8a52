/* SPDX-License-Identifier: BSD-2-Clause
 *
 * group.c - who waits, for how many barriers, and what waiting promises.
 */
#include "util.h"

#include <errno.h>
#include <pthread.h>

static const struct spec group = { .durability = PGW_DURABILITY_GROUP };
static const struct spec relaxed = { .durability = PGW_DURABILITY_RELAXED,
	.checkpoint_ms = 3600 * 1000 };

static void one_barrier_for_each_commit(void **state)
{
	MDB_env *env = open_env(*state, group);
	struct pgw_env_stats before = stats(env), after;

	for (uint32_t i = 0; i < 100; i++) {
		put(env, i, i + 1);
		assert_int_equal(durable(env), i + 1);
	}
	after = stats(env);
	assert_int_equal(after.checkpoints - before.checkpoints, 100);
	if (!strcmp(after.fs, "tmpfs"))
		print_message("tmpfs has no barriers to count\n");
	else
		assert_int_equal(after.barriers - before.barriers, 100);
	mdb_env_close(env);
}

static void nothing_new_makes_no_barrier(void **state)
{
	for (int d = 0; d <= PGW_DURABILITY_RELAXED; d++) {
		struct spec s = relaxed;
		MDB_env *env;
		uint64_t n;

		s.durability = (enum pgw_durability)d;
		env = open_env(*state, s);
		put(env, 1, 1);
		OK(mdb_env_sync(env, 1));
		n = stats(env).barriers;
		OK(mdb_env_sync(env, 1));
		OK(pgw_env_checkpoint(env));
		assert_int_equal(stats(env).barriers, n);
		mdb_env_close(env);
	}
}

static void what_was_synced_once_is_not_synced_again(void **state)
{
	for (int d = 0; d <= PGW_DURABILITY_RELAXED; d++) {
		struct spec s = relaxed;
		uint64_t n, ticket;
		MDB_env *env;

		s.durability = (enum pgw_durability)d;
		s.flags = MDB_NOSYNC;
		env = open_env(*state, s);
		OK(try_put(env, 1, 1, &ticket));
		assert_true(durable(env) < ticket);
		OK(mdb_env_sync(env, 1));
		assert_int_equal(durable(env), ticket);
		n = stats(env).fdatasync_calls + stats(env).checkpoints;
		OK(mdb_env_sync(env, 1));
		assert_int_equal(stats(env).fdatasync_calls + stats(env).checkpoints, n);
		OK(try_put(env, 1, 2, &ticket));
		assert_true(durable(env) < ticket);
		OK(pgw_env_wait(env, ticket, -1)); /* not for nothing, in strict neither */
		assert_int_equal(durable(env), ticket);
		mdb_env_close(env);
	}
}

/* What was committed with the flag is made durable with the first transaction that is committed without. */
static void flags_change_at_run_time(void **state)
{
	for (unsigned flags = 0; flags <= MDB_WRITEMAP; flags += MDB_WRITEMAP) {
		for (int d = 0; d <= PGW_DURABILITY_GROUP; d++) {
			struct spec s = group;
			uint64_t last = 0;
			MDB_env *env;

			s.durability = (enum pgw_durability)d;
			s.checkpoint_ms = 3600 * 1000;
			s.flags = flags;
			env = open_env(*state, s);
			for (unsigned n = 1; n <= 32; n++) {
				unsigned async = n % 3 == 1	       ? MDB_NOSYNC
						 : n % 3 == 2 && flags ? MDB_MAPASYNC
								       : 0;

				OK(mdb_env_set_flags(env, MDB_NOSYNC | MDB_MAPASYNC, 0));
				OK(mdb_env_set_flags(env, MDB_NOMETASYNC, n & 4));
				if (async)
					OK(mdb_env_set_flags(env, async, 1));
				put(env, n, n);
				if (!async && (d || !(n & 4)))
					last = n;
				assert_int_equal(durable(env), last);
			}
			mdb_env_close(env);
			OK(run("rm -f %s/*", (char *)*state));
		}
	}
}

/* To LMDB the flag means something in a writable map only. */
static void mapasync_alone_is_as_durable_as_ever(void **state)
{
	struct pgw_env_options o;
	struct spec s = group;
	MDB_env *env;

	s.flags = MDB_MAPASYNC;
	env = open_env(*state, s);
	put(env, 1, 1);
	assert_int_equal(durable(env), 1);
	mdb_env_close(env);

	pgw_env_options_init(&o);
	o.nosync_relaxed = true;
	o.flags = MDB_MAPASYNC;
	o.checkpoint_ms = 3600 * 1000;
	OK(pgw_env_open(*state, &o, &env));
	put(env, 1, 2);
	assert_int_equal(durable(env), 2);
	assert_false(is_fenced(*state));
	mdb_env_close(env);

	o.flags |= MDB_WRITEMAP;
	OK(pgw_env_open(*state, &o, &env));
	put(env, 1, 3);
	assert_int_equal(durable(env), 2);
	assert_true(is_fenced(*state));
	mdb_env_close(env);
}

static void relaxed_returns_at_once_and_sync_makes_it_durable(void **state)
{
	MDB_env *env = open_env(*state, relaxed);
	struct pgw_env_stats before = stats(env);

	for (uint32_t i = 0; i < 50; i++)
		put(env, i, i + 1);
	assert_int_equal(stats(env).barriers, before.barriers);
	assert_int_equal(durable(env), 0);
	OK(mdb_env_sync(env, 1));
	assert_int_equal(durable(env), 50);
	assert_int_equal(stats(env).checkpoints, 1);
	mdb_env_close(env);
}

static void relaxed_is_durable_after_its_time(void **state)
{
	struct spec s = relaxed;
	MDB_env *env;

	s.checkpoint_ms = 1;
	env = open_env(*state, s);
	put(env, 1, 1);
	while (durable(env) < 1) /* the test's timeout is the limit */
		usleep(1000);
	put(env, 1, 2);
	while (durable(env) < 2)
		usleep(1000);
	mdb_env_close(env);
}

static void live_bytes_bound_what_waits(void **state)
{
	struct pgw_env_options o;
	char value[20000] = { 0 };
	MDB_env *env;

	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_RELAXED;
	o.checkpoint_ms = 3600 * 1000;
	o.checkpoint_bytes = 1 << 20;
	o.map_size = 64u << 20;
	OK(pgw_env_open(*state, &o, &env));
	for (uint32_t i = 0; i < 300; i++) { /* 6 MB that stay */
		MDB_val k = { sizeof(i), &i }, v = { sizeof(value), value };
		MDB_txn *txn;
		MDB_dbi dbi;

		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		OK(mdb_put(txn, dbi, &k, &v, 0));
		OK(mdb_txn_commit(txn));
	}
	/* More than three times the bound has never been waiting. */
	assert_true(durable(env) > 100);
	mdb_env_close(env);
}

static void tickets_can_be_waited_for(void **state)
{
	MDB_env *env = open_env(*state, relaxed);
	uint64_t a, b;

	OK(try_put(env, 1, 1, &a));
	OK(try_put(env, 1, 2, &b));
	assert_int_equal(b, a + 1);
	assert_int_equal(pgw_env_wait(env, b + 1, -1), EINVAL);
	OK(pgw_env_wait(env, b, -1));
	assert_int_equal(durable(env), b);
	OK(pgw_env_wait(env, a, 0));
	OK(pgw_env_wait(env, b, 0));
	assert_int_equal(pgw_txn_commit_async(NULL, NULL), EINVAL);
	mdb_env_close(env);

	env = open_env(*state, (struct spec){ .durability = PGW_DURABILITY_STRICT });
	OK(try_put(env, 1, 3, &a));
	OK(pgw_env_wait(env, a, -1));
	assert_int_equal(pgw_env_wait(env, a + 1, -1), EINVAL);
	mdb_env_close(env);
}

static void nosync_is_relaxed_and_can_be_switched(void **state)
{
	struct pgw_env_options o;
	MDB_env *env;

	pgw_env_options_init(&o);
	o.nosync_relaxed = true;
	o.checkpoint_ms = 3600 * 1000;
	OK(pgw_env_open(*state, &o, &env));
	put(env, 1, 1); /* strict */
	assert_false(is_fenced(*state));
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	put(env, 1, 2);
	assert_true(is_fenced(*state));
	put(env, 1, 3);
	assert_int_equal(durable(env), 1);
	OK(mdb_env_sync(env, 0)); /* with MDB_NOSYNC this is nothing, as ever */
	assert_int_equal(durable(env), 1);
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 0));
	put(env, 1, 4);
	assert_int_equal(durable(env), 4);
	mdb_env_close(env);
	assert_false(is_fenced(*state));
}

static int empty_it(MDB_txn *txn, void *arg)
{
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, arg, 0, &dbi);

	return rc ? rc : mdb_drop(txn, dbi, 0);
}

static int set_flag(MDB_txn *txn, void *arg)
{
	MDB_dbi dbi;

	(void)arg;
	return mdb_dbi_open(txn, NULL, MDB_REVERSEKEY, &dbi);
}

static void commit_and_look(MDB_env *env, pgw_update_fn *fn, char *name, bool update)
{
	MDB_envinfo before, info;
	MDB_txn *txn;

	mdb_env_info(env, &before);
	if (update) {
		OK(pgw_update(env, fn, name));
	} else {
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(fn(txn, name));
		OK(mdb_txn_commit(txn));
	}
	mdb_env_info(env, &info);
	assert_int_equal(info.me_last_txnid, before.me_last_txnid + 1);
	assert_int_equal(durable(env), info.me_last_txnid);
}

/* LMDB commits, and had dirtied no page before. (mdb_drop is not for pgw_update.) */
static void what_dirties_no_page_is_durable_too(void **state)
{
	for (int map = 0; map < 2; map++) {
		struct spec s = group;
		MDB_env *env;
		MDB_txn *txn;
		MDB_dbi dbi;

		s.flags = map ? MDB_WRITEMAP : 0;
		env = open_env(*state, s);
		commit_and_look(env, set_flag, NULL, map);
		put(env, 1, 1);
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, "emptied", MDB_CREATE, &dbi));
		OK(mdb_put(txn, dbi, &(MDB_val){ 1, "k" }, &(MDB_val){ 1, "v" }, 0));
		OK(mdb_txn_commit(txn));
		commit_and_look(env, empty_it, "emptied", false);
		mdb_env_close(env);
		remove_dir(state);
		make_dir(state);
	}
}

static void empty_commits_and_aborts_change_nothing(void **state)
{
	MDB_env *env = open_env(*state, group);
	struct pgw_env_stats before;
	MDB_txn *txn;

	put(env, 1, 1);
	before = stats(env);
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_txn_commit(txn));
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	mdb_txn_abort(txn);
	assert_int_equal(stats(env).barriers, before.barriers);
	put(env, 1, 2);
	assert_int_equal(get(env, 1), 2);
	mdb_env_close(env);
}

static void the_map_can_be_resized(void **state)
{
	struct spec s = relaxed;
	MDB_env *env;

	for (int i = 0; i < 2; i++) {
		s.flags = i ? MDB_WRITEMAP : 0;
		env = open_env(*state, s);
		put(env, 1, 1);
		OK(mdb_env_set_mapsize(env, (32u << 20) + (i << 20)));
		put(env, 2, 2);
		OK(mdb_env_sync(env, 1));
		OK(mdb_env_set_mapsize(env, (48u << 20) + (i << 20)));
		put(env, 3, 3);
		mdb_env_close(env);
	}
}

/* A small map that is rewritten many times: what a pin holds back must come free in time. */
static void a_full_map_makes_checkpoints(void **state)
{
	struct spec s = relaxed;
	char value[8000] = { 0 };
	MDB_env *env;

	s.map_size = 1u << 20;
	env = open_env(*state, s);
	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t key = i % 8;
		MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };
		MDB_txn *txn;
		MDB_dbi dbi;

		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		OK(mdb_put(txn, dbi, &k, &v, 0));
		OK(mdb_txn_commit(txn));
	}
	assert_true(stats(env).checkpoints > 10);
	mdb_env_close(env);
}

/* ---- threads ---- */

enum { THREADS = 8, COMMITS = 60 };

struct worker {
	MDB_env *env;
	uint32_t id;
	bool mixed;
	pthread_t thread;
	int rc;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint32_t i = 0; i < COMMITS && !w->rc; i++) {
		uint64_t ticket, before, d;

		w->rc = try_put(w->env, w->id, i + 1, w->mixed && i % 3 ? &ticket : NULL);
		if (w->rc || !w->mixed)
			continue;
		(void)pgw_env_durable_txnid(w->env, &before);
		if (i % 3 == 1) {
			w->rc = pgw_env_wait(w->env, ticket, i % 2 ? -1 : 1);
			if (w->rc == ETIMEDOUT)
				w->rc = 0;
		} else if (i % 7 == 2) {
			w->rc = mdb_env_sync(w->env, 1);
		}
		(void)pgw_env_durable_txnid(w->env, &d);
		if (d < before)
			w->rc = MDB_CORRUPTED;
	}
	return NULL;
}

static void run_threads(const char *dir, struct spec s, bool mixed)
{
	MDB_env *env = open_env(dir, s);
	struct worker w[THREADS];
	struct pgw_env_stats st;

	for (uint32_t i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .env = env, .id = i, .mixed = mixed };
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		OK(w[i].rc);
	}
	st = stats(env);
	assert_int_equal(st.commits, THREADS * COMMITS);
	assert_true(st.checkpoint_commits <= st.commits);
	if (!mixed && s.durability == PGW_DURABILITY_GROUP)
		assert_int_equal(durable(env), THREADS * COMMITS);
	OK(mdb_env_sync(env, 1));
	assert_int_equal(durable(env), THREADS * COMMITS);
	for (uint32_t i = 0; i < THREADS; i++)
		assert_int_equal(get(env, i), COMMITS);
	mdb_env_close(env);
}

static void threads_share_barriers(void **state)
{
	run_threads(*state, group, false);
}

static void threads_in_every_mode(void **state)
{
	struct spec s = { .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = 2 };

	run_threads(*state, s, true);
	OK(run("rm -rf %s/*", (char *)*state));
	s.flags = MDB_WRITEMAP | MDB_NOTLS;
	run_threads(*state, s, true);
	OK(run("rm -rf %s/*", (char *)*state));
	s.durability = PGW_DURABILITY_GROUP;
	run_threads(*state, s, true);
}

/* A thread keeps its own reader slot whatever a pin does in it. */
static void pins_leave_readers_alone(void **state)
{
	MDB_env *env = open_env(*state, group);
	MDB_txn *reader, *second;
	size_t id;

	put(env, 1, 1);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &reader));
	id = mdb_txn_id(reader);
	for (uint32_t i = 0; i < 20; i++)
		put(env, 1, i + 2);
	assert_int_equal(mdb_txn_id(reader), id);
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &second), MDB_BAD_RSLOT);
	mdb_txn_abort(reader);
	assert_int_equal(get(env, 1), 21);
	mdb_env_close(env);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_barrier_for_each_commit),
		TEST(nothing_new_makes_no_barrier),
		TEST(what_was_synced_once_is_not_synced_again),
		TEST(flags_change_at_run_time),
		TEST(mapasync_alone_is_as_durable_as_ever),
		TEST(relaxed_returns_at_once_and_sync_makes_it_durable),
		TEST(relaxed_is_durable_after_its_time),
		TEST(live_bytes_bound_what_waits),
		TEST(tickets_can_be_waited_for),
		TEST(nosync_is_relaxed_and_can_be_switched),
		TEST(what_dirties_no_page_is_durable_too),
		TEST(empty_commits_and_aborts_change_nothing),
		TEST(the_map_can_be_resized),
		TEST(a_full_map_makes_checkpoints),
		TEST(threads_share_barriers),
		TEST(threads_in_every_mode),
		TEST(pins_leave_readers_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
