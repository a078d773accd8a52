/* SPDX-License-Identifier: BSD-2-Clause
 *
 * map.c - large maps: who gets one, what it costs, and how plain LMDB gets along with it.
 *
 * Costs are counts: calls, bytes given to them, page tables, blocks.
 */
#include "util.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <lmdb_api.h>

#include "../../store/env.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* its shadow is larger than any limit */
#else
#define SANITIZED 0
#endif

static const char *self;

static MDB_env *open_default(const char *dir, enum pgw_durability d, unsigned flags, size_t map)
{
	struct pgw_env_options o;
	MDB_env *env = NULL;

	pgw_env_options_init(&o);
	o.durability = d;
	o.flags = flags;
	o.map_size = map;
	OK(pgw_env_open(dir, &o, &env));
	return env;
}

static size_t map_size(MDB_env *env)
{
	MDB_envinfo info;

	OK(mdb_env_info(env, &info));
	return info.me_mapsize;
}

static void file_of(const char *dir, struct stat *st)
{
	assert_int_equal(stat(data_file(dir), st), 0);
}

static void a_terabyte_is_reserved_and_little_used(void **state)
{
	for (unsigned flags = 0; flags <= MDB_WRITEMAP; flags += MDB_WRITEMAP) {
		MDB_env *env = open_default(*state, PGW_DURABILITY_STRICT, flags, 0);
		struct stat st;

		/* Half of it at least, where the machine has that much address space to give. */
		assert_true(map_size(env) >= (size_t)1 << (SANITIZED ? 20 : 39));
		put(env, 1, 1);
		file_of(*state, &st);
		assert_true(st.st_blocks <= (8 << 20) / 512);
		if (!flags)
			assert_true(st.st_size < 1 << 20);
		mdb_env_close(env);
	}
}

/* A number from /proc/self/status, in KiB. */
static unsigned long status(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long n = 0;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			n = strtoul(line + strlen(name), NULL, 10);
	fclose(f);
	return n;
}

/* Is the map that holds p left out of core dumps? */
static bool is_out_of_dumps(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool inside = false, out = false;
	unsigned long from, to;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			out = strstr(line, " dd") != NULL;
	}
	fclose(f);
	return out;
}

struct cost {
	struct pgw_env_stats s;
	unsigned long tables, child_tables; /* KiB */
};

static int child_tables(void *arg)
{
	return (int)(status("VmPTE:") / 64);
}

static struct cost cost_of(const char *dir, enum pgw_durability d, unsigned flags, size_t map)
{
	unsigned long before = status("VmPTE:");
	MDB_env *env = open_default(dir, d, flags, map);
	struct cost c;

	for (uint32_t n = 0; n < 50; n++)
		put(env, n * 7919 % 50, n);
	c.s = stats(env);
	c.tables = status("VmPTE:") - before;
	c.child_tables = (unsigned long)in_child(child_tables, NULL) * 64;
	assert_true(is_out_of_dumps((void *)(pgw__env_by_lmdb(env)->map_start + 4096)));
	mdb_env_close(env);
	OK(run("rm -f %s/*", dir));
	return c;
}

/* What a map costs is what is used of it. */
static void a_large_map_costs_what_a_small_one_does(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		enum pgw_durability d = i & 1 ? PGW_DURABILITY_GROUP : PGW_DURABILITY_STRICT;
		unsigned flags = i & 2 ? MDB_WRITEMAP : 0;
		struct cost small = cost_of(*state, d, flags, 16u << 20);
		struct cost large = cost_of(*state, d, flags, 0);

		assert_int_equal(large.s.barriers, small.s.barriers);
		assert_int_equal(large.s.synced_bytes, small.s.synced_bytes);
		assert_int_equal(large.s.msync_bytes, small.s.msync_bytes);
		assert_int_equal(large.s.sync_file_range_bytes, small.s.sync_file_range_bytes);
		assert_int_equal(large.s.allocated_bytes, small.s.allocated_bytes);
		if (SANITIZED)
			continue;
		/* A terabyte of page tables would be 2 GiB. */
		assert_true(large.tables <= small.tables + 64);
		assert_true(large.child_tables <= small.child_tables + 64);
	}
}

static int with_little_address_space(void *arg)
{
	struct rlimit limit = { (rlim_t)1 << 33, (rlim_t)1 << 33 };
	MDB_env *env;

	if (setrlimit(RLIMIT_AS, &limit))
		return 1;
	env = open_default(arg, PGW_DURABILITY_STRICT, 0, 0);
	put(env, 1, 1);
	return map_size(env) > (size_t)1 << 32 || map_size(env) < 1u << 30;
}

static int with_short_files(void *arg)
{
	struct rlimit limit = { 64u << 20, 64u << 20 };
	MDB_env *env;

	if (setrlimit(RLIMIT_FSIZE, &limit)) /* to exceed it is SIGXFSZ */
		return 1;
	env = open_default(arg, PGW_DURABILITY_STRICT, MDB_WRITEMAP, 0);
	put(env, 1, 1);
	return map_size(env) != 64u << 20;
}

static void limits_of_the_process_are_kept(void **state)
{
	if (!SANITIZED)
		assert_int_equal(in_child(with_little_address_space, *state), 0);
	assert_int_equal(in_child(with_short_files, *state), 0);
}

/* Run this program again, with PAGEWISE_STORE. */
static int with_setting(const char *dir, const char *setting, const char *choice)
{
	return run("PAGEWISE_STORE=%s %s --open %s %s", setting, self, dir, choice);
}

/* The other end: exit status is the logarithm of the size of the map. */
static int open_as_told(const char *dir, const char *choice)
{
	size_t size = strtoul(choice, NULL, 10);
	MDB_env *env;

	if (mdb_env_create(&env))
		return 100;
	if (size && mdb_env_set_mapsize(env, size))
		return 101;
	if (mdb_env_open(env, dir, 0, 0600))
		return 102;
	size = map_size(env);
	mdb_env_close(env);
	return 63 - __builtin_clzl(size);
}

static void a_setting_is_for_who_does_not_choose(void **state)
{
	assert_int_equal(with_setting(*state, "map:lmdb", "0"), 20); /* LMDB's own */
	OK(run("rm -f %s/*", (char *)*state));
	assert_int_equal(with_setting(*state, "map:lmdb", "16777216"), 24);
	assert_int_equal(with_setting(*state, "map:1G", "0"), 30);
	assert_int_equal(with_setting(*state, "map:1G", "16777216"), 24);
	/* And then the file says so. */
	assert_int_equal(with_setting(*state, "map:lmdb", "0"), 24);
}

static struct lmdb_api stock;

static int stock_read(MDB_env *env, uint32_t key, uint64_t *value)
{
	MDB_val k = { sizeof(key), &key }, v;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = stock.txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = stock.dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = stock.get(txn, dbi, &k, &v);
	if (!rc)
		memcpy(value, v.mv_data, sizeof(*value));
	stock.txn_abort(txn);
	return rc;
}

/* In a process of its own: another LMDB on the same file, with a map that becomes too small. */
static int a_small_plain_reader(void *arg)
{
	int *pipes = arg;
	uint64_t value = 0;
	MDB_env *env;
	char c;
	int rc;

	if (stock.env_create(&env) || stock.env_set_mapsize(env, 1u << 20) ||
	    stock.env_open(env, getenv("PGW_MAP_DIR"), 0, 0600))
		return 1;
	if (stock_read(env, 1, &value) || value != 1)
		return 2;
	if (write(pipes[3], "x", 1) != 1 || read(pipes[0], &c, 1) != 1)
		return 3;
	rc = stock_read(env, 1, &value);
	if (rc != MDB_MAP_RESIZED)
		return 4;
	if (stock.env_set_mapsize(env, 0)) /* take over what the file says */
		return 5;
	if (stock_read(env, 1999, &value) || value != 1999)
		return 6;
	stock.env_close(env);
	return 0;
}

static void plain_processes_follow(void **state)
{
	int pipes[4], status;
	MDB_env *env;
	const char *why;
	char c;
	pid_t pid;

	if (!lmdb_api_load_stock(&stock, &why)) {
		print_message("liblmdb.so.0: %s\n", why);
		skip();
	}
	env = open_default(*state, PGW_DURABILITY_STRICT, MDB_NOSYNC, 0);
	put(env, 1, 1);
	setenv("PGW_MAP_DIR", *state, 1);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(pipe(pipes + 2), 0);
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(a_small_plain_reader(pipes));
	close(pipes[3]);
	assert_int_equal(read(pipes[2], &c, 1), 1);
	for (uint32_t n = 0; n < 2000; n++) {
		static char value[1500];
		MDB_val k = { sizeof(n), &n }, v = { sizeof(value), value };
		uint64_t number = n;
		MDB_txn *txn;
		MDB_dbi dbi;

		memcpy(value, &number, sizeof(number));
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		OK(mdb_put(txn, dbi, &k, &v, 0));
		OK(mdb_txn_commit(txn));
	}
	assert_int_equal(write(pipes[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	mdb_env_close(env);
}

/* Of few pages, each is needed again at once: what the durable snapshot holds back must be made free. */
static void a_map_of_nine_pages_is_enough(void **state)
{
	uint32_t key = 1, n;
	MDB_val k = { sizeof(key), &key };
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_env *env;
	int rc;

	for (int d = PGW_DURABILITY_STRICT; d <= PGW_DURABILITY_RELAXED; d++) {
		env = open_default(*state, (enum pgw_durability)d, MDB_NOSYNC, 9 * 4096);
		for (n = 1, rc = 0; !rc; n++)
			rc = try_put(env, n, n, NULL);
		assert_int_equal(rc, MDB_MAP_FULL);
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		OK(mdb_del(txn, dbi, &k, NULL));
		OK(mdb_txn_commit(txn));
		mdb_env_close(env);
		OK(run("rm -f %s/*", (char *)*state));
	}
}

struct snapshot {
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_val first; /* into the map as it was when the reader began */
};

enum { ROWS = 400 };

static void overwrite(MDB_env *env, uint64_t value)
{
	for (uint32_t n = 0; n < ROWS; n++)
		put(env, n, value);
}

static struct snapshot take_snapshot(MDB_env *env)
{
	struct snapshot s;
	MDB_val k;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &s.txn));
	OK(mdb_dbi_open(s.txn, NULL, 0, &dbi));
	OK(mdb_cursor_open(s.txn, dbi, &s.cursor));
	OK(mdb_cursor_get(s.cursor, &k, &s.first, MDB_FIRST));
	return s;
}

/* Goes on from where it is, and from the start. */
static void check_snapshot(struct snapshot *s, uint64_t value)
{
	unsigned n = 0;
	MDB_val k, v;

	assert_memory_equal(s->first.mv_data, &value, sizeof(value));
	while (!mdb_cursor_get(s->cursor, &k, &v, MDB_NEXT))
		assert_memory_equal(v.mv_data, &value, sizeof(value));
	for (int rc = mdb_cursor_get(s->cursor, &k, &v, MDB_FIRST); !rc;
	     rc = mdb_cursor_get(s->cursor, &k, &v, MDB_NEXT), n++)
		assert_memory_equal(v.mv_data, &value, sizeof(value));
	assert_int_equal(n, ROWS);
}

static void give_up(struct snapshot *s)
{
	mdb_cursor_close(s->cursor);
	mdb_txn_abort(s->txn);
}

/* Three sizes, and a reader that was there before each. */
static void grow_under(const char *dir, enum pgw_durability d, unsigned flags)
{
	MDB_env *env = open_default(dir, d, flags | MDB_NOTLS, 1u << 20);
	struct snapshot s[3];

	for (unsigned i = 0; i < 3; i++) {
		overwrite(env, i);
		s[i] = take_snapshot(env);
		OK(mdb_env_set_mapsize(env, (size_t)64 << 20 << 3 * i));
		assert_int_equal(map_size(env), (size_t)64 << 20 << 3 * i);
		for (unsigned j = 0; j <= i; j++)
			check_snapshot(&s[j], j);
	}
	overwrite(env, 3);
	for (unsigned i = 0; i < 3; i++)
		check_snapshot(&s[i], i);
	assert_int_equal(get(env, 5), 3);
	/* A smaller one as well; and then nobody reads. */
	OK(mdb_env_set_mapsize(env, 32u << 20));
	check_snapshot(&s[0], 0);
	for (unsigned i = 0; i < 3; i++)
		give_up(&s[i]);
	OK(mdb_env_set_mapsize(env, 128u << 20));
	overwrite(env, 4);
	assert_int_equal(get(env, ROWS - 1), 4);
	mdb_env_close(env);
}

static void readers_outlive_a_larger_map(void **state)
{
	for (int d = PGW_DURABILITY_STRICT; d <= PGW_DURABILITY_RELAXED; d++) {
		for (unsigned flags = 0; flags <= MDB_WRITEMAP; flags += MDB_WRITEMAP) {
			grow_under(*state, (enum pgw_durability)d, flags | MDB_NOSYNC);
			OK(run("rm -f %s/*", (char *)*state));
		}
	}
}

/* A writable map is made by giving the file its length: of a smaller map, a shorter one. */
static int opens_a_smaller_map(void *arg)
{
	const char *dir = arg;
	MDB_env *env;

	OK(mdb_env_create(&env));
	OK(mdb_env_set_mapsize(env, 1u << 20));
	OK(mdb_env_open(env, dir, MDB_WRITEMAP, 0600));
	OK(mdb_env_set_mapsize(env, 2u << 20));
	OK(mdb_env_set_mapsize(env, 1u << 20));
	mdb_env_close(env);
	return 0;
}

static void nobody_cuts_what_another_one_is_writing(void **state)
{
	static char value[3 << 20];

	memset(value, 'v', sizeof(value));
	for (int d = 0; d <= PGW_DURABILITY_RELAXED; d++) {
		struct spec s = { .durability = (enum pgw_durability)d, .flags = MDB_WRITEMAP };
		MDB_env *env = open_env(*state, s);
		uint32_t key = 7;
		MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };
		MDB_txn *txn;
		MDB_dbi dbi;

		put(env, 1, 1);
		OK(mdb_txn_begin(env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		OK(mdb_put(txn, dbi, &k, &v, 0));
		assert_int_equal(in_child(opens_a_smaller_map, *state), 0);
		OK(mdb_txn_commit(txn));
		OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
		OK(mdb_get(txn, dbi, &k, &v));
		assert_int_equal(v.mv_size, sizeof(value));
		assert_memory_equal(v.mv_data, value, sizeof(value));
		mdb_txn_abort(txn);
		mdb_env_close(env);
		OK(run("rm -f %s/*", (char *)*state));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_terabyte_is_reserved_and_little_used),
		TEST(a_large_map_costs_what_a_small_one_does),
		TEST(limits_of_the_process_are_kept),
		TEST(a_setting_is_for_who_does_not_choose),
		TEST(plain_processes_follow),
		TEST(a_map_of_nine_pages_is_enough),
		TEST(readers_outlive_a_larger_map),
		TEST(nobody_cuts_what_another_one_is_writing),
	};

	if (argc == 4 && !strcmp(argv[1], "--open"))
		return open_as_told(argv[2], argv[3]);
	self = argv[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
