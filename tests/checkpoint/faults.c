/* SPDX-License-Identifier: BSD-2-Clause
 *
 * faults.c - the n-th call fails, for each n until none does.
 *
 * After a failed sync the environment is over: every later write and wait gives the error, readers
 * go on, and the horizon stays. Reopened, it has everything that was acknowledged, and nothing of
 * what the page cache pretends to have.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>

#include "sys.h"

enum call { CALL_PWRITEV, CALL_SYNC, CALL_RANGE, CALL_COUNT };

static struct {
	enum call call;
	unsigned left; /* calls until one fails; 0: none will */
	int error;
	bool fired;
} fault;

static bool fails(enum call call)
{
	if (fault.call != call || !fault.left || --fault.left)
		return false;
	fault.fired = true;
	return true;
}

static int64_t faulty_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	return fails(CALL_PWRITEV) ? fault.error : pgw__sys_real.pwritev(fd, v, n, off);
}

static int faulty_msync(void *addr, size_t len, int flags)
{
	return fails(CALL_SYNC) ? fault.error : pgw__sys_real.msync(addr, len, flags);
}

static int faulty_fdatasync(int fd)
{
	return fails(CALL_SYNC) ? fault.error : pgw__sys_real.fdatasync(fd);
}

static int faulty_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	if (!flags) /* the probe */
		return 0;
	return fails(CALL_RANGE) ? fault.error : pgw__sys_real.sync_file_range(fd, off, len, flags);
}

static void arm(enum call call, unsigned n, int error)
{
	fault.call = call;
	fault.left = n;
	fault.error = error;
	fault.fired = false;
	pgw__sys.pwritev = faulty_pwritev;
	pgw__sys.msync = faulty_msync;
	pgw__sys.fdatasync = faulty_fdatasync;
	pgw__sys.sync_file_range = faulty_sync_file_range;
}

static void disarm(void)
{
	fault.left = 0;
	pgw__sys = pgw__sys_real;
}

struct outcome {
	bool opened;
	uint64_t acknowledged; /* value of key 1 whose durability was promised */
	int error;	       /* first error of a commit or sync */
};

/* What must hold once an environment has ended. */
static void check_ended(MDB_env *env, uint64_t horizon)
{
	MDB_txn *txn;

	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), MDB_PANIC);
	assert_int_not_equal(mdb_env_sync(env, 1), 0);
	assert_int_equal(durable(env), horizon);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	mdb_txn_abort(txn);
}

static void workload(MDB_env *env, enum pgw_durability d, struct outcome *o)
{
	for (uint64_t i = 1; i <= 6; i++) {
		int rc = try_put(env, 1, i, NULL);

		if (!rc && (i % 3 == 0 || d == PGW_DURABILITY_GROUP)) {
			if (i % 3 == 0)
				rc = mdb_env_sync(env, 1);
			if (!rc)
				o->acknowledged = i;
		}
		if (rc && !o->error)
			o->error = rc;
		if (stats(env).failed) {
			check_ended(env, durable(env));
			return;
		}
	}
}

static struct outcome run_once(const char *dir, struct spec s)
{
	struct outcome o = { 0 };
	MDB_env *env;
	int rc;

	rc = try_open(dir, s, &env);
	if (rc) {
		o.error = rc;
		return o;
	}
	o.opened = true;
	workload(env, s.durability, &o);
	mdb_env_close(env);
	return o;
}

/* Open it again with a healthy disk. */
static void check_reopened(const char *dir, struct spec s, const struct outcome *o)
{
	uint64_t value;
	MDB_env *env;

	env = open_env(dir, s);
	value = get(env, 1);
	if (value < o->acknowledged)
		fail_msg("%lu is found, %lu was acknowledged", value, o->acknowledged);
	put(env, 1, 77);
	mdb_env_close(env);
	assert_false(is_fenced(dir));
}

/* Returns how many calls could be made to fail. */
static unsigned sweep(const char *dir, struct spec s, enum call call, int error)
{
	unsigned n = 1;

	for (;; n++) {
		struct outcome o;

		OK(run("rm -f %s/*", dir));
		mdb_env_close(open_env(dir, (struct spec){ .flags = s.flags }));
		arm(call, n, error);
		o = run_once(dir, s);
		if (!fault.fired)
			break;
		disarm();
		check_reopened(dir, s, &o);
	}
	disarm();
	return n - 1;
}

static void sweep_modes(const char *dir, enum call call, int error)
{
	for (int i = 0; i < 4; i++) {
		struct spec s = { .durability =
				      i & 1 ? PGW_DURABILITY_RELAXED : PGW_DURABILITY_GROUP,
			.flags = i & 2 ? MDB_WRITEMAP : 0,
			.checkpoint_ms = 3600 * 1000 };
		unsigned n = sweep(dir, s, call, error);

		/* At least: attach, two checkpoints, close. */
		print_message("%s%s: %u calls made to fail\n", pgw_durability_name(s.durability),
		    i & 2 ? ", writemap" : "", n);
		if (call != CALL_RANGE)
			assert_true(n >= 6);
	}
}

static void each_sync_fails(void **state)
{
	sweep_modes(*state, CALL_SYNC, -EIO);
}

static void each_write_fails(void **state)
{
	sweep_modes(*state, CALL_PWRITEV, -EIO);
}

static void the_disk_is_full_at_each_write(void **state)
{
	sweep_modes(*state, CALL_PWRITEV, -ENOSPC);
}

static void each_write_out_fails(void **state)
{
	sweep_modes(*state, CALL_RANGE, -EIO);
}

/* A fence that could not be lowered on the disk may be up there after a power cut, and then the records in
 * the file count: plain LMDB must not have committed anything in between. So it is up in the cache too. */
static void a_fence_that_may_be_up_keeps_plain_lmdb_out(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct spec s = { .durability =
				      i & 1 ? PGW_DURABILITY_RELAXED : PGW_DURABILITY_GROUP,
			.flags = i & 2 ? MDB_WRITEMAP : 0,
			.checkpoint_ms = 3600 * 1000 };

		for (unsigned n = 1;; n++) {
			MDB_env *env = open_env(*state, s);

			put(env, 1, n);
			OK(mdb_env_sync(env, 1));
			arm(CALL_SYNC, n, -EIO);
			mdb_env_close(env);
			disarm();
			assert_int_equal(is_fenced(*state), fault.fired);
			if (!fault.fired)
				break;
			env = open_env(*state, s);
			assert_int_equal(get(env, 1), n);
			mdb_env_close(env);
		}
	}
}

/* The record of the checkpoint that failed is in the page cache, with pages that match its digest.
 * It must not be believed. */
static void a_failed_checkpoint_is_not_believed(void **state)
{
	struct spec s = { .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = 3600 * 1000 };
	struct pgw_recover_report r;
	MDB_env *env = open_env(*state, s);

	put(env, 1, 1);
	OK(mdb_env_sync(env, 1));
	put(env, 1, 2);
	arm(CALL_SYNC, 1, -EIO);
	assert_int_equal(mdb_env_sync(env, 1), EIO);
	disarm();
	assert_int_equal(get(env, 1), 2);
	check_ended(env, 1);
	mdb_env_close(env);
	assert_true(is_fenced(*state));
	OK(pgw_env_recover(*state, 0, &r));
	assert_true(r.failed);
	assert_int_equal(r.action, PGW_RECOVER_RESTORED);
	assert_int_equal(r.txnid, 1);
	assert_int_equal(r.lost_txnids, 1);
	env = open_env(*state, s);
	assert_int_equal(get(env, 1), 1);
	mdb_env_close(env);
}

static void a_full_disk_costs_the_transaction_only(void **state)
{
	struct spec s = { .durability = PGW_DURABILITY_GROUP };
	MDB_env *env = open_env(*state, s);

	put(env, 1, 1);
	arm(CALL_PWRITEV, 1, -ENOSPC); /* LMDB's own write of its pages */
	assert_int_equal(try_put(env, 1, 2, NULL), ENOSPC);
	disarm();
	assert_int_equal(get(env, 1), 1);
	put(env, 1, 3);
	assert_int_equal(get(env, 1), 3);
	mdb_env_close(env);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_sync_fails),
		TEST(each_write_fails),
		TEST(the_disk_is_full_at_each_write),
		TEST(each_write_out_fails),
		TEST(a_fence_that_may_be_up_keeps_plain_lmdb_out),
		TEST(a_failed_checkpoint_is_not_believed),
		TEST(a_full_disk_costs_the_transaction_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
