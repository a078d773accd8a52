/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_spill.c - transactions that are too large for LMDB's dirty list: pages are written out early,
 * taken back, and written again. All of them are in what the commit syncs.
 *
 * The sync calls are recorded and not made. The file is new, so every page that is not zero, but for
 * the first few, was dirtied by the transaction.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagewise/store.h>

#include "env.h"
#include "scratch.h"
#include "sys.h"
#include "workload.h"

#define PAGE	  4096
#define MAP_SIZE  ((size_t)2 << 30)
#define LIST_MAX  131071 /* pages in LMDB's dirty list */
#define KEYS	  260000
#define VALUE	  1800 /* two to a page */
#define ENOUGH_MB 3000
#define OK(call)  assert_int_equal(call, 0)

static char top[512];
static struct pgw_ranges synced;
static uint64_t whole_file;
static MDB_env *env;

static int record_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	return flags & SYNC_FILE_RANGE_WAIT_AFTER ? pgw_ranges_add(&synced, off, len) : 0;
}

static int record_msync(void *addr, size_t len, int flags)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);

	return pgw_ranges_add(&synced, (uintptr_t)addr - atomic_load(&e->map_start), len);
}

static int record_fdatasync(int fd)
{
	whole_file++;
	return 0;
}

static int say_ext4(int fd, uint64_t *magic)
{
	*magic = 0xef53;
	return 0;
}

static MDB_env *open_new(const char *name, unsigned flags)
{
	char dir[600];

	snprintf(dir, sizeof(dir), "%s/%s", top, name);
	OK(mkdir(dir, 0700));
	OK(mdb_env_create(&env));
	OK(mdb_env_set_mapsize(env, MAP_SIZE));
	OK(mdb_env_open(env, dir, flags, 0600));
	return env;
}

static void put_some(MDB_txn *txn, MDB_dbi dbi, struct rng *rng, unsigned n)
{
	static char value[VALUE];

	while (n--) {
		uint32_t key = rng_below(rng, KEYS);
		MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };

		memset(value, (int)(key | 1), sizeof(value));
		OK(mdb_put(txn, dbi, &k, &v, 0));
	}
}

static bool is_zero(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

/* Every page of the data file with something in it, from the first one on, was synced. */
static void assert_all_synced(uint64_t first)
{
	uint64_t pages = 0;
	struct stat st;
	const char *p;
	int fd;

	OK(mdb_env_get_fd(env, &fd));
	OK(fstat(fd, &st));
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	for (uint64_t off = first * PAGE; off < (uint64_t)st.st_size; off += PAGE) {
		off_t data = lseek(fd, (off_t)off, SEEK_DATA);

		if (data < 0)
			break;
		off = (uint64_t)data / PAGE * PAGE;
		if (is_zero(p + off)) /* file systems allocate more than was stored to */
			continue;
		pages++;
		if (!pgw_ranges_contains(&synced, off, PAGE))
			fail_msg("page %llu was not synced", (unsigned long long)off / PAGE);
	}
	munmap((void *)p, (size_t)st.st_size);
	print_message("%llu pages\n", (unsigned long long)pages);
	assert_true(pages > LIST_MAX); /* else nothing was spilled */
	assert_int_equal(whole_file, 0);
}

static void big_transaction(const char *name, unsigned flags, bool nested)
{
	struct rng rng = { 1 };
	MDB_txn *txn, *child;
	MDB_envinfo info;
	MDB_dbi dbi;

	open_new(name, flags);
	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi));
	put_some(txn, dbi, &rng, 1);
	OK(mdb_txn_commit(txn)); /* the first commit syncs the whole file */
	OK(mdb_env_info(env, &info));
	whole_file = 0;
	pgw_ranges_clear(&synced);

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	put_some(txn, dbi, &rng, nested ? KEYS : 2 * KEYS);
	if (nested) {
		OK(mdb_txn_begin(env, txn, 0, &child));
		put_some(child, dbi, &rng, KEYS);
		OK(mdb_txn_commit(child));
		put_some(txn, dbi, &rng, KEYS / 2);
	}
	OK(mdb_txn_commit(txn));
	if (!(flags & MDB_WRITEMAP))
		assert_true(pgw__env_by_lmdb(env)->spilled);
	assert_all_synced(info.me_last_pgno + 1);
	mdb_env_close(env);
	scratch_remove(top);
	OK(mkdir(top, 0700));
}

static void by_write(void **state)
{
	big_transaction("write", 0, false);
}

static void by_write_in_a_nested_transaction(void **state)
{
	big_transaction("nested", 0, true);
}

static void by_map(void **state)
{
	big_transaction("map", MDB_WRITEMAP, false);
}

/* LMDB 0.9.24 frees a top-level transaction's list of spilled pages (mt_spill_pgs, 1 MiB) nowhere. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:mdb_midl_alloc\n";
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_write),
		cmocka_unit_test(by_write_in_a_nested_transaction),
		cmocka_unit_test(by_map),
	};
	struct sysinfo si;
	int failed;

	if (sysinfo(&si) || (uint64_t)si.freeram * si.mem_unit >> 20 < ENOUGH_MB) {
		fprintf(stderr, "less than %d MB of memory are free\n", ENOUGH_MB);
		return 77;
	}
	setenv("PAGEWISE_SYNC", "writeout", 1); /* not the whole file, however many ranges */
	pgw__sys.sync_file_range = record_sync_file_range;
	pgw__sys.msync = record_msync;
	pgw__sys.fdatasync = record_fdatasync;
	pgw__sys.fs_magic = say_ext4;
	pgw_ranges_init(&synced);
	scratch_make(top, sizeof(top));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	scratch_remove(top);
	pgw_ranges_finish(&synced);
	return failed;
}
