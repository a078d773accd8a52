/* SPDX-License-Identifier: BSD-2-Clause
 *
 * warm.c - after a restart what is in the page cache is mapped at once, and no more than that.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>

#include "../../store/env.h"

enum { VALUES = 400, VALUE_SIZE = 8000 };

static const struct spec spec = { .flags = MDB_NOSYNC };

static void fill(const char *dir)
{
	static char value[VALUE_SIZE];
	MDB_env *env = open_env(dir, spec);
	MDB_txn *txn;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	for (uint32_t n = 0; n < VALUES; n++) {
		MDB_val k = { sizeof(n), &n }, v = { sizeof(value), value };

		OK(mdb_put(txn, dbi, &k, &v, 0));
	}
	OK(mdb_txn_commit(txn));
	OK(mdb_env_sync(env, 1));
	mdb_env_close(env);
}

/* Bytes of the environment's map that this process has mapped. */
static uint64_t mapped(MDB_env *env)
{
	uintptr_t start = pgw__env_by_lmdb(env)->map_start;
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib = 0, n;
	bool inside = false;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = start == from;
		else if (inside && sscanf(line, "Rss: %lu", &n) == 1)
			kib = n;
	}
	fclose(f);
	return (uint64_t)kib << 10;
}

/* Take the file out of the page cache, as far as the file system lets us. */
static void chill(const char *dir)
{
	int fd = open(data_file(dir), O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
}

static bool can_warm(MDB_env *env)
{
	if (pgw_env_warm(env, 0, 0, NULL) == 0 && pgw_env_warm(env, 4096, 0, NULL) != EOPNOTSUPP)
		return true;
	print_message("no MADV_POPULATE_READ here\n");
	return false;
}

static void what_is_cached_is_mapped(void **state)
{
	struct pgw_warm w;
	MDB_env *env;

	fill(*state);
	env = open_env(*state, spec);
	if (!can_warm(env)) {
		mdb_env_close(env);
		skip();
	}
	assert_true(mapped(env) < 1 << 20);
	OK(pgw_env_warm(env, UINT64_MAX, 0, &w));
	assert_true(w.used_bytes > (uint64_t)VALUES * VALUE_SIZE);
	assert_true(w.cached_bytes > w.used_bytes / 2); /* it was just written */
	assert_int_equal(w.mapped_bytes, w.cached_bytes);
	assert_int_equal(w.read_bytes, 0);
	assert_true(mapped(env) >= w.mapped_bytes);
	assert_true(stats(env).warmed_bytes >= w.mapped_bytes);
	mdb_env_close(env);
}

static void the_bound_is_kept(void **state)
{
	struct pgw_warm w;
	MDB_env *env;

	fill(*state);
	env = open_env(*state, spec);
	if (!can_warm(env)) {
		mdb_env_close(env);
		skip();
	}
	OK(pgw_env_warm(env, 300 << 10, 0, &w));
	assert_true(w.mapped_bytes > 0 && w.mapped_bytes <= 300 << 10);
	OK(pgw_env_warm(env, 300 << 10, PGW_WARM_READ, &w));
	assert_true(w.mapped_bytes + w.read_bytes <= 300 << 10);
	mdb_env_close(env);
}

static void what_is_not_cached_is_read_if_asked_for(void **state)
{
	struct pgw_warm w;
	MDB_env *env;

	fill(*state);
	chill(*state);
	env = open_env(*state, spec);
	if (!can_warm(env)) {
		mdb_env_close(env);
		skip();
	}
	OK(pgw_env_warm(env, UINT64_MAX, 0, &w));
	assert_int_equal(w.read_bytes, 0);
	assert_int_equal(w.mapped_bytes, w.cached_bytes);
	if (w.cached_bytes < w.used_bytes / 2) { /* not so on tmpfs */
		OK(pgw_env_warm(env, UINT64_MAX, PGW_WARM_READ, &w));
		assert_true(w.read_bytes > 0);
	}
	mdb_env_close(env);
}

static void opening_can_do_it(void **state)
{
	struct pgw_env_options o;
	MDB_env *env;

	fill(*state);
	pgw_env_options_init(&o);
	o.map_size = 16u << 20;
	o.warm_bytes = 1u << 30;
	OK(pgw_env_open(*state, &o, &env));
	if (can_warm(env)) {
		assert_true(stats(env).warmed_bytes > VALUES * VALUE_SIZE / 2);
		assert_true(mapped(env) > VALUES * VALUE_SIZE / 2);
	}
	mdb_env_close(env);
}

static void bad_arguments(void **state)
{
	MDB_env *env = open_env(*state, spec);

	assert_int_equal(pgw_env_warm(NULL, 1, 0, NULL), EINVAL);
	assert_int_equal(pgw_env_warm(env, 1, 2, NULL), EINVAL);
	mdb_env_close(env);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_cached_is_mapped),
		TEST(the_bound_is_kept),
		TEST(what_is_not_cached_is_read_if_asked_for),
		TEST(opening_can_do_it),
		TEST(bad_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
