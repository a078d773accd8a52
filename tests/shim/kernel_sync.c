/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_sync.c - pgw_sync on real files, in the directories given: it works there, by the number of
 * calls that it should take, and leaves nothing of the ranges dirty.
 *
 * usage: test-kernel-sync DIRECTORY...
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagewise/probe.h>
#include <pagewise/sync.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

#define PAGES 4096

static const char *directory;
static struct pgw_sync_report report;
static struct pgw_sync_file file;
static struct pgw_ranges set;
static char *map;
static int fd;

static int set_up(void **state)
{
	char path[4096];

	unsetenv("PAGEWISE_SYNC");
	snprintf(path, sizeof(path), "%s/pagewise-sync.XXXXXX", directory);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, PAGES * (off_t)pgw_page_size()), 0);
	map = mmap(NULL, PAGES * pgw_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	pgw_ranges_init(&set);
	return 0;
}

static int tear_down(void **state)
{
	pgw_ranges_finish(&set);
	munmap(map, PAGES * pgw_page_size());
	close(fd);
	return 0;
}

static void init(enum pgw_sync_strategy want)
{
	assert_int_equal(pgw_sync_init(&file, fd, map, PAGES * pgw_page_size(), want), 0);
	assert_non_null(file.reason);
}

static void dirty(size_t page, bool through_map)
{
	uint64_t at = page * pgw_page_size() + 7;

	if (through_map)
		map[at]++;
	else
		assert_int_equal(pwrite(fd, "x", 1, (off_t)at), 1);
	assert_int_equal(pgw_ranges_add(&set, at, 1), 0);
}

/* Dirty pages in the page cache, or -1 where the kernel cannot say (before 6.5). */
static int64_t dirty_pages(uint64_t start, uint64_t len)
{
	struct {
		uint64_t start, len;
	} range = { start, len };
	struct {
		uint64_t cached, dirty, writeback, evicted, recently_evicted;
	} stat;

	if (syscall(SYS_cachestat, fd, &range, &stat, 0))
		return -1;
	return (int64_t)(stat.dirty + stat.writeback);
}

static void assert_clean(void)
{
	for (size_t i = 0; i < set.n && !file.no_barrier; i++)
		assert_true(dirty_pages(set.v[i].start, set.v[i].len) <= 0);
}

static void every_strategy(void **state)
{
	for (int s = 0; s < PGW_SYNC_STRATEGY_COUNT; s++) {
		for (int through_map = 0; through_map < 2; through_map++) {
			pgw_ranges_clear(&set);
			init((enum pgw_sync_strategy)s);
			for (size_t i = 0; i < 20; i++)
				dirty(i * 37 % 1000, through_map);
			assert_int_equal(pgw_sync(&file, &set, &report), 0);
			assert_int_equal(report.ranges, 20);
			if (s == PGW_SYNC_PER_RANGE)
				assert_int_equal(report.barriers, 20);
			else
				assert_int_equal(report.barriers, file.no_barrier ? 0 : 1);
			assert_clean();
		}
	}
}

static void others_are_left_alone(void **state)
{
	init(PGW_SYNC_AUTO);
	if (file.strategy != PGW_SYNC_WRITEOUT || dirty_pages(0, 1) < 0)
		skip();
	assert_int_equal(pgw_sync_all(&file, NULL), 0);
	for (size_t i = 0; i < 500; i++)
		map[(2000 + i) * pgw_page_size()]++;
	dirty(10, false);
	dirty(3000, false);
	assert_int_equal(pgw_sync(&file, &set, &report), 0);
	assert_clean();
	/* The kernel may have begun to write them on its own, but not all. */
	assert_true(dirty_pages(2000 * pgw_page_size(), 500 * pgw_page_size()) > 0);
}

static void growing_and_past_the_mapping(void **state)
{
	init(PGW_SYNC_AUTO);
	dirty(1, false);
	dirty(PAGES + 100, false); /* grows the file, beyond the mapping */
	assert_int_equal(pgw_sync(&file, &set, &report), 0);
	assert_int_equal(report.barriers, file.no_barrier ? 0 : 1);
	assert_clean();
	pgw_ranges_clear(&set);
	assert_int_equal(
	    pgw_ranges_add(&set, (PAGES + 1000) * pgw_page_size(), pgw_page_size()), 0);
	assert_int_equal(pgw_sync(&file, &set, &report), 0); /* no such pages */
}

static void without_mapping(void **state)
{
	assert_int_equal(pgw_sync_init(&file, fd, NULL, 0, PGW_SYNC_AUTO), 0);
	assert_int_equal(file.strategy, PGW_SYNC_FDATASYNC);
	dirty(5, true);
	assert_int_equal(pgw_sync_start(&file, &set, &report), 0);
	assert_int_equal(pgw_sync(&file, &set, &report), 0);
	assert_int_equal(report.fdatasync_calls, !file.no_barrier);
	assert_clean();
}

static void many_and_dense(void **state)
{
	init(PGW_SYNC_AUTO);
	for (size_t i = 0; i < 1500; i++)
		dirty(i * 2, false);
	assert_int_equal(pgw_sync(&file, &set, &report), 0);
	if (file.strategy == PGW_SYNC_WRITEOUT)
		assert_int_equal(report.msync_calls + report.sync_file_range_calls, 1);
	assert_clean();
}

static void bad_descriptors(void **state)
{
	struct pgw_sync_file f;
	int ro;
	char path[64];

	assert_int_equal(pgw_sync_init(&f, -1, NULL, 0, PGW_SYNC_AUTO), -EBADF);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	if (ro < 0)
		skip();
	assert_int_equal(pgw_sync_init(&f, ro, map, 4096, PGW_SYNC_WRITEOUT), 0);
	assert_int_equal(f.strategy, PGW_SYNC_FDATASYNC);
	close(ro);
	/* The descriptor was closed under it. */
	dirty(1, false);
	assert_int_equal(pgw_sync(&f, &set, &report), f.no_barrier ? 0 : -EBADF);
	assert_int_equal(report.barriers, 0);
}

/* Nothing of the mapping is there any more: the kernel says so, and it is not taken for done. */
static void a_mapping_that_is_gone(void **state)
{
	init(PGW_SYNC_SPAN);
	dirty(100, false);
	munmap(map, PAGES * pgw_page_size());
	if (!msync(map, pgw_page_size(), MS_SYNC)) {
		map =
		    mmap(NULL, PAGES * pgw_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		skip(); /* an emulator says nothing (qemu-user) */
	}
	assert_int_equal(pgw_sync(&file, &set, &report), -ENOMEM);
	assert_int_equal(report.barriers, 0);
	map = mmap(NULL, PAGES * pgw_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(every_strategy),
		TEST(others_are_left_alone),
		TEST(growing_and_past_the_mapping),
		TEST(without_mapping),
		TEST(many_and_dense),
		TEST(bad_descriptors),
		TEST(a_mapping_that_is_gone),
	};
	int failed = 0;

	for (int i = 1; i < argc; i++) {
		directory = argv[i];
		if (access(directory, W_OK)) {
			print_message("%s: not writable, left out\n", directory);
			continue;
		}
		failed += cmocka_run_group_tests_name(directory, tests, NULL, NULL);
	}
	return failed != 0;
}
