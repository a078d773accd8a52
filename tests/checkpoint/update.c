/* SPDX-License-Identifier: BSD-2-Clause
 *
 * update.c - pgw_update: every closure has its own result, and exactly those with 0 leave a trace.
 */
#include "util.h"

#include <errno.h>
#include <semaphore.h>
#include <time.h>

#include "sys.h"

enum { TOTAL = 1000000, REFUSED = 4711 };

static uint64_t read_in(MDB_txn *txn, uint32_t key)
{
	MDB_val k = { sizeof(key), &key }, v;
	uint64_t value = 0;

	if (!mdb_get(txn, 1, &k, &v))
		memcpy(&value, v.mv_data, sizeof(value));
	return value;
}

static int write_in(MDB_txn *txn, uint32_t key, uint64_t value)
{
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), &value };

	return mdb_put(txn, 1, &k, &v, 0);
}

struct change {
	uint32_t key;
	uint64_t value;
	int result; /* to return after the change was made */
};

/* Set the key, and count in TOTAL. */
static int apply(MDB_txn *txn, void *arg)
{
	const struct change *c = arg;
	int rc = write_in(txn, c->key, c->value);

	if (!rc)
		rc = write_in(txn, TOTAL, read_in(txn, TOTAL) + 1);
	return rc ? rc : c->result;
}

static int create(MDB_txn *txn, void *arg)
{
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, NULL, 0, &dbi);

	assert_true(rc || dbi == 1); /* the main database */
	return rc;
}

static MDB_env *open_for_updates(const char *dir, struct spec s)
{
	MDB_env *env = open_env(dir, s);

	OK(pgw_update(env, create, NULL));
	return env;
}

struct worker {
	pthread_t thread;
	MDB_env *env;
	uint32_t number;
	unsigned rounds, applied;
	pgw_update_fn *fn;
	void *arg;
	int rc;
	_Atomic int tid; /* once it is about to call */
};

static void *change_on(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 1; i <= w->rounds; i++) {
		struct change c = { .key = w->number, .value = i };

		if (i % 5 == w->number % 5) {
			c.result = REFUSED;
			c.value = 0; /* must not be seen */
		}
		w->rc = pgw_update(w->env, apply, &c);
		if (w->rc != c.result)
			return NULL;
		w->applied += !w->rc;
	}
	w->rc = 0;
	return NULL;
}

static void start(struct worker *w, void *(*body)(void *))
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	assert_int_equal(pthread_create(&w->thread, &attr, body, w), 0);
	pthread_attr_destroy(&attr);
}

static void threads_in(const char *dir, struct spec s, unsigned rounds)
{
	struct worker w[8] = { 0 };
	MDB_env *env = open_for_updates(dir, s);
	uint64_t applied = 0;

	for (unsigned i = 0; i < 8; i++) {
		w[i].env = env;
		w[i].number = i;
		w[i].rounds = rounds;
		start(&w[i], change_on);
	}
	for (unsigned i = 0; i < 8; i++) {
		pthread_join(w[i].thread, NULL);
		OK(w[i].rc);
		applied += w[i].applied;
		assert_true(get(env, i) >= rounds - 1); /* the last one, or the one before */
	}
	assert_int_equal(get(env, TOTAL), applied);
	assert_int_equal(stats(env).updates, 8 * rounds + 1);
	if (s.durability == PGW_DURABILITY_GROUP)
		assert_true(durable(env) >= stats(env).commits);
	mdb_env_close(env);
}

static void many_threads(void **state)
{
	static const struct spec specs[] = {
		{ .flags = MDB_NOSYNC },
		{ .durability = PGW_DURABILITY_GROUP },
		{ .durability = PGW_DURABILITY_RELAXED },
#ifndef __SANITIZE_THREAD__ /* readers see LMDB's stores, and it does not know why that is right */
		{ .flags = MDB_NOSYNC | MDB_WRITEMAP },
		{ .durability = PGW_DURABILITY_GROUP, .flags = MDB_WRITEMAP },
#endif
	};

	for (unsigned i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		threads_in(*state, specs[i], 60);
		OK(run("rm -f %s/*", (char *)*state));
	}
}

/* --- batches whose members are known --- */

static sem_t go_on;

static int hold_up(MDB_txn *txn, void *arg)
{
	while (sem_wait(&go_on))
		;
	return 0;
}

static void *call_one_time(void *arg)
{
	struct worker *w = arg;

	atomic_store(&w->tid, gettid());
	w->rc = pgw_update(w->env, w->fn, w->arg);
	return NULL;
}

/* It waits: to lead, or to be told. Nothing else in call_one_time sleeps. */
static void until_it_waits(struct worker *w)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	char path[64], state = 'R';

	while (state != 'S') {
		FILE *f;
		int tid = atomic_load(&w->tid);

		nanosleep(&moment, NULL);
		if (!tid)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
		f = fopen(path, "re");
		assert_non_null(f);
		assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
		fclose(f);
	}
}

/* Start n workers while one closure holds the environment up, and join them all. */
static void in_one_go(MDB_env *env, struct worker *w, unsigned n)
{
	struct worker first = { .env = env, .fn = hold_up };

	sem_init(&go_on, 0, 0);
	start(&first, call_one_time);
	until_it_waits(&first);
	for (unsigned i = 0; i < n; i++) {
		w[i].env = env;
		start(&w[i], call_one_time);
		until_it_waits(&w[i]);
	}
	sem_post(&go_on);
	pthread_join(first.thread, NULL);
	OK(first.rc);
	for (unsigned i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
	sem_destroy(&go_on);
}

static void set_up(struct worker *w, struct change *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		c[i] = (struct change){ .key = i, .value = i + 1 };
		w[i] = (struct worker){ .fn = apply, .arg = &c[i] };
	}
}

static void they_share_a_transaction_and_not_their_fate(void **state)
{
	MDB_env *env =
	    open_for_updates(*state, (struct spec){ .durability = PGW_DURABILITY_GROUP });
	struct pgw_env_stats before, after;
	struct worker w[6];
	struct change c[6];

	set_up(w, c, 6);
	c[2].result = REFUSED;
	c[4].result = MDB_NOTFOUND; /* as good a result as any */
	before = stats(env);
	in_one_go(env, w, 6);
	after = stats(env);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(w[i].rc, c[i].result);
		assert_int_equal(get(env, i), c[i].result ? 0 : i + 1);
	}
	assert_int_equal(get(env, TOTAL), 4);
	assert_int_equal(after.update_batches - before.update_batches, 2);
	assert_int_equal(after.commits - before.commits, 1);
	assert_int_equal(after.barriers - before.barriers, 1);
	mdb_env_close(env);
}

static void a_writable_map_has_one_for_each(void **state)
{
	MDB_env *env = open_for_updates(
	    *state, (struct spec){ .durability = PGW_DURABILITY_GROUP,
			.flags = MDB_WRITEMAP,
			.checkpoint_ms = 60000 }); /* no barrier but the one that is waited for */
	struct pgw_env_stats before, after;
	struct worker w[6];
	struct change c[6];

	set_up(w, c, 6);
	c[0].result = REFUSED;
	before = stats(env);
	in_one_go(env, w, 6);
	after = stats(env);
	assert_int_equal(after.update_batches - before.update_batches, 2);
	assert_int_equal(get(env, TOTAL), 5);
	assert_int_equal(after.commits - before.commits, 5);
	assert_int_equal(after.barriers - before.barriers, 1);
	mdb_env_close(env);
}

static void batches_are_bounded(void **state)
{
	enum { N = 300 };
	static struct worker w[N];
	static struct change c[N];
	MDB_env *env = open_for_updates(*state, (struct spec){ .flags = MDB_NOSYNC });
	uint64_t before = stats(env).update_batches;

	set_up(w, c, N);
	in_one_go(env, w, N);
	for (unsigned i = 0; i < N; i++)
		OK(w[i].rc);
	assert_int_equal(get(env, TOTAL), N);
	assert_int_equal(stats(env).update_batches - before, 1 + (N + 127) / 128);
	mdb_env_close(env);
}

static int write_error;

static int64_t failing_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	return write_error ? write_error : pgw__sys_real.pwritev(fd, v, n, off);
}

static int failing_sync(int fd)
{
	return -EIO;
}

static int failing_msync(void *addr, size_t len, int flags)
{
	return -EIO;
}

static void a_commit_that_fails_fails_for_all(void **state)
{
	MDB_env *env =
	    open_for_updates(*state, (struct spec){ .durability = PGW_DURABILITY_GROUP });
	struct worker w[4];
	struct change c[4];

	set_up(w, c, 4);
	c[1].result = REFUSED;
	pgw__sys.pwritev = failing_pwritev;
	write_error = -ENOSPC;
	in_one_go(env, w, 4);
	write_error = 0;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(w[i].rc, i == 1 ? REFUSED : ENOSPC);
	assert_int_equal(get(env, TOTAL), 0);
	OK(pgw_update(env, apply, &c[0])); /* the disk has room again */
	assert_int_equal(get(env, TOTAL), 1);
	pgw__sys = pgw__sys_real;
	mdb_env_close(env);
}

static void after_a_failed_sync_there_is_only_the_error(void **state)
{
	MDB_env *env = open_for_updates(*state, (struct spec){ 0 });
	struct worker w[4];
	struct change c[4];

	set_up(w, c, 4);
	pgw__sys.fdatasync = failing_sync;
	pgw__sys.msync = failing_msync;
	in_one_go(env, w, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(w[i].rc, EIO);
	assert_int_equal(pgw_update(env, apply, &c[0]), MDB_PANIC);
	pgw__sys = pgw__sys_real;
	mdb_env_close(env);
}

static int updates_again(MDB_txn *txn, void *arg)
{
	return pgw_update(mdb_txn_env(txn), apply, arg);
}

static int drops(MDB_txn *txn, void *arg)
{
	return mdb_drop(txn, 1, 0);
}

static void what_cannot_be_is_refused(void **state)
{
	MDB_env *env = open_for_updates(*state, (struct spec){ .flags = MDB_NOSYNC });
	struct change c = { .key = 1, .value = 2 };

	assert_int_equal(pgw_update(env, updates_again, &c), EDEADLK);
	assert_int_equal(pgw_update(env, drops, NULL), PGW_NOT_POSSIBLE);
	assert_int_equal(pgw_update(env, NULL, NULL), EINVAL);
	assert_int_equal(pgw_update(NULL, apply, &c), EINVAL);
	OK(pgw_update(env, apply, &c));
	mdb_env_close(env);
	env = open_env(*state, (struct spec){ .flags = MDB_RDONLY });
	assert_int_equal(pgw_update(env, apply, &c), EACCES);
	mdb_env_close(env);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(many_threads),
		TEST(they_share_a_transaction_and_not_their_fate),
		TEST(a_writable_map_has_one_for_each),
		TEST(batches_are_bounded),
		TEST(a_commit_that_fails_fails_for_all),
		TEST(after_a_failed_sync_there_is_only_the_error),
		TEST(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
