/* SPDX-License-Identifier: BSD-2-Clause
 *
 * limits.c - a process runs into its limits: the size of a file, descriptors, memory. What fails says so, nothing that
 * was acknowledged is lost, and when there is room again the environment goes on.
 *
 * Limits are for good, so each process under test is a child.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define NEVER 3600 * 1000

static const char *dir;
static struct spec spec;

static void limit(int resource, rlim_t n)
{
	struct rlimit l;

	assert_int_equal(getrlimit(resource, &l), 0);
	l.rlim_cur = n;
	assert_int_equal(setrlimit(resource, &l), 0);
}

static int try_put_large(MDB_env *env, uint32_t key, size_t size)
{
	static char value[1 << 20] = "large";

	return try_put_bytes(env, key, (MDB_val){ size, value }, NULL);
}

static void in_each_mode(int modes, int (*body)(void *arg))
{
	for (int i = 0; i < modes; i++) {
		MDB_env *env;

		spec = (struct spec){ .durability = (enum pgw_durability)(i % 3),
			.flags = i < 3 ? 0 : MDB_WRITEMAP,
			.checkpoint_ms = NEVER };
		if (in_child(body, NULL))
			fail_msg("%s%s", pgw_durability_name(spec.durability),
			    spec.flags ? ", writemap" : "");
		env = open_env(dir, (struct spec){ 0 });
		assert_int_equal(get(env, 1), 2);
		put(env, 1, 3);
		mdb_env_close(env);
		assert_false(is_fenced(dir));
		OK(run("rm -f %s/*", dir));
	}
}

/* ---- RLIMIT_FSIZE ---- */

/* The signal is left as it is: the run of pages begins before the limit, where LMDB's own write would be short,
 * and no signal follows from that. A writable map knows no such limit. */
static int runs_into_the_limit_of_a_file(void *arg)
{
	MDB_env *env = open_env(dir, spec);
	struct stat st;

	put(env, 1, 1);
	OK(mdb_env_sync(env, 1));
	assert_int_equal(stat(data_file(dir), &st), 0);
	limit(RLIMIT_FSIZE, (rlim_t)st.st_size + 100000);
	EXPECT(try_put_large(env, 2, 500000), spec.flags ? 0 : EFBIG);
	EXPECT(try_put_large(env, 2, 500000), spec.flags ? 0 : EFBIG);
	EXPECT(stats(env).failed, 0);
	put(env, 1, 2);
	OK(mdb_env_sync(env, 1));
	limit(RLIMIT_FSIZE, RLIM_INFINITY);
	EXPECT(try_put_large(env, 2, 500000), 0);
	mdb_env_close(env);
	return 0;
}

static void a_file_may_not_grow(void **state)
{
	dir = *state;
	in_each_mode(6, runs_into_the_limit_of_a_file);
}

/* ---- RLIMIT_NOFILE ---- */

static rlim_t descriptors;

static int has_no_descriptors(void *arg)
{
	MDB_env *env = NULL;
	int lowest = dup(0), rc;

	close(lowest);
	limit(RLIMIT_NOFILE, (rlim_t)lowest + descriptors);
	rc = try_open(dir, spec, &env);
	if (rc == EMFILE) {
		limit(RLIMIT_NOFILE, 1024);
		EXPECT(try_open(dir, spec, &env), 0);
	}
	EXPECT(rc == EMFILE ? 0 : rc, 0);
	/* The rest, too. */
	while (dup(0) >= 0)
		;
	put(env, 1, 1);
	OK(mdb_env_sync(env, 1));
	put(env, 1, 2);
	OK(mdb_env_sync(env, 1));
	mdb_env_close(env);
	return 0;
}

static void there_are_no_descriptors(void **state)
{
	dir = *state;
	for (descriptors = 0; descriptors < 7; descriptors++)
		in_each_mode(3, has_no_descriptors); /* the map has no part in it */
}

/* ---- memory ---- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

static _Thread_local unsigned allocations_left;
static _Thread_local bool fired;

static bool fails(void)
{
	if (!allocations_left || --allocations_left)
		return false;
	fired = true;
	errno = ENOMEM;
	return true;
}

__attribute__((visibility("default"))) void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}

static int updates(MDB_txn *txn, void *arg)
{
	uint32_t key = 5;
	MDB_val k = { sizeof(key), &key }, v = { 8, arg };
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, NULL, 0, &dbi);

	return rc ? rc : mdb_put(txn, dbi, &k, &v, 0);
}

static uint64_t acknowledged;

/* 0 or the first error. */
static int work(MDB_env *env, uint64_t n)
{
	int rc = 0;

	for (uint32_t key = 10; key < 60 && !rc; key += 20)
		rc = try_put_large(env, key, 20 + key * 100);
	if (!rc)
		rc = try_put(env, 1, n, NULL);
	if (!rc)
		rc = mdb_env_sync(env, 1);
	if (!rc)
		acknowledged = n;
	if (!rc)
		rc = pgw_update(env, updates, &n);
	return rc;
}

static unsigned nth;

static int runs_out_of_memory(void *arg)
{
	MDB_env *env = NULL;
	bool any;
	int rc;

	acknowledged = 0;
	fired = false;
	allocations_left = nth;
	rc = try_open(dir, spec, &env);
	if (!rc)
		rc = work(env, 1);
	allocations_left = 0;
	any = fired;
	if (rc && rc != ENOMEM) {
		fprintf(stderr, "allocation %u failed: %s\n", nth, pgw_strerror(rc));
		return 1;
	}
	if (!env)
		env = open_env(dir, spec);
	EXPECT(stats(env).failed, 0);
	if (get(env, 1) < acknowledged)
		return 2;
	EXPECT(work(env, 2), 0);
	mdb_env_close(env);
	return any ? 0 : 9;
}

static void each_allocation_fails(void **state)
{
	dir = *state;
	for (int i = 0; i < 5; i++) {
		int status = 0;

		spec = (struct spec){ .durability = (enum pgw_durability)(i % 3),
			.flags = i < 3 ? 0 : MDB_WRITEMAP,
			.checkpoint_ms = NEVER };
		for (nth = 1; !status; nth++) {
			MDB_env *env;

			status = in_child(runs_out_of_memory, NULL);
			if (status && status != 9)
				fail_msg("%s%s, allocation %u",
				    pgw_durability_name(spec.durability),
				    spec.flags ? ", writemap" : "", nth);
			env = open_env(dir, (struct spec){ 0 });
			assert_int_equal(get(env, 1), 2);
			mdb_env_close(env);
			OK(run("rm -f %s/*", dir));
		}
		print_message("%s%s: %u allocations made to fail\n",
		    pgw_durability_name(spec.durability), spec.flags ? ", writemap" : "", nth - 2);
		assert_true(nth > 10);
	}
}

#endif

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_may_not_grow),
		TEST(there_are_no_descriptors),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		TEST(each_allocation_fails),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
