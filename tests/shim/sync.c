/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sync.c - pgw_sync on a simulated file and device: which calls in which order, how many barriers,
 * and whether the pages are durable when it says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <pagewise/stats.h>
#include <pagewise/sync.h>

#include "simkernel.h"

#define MAP_PAGES 8192

#define EXT4	0xef53
#define XFS	0x58465342
#define BTRFS	0x9123683e
#define TMPFS	0x01021994
#define OVERLAY 0x794c7630

static struct pgw_sync_file file;
static struct pgw_sync_report report;
static struct pgw_ranges set;

static int fresh(void **state)
{
	sim_install("auto");
	unsetenv("PAGEWISE_SYNC");
	pgw_ranges_finish(&set);
	return 0;
}

static void set_up(enum pgw_sync_strategy want, bool mapped)
{
	assert_int_equal(
	    pgw_sync_init(&file, SIM_FILE_FD, mapped ? sim.map : NULL, MAP_PAGES * SIM_PAGE, want),
	    0);
	sim_forget();
}

/* A dirty page, of which a few bytes matter. */
static void dirty(size_t page)
{
	sim_dirty(page, 1);
	assert_int_equal(pgw_ranges_add(&set, page * SIM_PAGE + 100, 200), 0);
}

static void dirty_some(void)
{
	static const size_t pages[] = { 900, 3, 40, 41, 5000, 17 };

	for (size_t i = 0; i < 6; i++)
		dirty(pages[i]);
}

static void assert_some_durable(void)
{
	assert_true(sim_is_durable(3, 1));
	assert_true(sim_is_durable(17, 1));
	assert_true(sim_is_durable(40, 2));
	assert_true(sim_is_durable(900, 1));
	assert_true(sim_is_durable(5000, 1));
}

static int sync_set(void)
{
	memset(&report, 0x55, sizeof(report));
	return pgw_sync(&file, &set, &report);
}

static void assert_calls(unsigned writeouts, unsigned msyncs, unsigned fdatasyncs)
{
	assert_int_equal(sim.calls[SIM_SYNC_FILE_RANGE], writeouts);
	assert_int_equal(sim.calls[SIM_MSYNC], msyncs);
	assert_int_equal(sim.calls[SIM_FDATASYNC], fdatasyncs);
	assert_int_equal(report.sync_file_range_calls, writeouts);
	assert_int_equal(report.msync_calls, msyncs);
	assert_int_equal(report.fdatasync_calls, fdatasyncs);
	assert_int_equal(sim.calls[SIM_FSYNC], 0);
}

static void assert_strategy(enum pgw_sync_strategy strategy, const char *fs, const char *reason)
{
	if (file.strategy != strategy || strcmp(file.fs, fs) != 0 || !strstr(file.reason, reason))
		fail_msg(
		    "%s on %s: %s", pgw_sync_strategy_name(file.strategy), file.fs, file.reason);
}

/* --- writeout --- */

static void start_all_wait_all_one_barrier(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(10, 1, 0); /* five ranges: 40 and 41 are one */
	for (size_t i = 0; i < 11; i++) {
		const struct sim_record *r = &sim.log[i];

		assert_int_equal(r->call, i < 10 ? SIM_SYNC_FILE_RANGE : SIM_MSYNC);
		if (i < 10)
			assert_int_equal(r->args.flags, i < 5 ? SYNC_FILE_RANGE_WRITE
							      : SYNC_FILE_RANGE_WAIT_BEFORE |
								    SYNC_FILE_RANGE_WRITE |
								    SYNC_FILE_RANGE_WAIT_AFTER);
	}
	assert_int_equal(sim.log[10].args.start, 3 * SIM_PAGE); /* a page of the ranges */
	assert_int_equal(sim.log[10].args.len, SIM_PAGE);
	assert_some_durable();
	assert_int_equal(report.ranges, 5);
	assert_int_equal(report.range_bytes, 6 * SIM_PAGE);
	assert_int_equal(report.sync_file_range_bytes, 12 * SIM_PAGE);
	assert_int_equal(report.msync_bytes, SIM_PAGE);
	assert_int_equal(report.barriers, 1);
	assert_int_equal(sim.device_flushes, 1);
}

static void ranges_that_are_alone_are_started_by_one_call(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	file.alone = true;
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(6, 1, 0); /* and each is waited for */
	assert_int_equal(sim.log[0].args.flags, SYNC_FILE_RANGE_WRITE);
	assert_int_equal(sim.log[0].args.start, 3 * SIM_PAGE);
	assert_int_equal(sim.log[0].args.len, (5001 - 3) * SIM_PAGE);
	assert_some_durable();

	set_up(PGW_SYNC_WRITEOUT, true); /* forced: as it is named */
	file.alone = true;
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(10, 1, 0);
}

static void ranges_that_are_all_that_is_dirty_are_one_call(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	file.alone = file.only = true;
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 1, 0);
	assert_int_equal(report.msync_bytes, (5001 - 3) * SIM_PAGE);
	assert_some_durable();

	set_up(PGW_SYNC_WRITEOUT, true); /* forced: as it is named */
	file.alone = file.only = true;
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(10, 1, 0);

	set_up(PGW_SYNC_AUTO, false); /* no msync without a mapping */
	file.alone = file.only = true;
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
}

static void other_dirty_pages_are_left_alone(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	sim_dirty(100, 200);
	dirty_some();
	assert_int_equal(sync_set(), 0);
	for (size_t i = 100; i < 300; i++)
		assert_int_equal(sim.file[i], SIM_DIRTY);
}

/* What the model is for: without the wait, data is lost. */
static void the_model_knows_about_waiting(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	dirty_some();
	assert_int_equal(pgw_sync_start(&file, &set, &report), 0);
	assert_calls(5, 0, 0);
	assert_int_equal(report.barriers, 0);
	set.n = 1; /* a barrier on the first range alone */
	assert_int_equal(sync_set(), 0);
	assert_true(sim_is_durable(3, 1));
	assert_false(sim_is_durable(17, 1));
	assert_false(sim_is_durable(900, 1));
}

static void one_range_is_one_call(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	dirty(30);
	dirty(31);
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 1, 0);
	assert_true(sim_is_durable(30, 2));
	assert_int_equal(report.msync_bytes, 2 * SIM_PAGE);
}

static void dense_ranges_are_one_span(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	for (size_t i = 0; i < 100; i++)
		dirty(2 * i);
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 1, 0);
	assert_int_equal(report.barriers, 1);
	for (size_t i = 0; i < 100; i++)
		assert_true(sim_is_durable(2 * i, 1));
	pgw_ranges_clear(&set);
	sim_forget();
	for (size_t i = 0; i < 100; i++)
		dirty(3 * i);
	assert_int_equal(sync_set(), 0);
	assert_calls(200, 1, 0);
}

static void very_many_ranges_are_the_file(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	for (size_t i = 0; i < 4097; i++)
		dirty(3 * i);
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
	assert_int_equal(report.barriers, 1);
}

static void ranges_past_the_mapping(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	dirty(10);
	dirty(MAP_PAGES + 100);
	assert_int_equal(sync_set(), 0);
	assert_calls(4, 1, 0); /* the barrier on page 10 */
	assert_true(sim_is_durable(10, 1));
	assert_true(sim_is_durable(MAP_PAGES + 100, 1));
	/* None inside: no page for a barrier. */
	pgw_ranges_clear(&set);
	sim_forget();
	dirty(MAP_PAGES + 100);
	dirty(MAP_PAGES + 200);
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
	assert_true(sim_is_durable(MAP_PAGES + 100, 101));
}

static void an_empty_set_is_no_call(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	assert_int_equal(pgw_ranges_add(&set, 5000, 0), 0);
	assert_int_equal(sync_set(), 0);
	assert_int_equal(sim.total, 0);
	assert_int_equal(report.barriers, 0);
	assert_int_equal(pgw_sync_start(&file, &set, NULL), 0);
	assert_int_equal(sim.total, 0);
}

static void offsets_no_file_has(void **state)
{
	const uint64_t last = (UINT64_C(1) << 63) - 2 * SIM_PAGE; /* page that a file can have */
	const uint64_t beyond[] = { last + SIM_PAGE, UINT64_C(1) << 63, UINT64_MAX - SIM_PAGE - 9,
		UINT64_MAX - SIM_PAGE + 1, UINT64_MAX - 10 };
	static const uint64_t file_systems[] = { EXT4, BTRFS, TMPFS };

	for (size_t i = 0; i < 3 * sizeof(beyond) / sizeof(*beyond); i++) {
		sim.magic = file_systems[i % 3];
		set_up(PGW_SYNC_AUTO, true);
		assert_int_equal(pgw_ranges_add(&set, beyond[i / 3], 10), 0);
		assert_int_equal(sync_set(), -EINVAL);
		pgw_ranges_clear(&set);
		assert_int_equal(pgw_ranges_add(&set, beyond[i / 3], 10), 0);
		assert_int_equal(pgw_sync_start(&file, &set, NULL), -EINVAL);
		assert_int_equal(sim.total, 0);
	}
	sim.magic = EXT4;
	set_up(PGW_SYNC_AUTO, true);
	assert_int_equal(pgw_ranges_add(&set, last + SIM_PAGE - 1, 1), 0);
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
}

/* --- which strategy --- */

static void chosen_by_file_system(void **state)
{
	static const struct {
		uint64_t magic;
		const char *fs;
		enum pgw_sync_strategy strategy;
	} cases[] = {
		{ EXT4, "ext4", PGW_SYNC_WRITEOUT },
		{ XFS, "xfs", PGW_SYNC_WRITEOUT },
		{ BTRFS, "btrfs", PGW_SYNC_FDATASYNC },
		{ OVERLAY, "overlayfs", PGW_SYNC_FDATASYNC },
		{ 0x65735546, "fuse", PGW_SYNC_FDATASYNC },
		{ 0x6969, "nfs", PGW_SYNC_FDATASYNC },
		{ 0x2fc12fc1, "zfs", PGW_SYNC_FDATASYNC },
		{ 0x12345, "unknown", PGW_SYNC_FDATASYNC },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fresh(NULL);
		sim.magic = cases[i].magic;
		set_up(PGW_SYNC_AUTO, true);
		assert_strategy(cases[i].strategy, cases[i].fs, "");
		assert_false(file.forced);
		assert_false(file.no_barrier);
		dirty_some();
		assert_int_equal(sync_set(), 0);
		assert_int_equal(report.barriers, 1);
		assert_some_durable();
		assert_int_equal(report.fdatasync_calls, cases[i].strategy == PGW_SYNC_FDATASYNC);
	}
}

static void no_device_no_call(void **state)
{
	sim.magic = TMPFS;
	set_up(PGW_SYNC_AUTO, true);
	assert_true(file.no_barrier);
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_int_equal(pgw_sync_all(&file, &report), 0);
	assert_int_equal(sim.total, 0);
	assert_int_equal(report.barriers, 0);
	/* Forced, the calls are made. */
	set_up(PGW_SYNC_WRITEOUT, true);
	assert_int_equal(sync_set(), 0);
	assert_calls(10, 1, 0);
}

/* The node of a disk lies on a tmpfs (devtmpfs), and has a device behind it. */
static void a_disk_is_not_a_tmpfs(void **state)
{
	sim.magic = TMPFS;
	sim.mode = S_IFBLK | 0600;
	set_up(PGW_SYNC_AUTO, true);
	assert_false(file.no_barrier);
	assert_strategy(PGW_SYNC_FDATASYNC, "unknown", "not proven");
}

static void read_only_descriptor(void **state)
{
	sim.open_flags = O_RDONLY;
	for (int s = 0; s < PGW_SYNC_STRATEGY_COUNT; s++) {
		set_up((enum pgw_sync_strategy)s, true);
		assert_int_equal(file.strategy, PGW_SYNC_FDATASYNC);
		if (s != PGW_SYNC_FDATASYNC)
			assert_strategy(PGW_SYNC_FDATASYNC, "ext4", "does nothing");
		pgw_ranges_clear(&set);
		dirty_some();
		assert_int_equal(sync_set(), 0);
		assert_some_durable();
	}
}

static void without_a_mapping(void **state)
{
	set_up(PGW_SYNC_AUTO, false);
	assert_strategy(PGW_SYNC_FDATASYNC, "ext4", "not mapped");
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
	assert_int_equal(pgw_sync_start(&file, &set, NULL), 0);
	assert_int_equal(sim.calls[SIM_SYNC_FILE_RANGE], 0);
	pgw_sync_remap(&file, sim.map, MAP_PAGES * SIM_PAGE);
	assert_strategy(PGW_SYNC_WRITEOUT, "ext4", "one barrier");
	pgw_sync_remap(&file, NULL, 5);
	assert_strategy(PGW_SYNC_FDATASYNC, "ext4", "not mapped");
}

static bool no_writeout(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	*answer = -ENOSYS;
	return call == SIM_SYNC_FILE_RANGE;
}

static void sync_file_range_is_refused(void **state)
{
	sim.intercept = no_writeout;
	set_up(PGW_SYNC_AUTO, true);
	assert_strategy(PGW_SYNC_FDATASYNC, "ext4", "refused");
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_some_durable();
}

static void forced_by_the_caller(void **state)
{
	sim.magic = BTRFS;
	set_up(PGW_SYNC_SPAN, true);
	assert_strategy(PGW_SYNC_SPAN, "btrfs", "by the caller");
	assert_true(file.forced);
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 1, 0);
	assert_int_equal(report.msync_bytes, (5001 - 3) * SIM_PAGE);
	assert_some_durable();
	set_up(PGW_SYNC_PER_RANGE, true);
	dirty_some();
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 5, 0);
	assert_int_equal(report.barriers, 5);
	/* Past the mapping, both take the file. */
	dirty(MAP_PAGES + 1);
	sim_forget();
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
	set_up(PGW_SYNC_SPAN, true);
	assert_int_equal(sync_set(), 0);
	assert_calls(0, 0, 1);
}

static void forced_writeout_of_dense_ranges(void **state)
{
	set_up(PGW_SYNC_WRITEOUT, true);
	for (size_t i = 0; i < 100; i++)
		dirty(2 * i);
	assert_int_equal(sync_set(), 0);
	assert_calls(200, 1, 0);
}

static void forced_by_the_environment(void **state)
{
	setenv("PAGEWISE_SYNC", "per-range", 1);
	set_up(PGW_SYNC_AUTO, true);
	assert_strategy(PGW_SYNC_PER_RANGE, "ext4", "PAGEWISE_SYNC");
	set_up(PGW_SYNC_FDATASYNC, true); /* the caller knows better */
	assert_strategy(PGW_SYNC_FDATASYNC, "ext4", "by the caller");
	setenv("PAGEWISE_SYNC", "nonsense", 1);
	set_up(PGW_SYNC_AUTO, true);
	assert_strategy(PGW_SYNC_WRITEOUT, "ext4", "");
}

static void names(void **state)
{
	for (int s = 0; s < PGW_SYNC_STRATEGY_COUNT; s++) {
		enum pgw_sync_strategy back;
		const char *name = pgw_sync_strategy_name((enum pgw_sync_strategy)s);

		assert_int_equal(pgw_sync_strategy_parse(name, &back), 0);
		assert_int_equal(back, s);
	}
	assert_null(pgw_sync_strategy_name(PGW_SYNC_STRATEGY_COUNT));
	assert_int_equal(pgw_sync_strategy_parse("", NULL), -EINVAL);
	assert_int_equal(pgw_sync_strategy_parse(NULL, NULL), -EINVAL);
}

static void set_up_that_fails(void **state)
{
	struct pgw_sync_file before;

	memset(&before, 0x33, sizeof(before));
	for (unsigned k = 1; k <= 3; k++) {
		sim_forget();
		file = before;
		sim.fail_at = k;
		sim.fail_errno = EBADF;
		assert_int_equal(pgw_sync_init(&file, SIM_FILE_FD, NULL, 0, PGW_SYNC_AUTO), -EBADF);
		assert_memory_equal(&file, &before, sizeof(file));
	}
	sim.fail_at = 0;
	assert_int_equal(
	    pgw_sync_init(&file, SIM_FILE_FD, NULL, 0, PGW_SYNC_STRATEGY_COUNT), -EINVAL);
	assert_memory_equal(&file, &before, sizeof(file));
}

/* --- failures --- */

/* A failed call is the last one, its error the result, and no barrier is claimed after it. */
static void the_nth_call_fails(void **state)
{
	static const int errors[] = { EIO, ENOSPC, EDQUOT, ENOMEM };

	for (int s = PGW_SYNC_SPAN; s < PGW_SYNC_STRATEGY_COUNT; s++) {
		for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); e++) {
			unsigned k = 0;
			int r;

			do {
				struct pgw_stats before, after;

				fresh(NULL);
				set_up((enum pgw_sync_strategy)s, true);
				dirty_some();
				sim.fail_at = ++k;
				sim.fail_errno = errors[e];
				pgw_stats_get(&before);
				r = sync_set();
				pgw_stats_get(&after);
				assert_int_equal(r, sim.failed ? -errors[e] : 0);
				assert_int_equal(report.barriers, sim.device_flushes);
				assert_int_equal(
				    after.sync.barriers - before.sync.barriers, report.barriers);
				assert_int_equal(
				    after.sync.failed - before.sync.failed, sim.failed);
				if (sim.failed)
					assert_int_equal(sim.total, k);
				else
					assert_some_durable();
			} while (sim.failed);
			assert_true(k > 1);
		}
	}
}

static unsigned interruptions;

static bool interrupt(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	if (!interruptions)
		return false;
	interruptions--;
	*answer = -EINTR;
	return true;
}

static void interrupted_calls_are_made_again(void **state)
{
	for (int s = PGW_SYNC_SPAN; s < PGW_SYNC_STRATEGY_COUNT; s++) {
		fresh(NULL);
		set_up((enum pgw_sync_strategy)s, true);
		dirty_some();
		interruptions = 7;
		sim.intercept = interrupt;
		assert_int_equal(sync_set(), 0);
		assert_int_equal(interruptions, 0);
		assert_some_durable();
	}
	interruptions = UINT32_MAX;
	assert_int_equal(sync_set(), -EINTR);
	assert_true(sim.total < 1000);
}

static void all_of_it(void **state)
{
	set_up(PGW_SYNC_AUTO, true);
	sim_dirty(0, SIM_FILE_PAGES);
	assert_int_equal(pgw_sync_all(&file, &report), 0);
	assert_calls(0, 0, 1);
	assert_int_equal(report.barriers, 1);
	assert_true(sim_is_durable(0, SIM_FILE_PAGES));
	sim_forget();
	sim.fail_at = 1;
	sim.fail_errno = EIO;
	assert_int_equal(pgw_sync_all(&file, NULL), -EIO);
}

static void counted(void **state)
{
	struct pgw_stats s;

	set_up(PGW_SYNC_AUTO, true);
	dirty_some();
	assert_int_equal(pgw_sync(&file, &set, NULL), 0);
	assert_int_equal(pgw_sync_all(&file, NULL), 0);
	pgw_stats_get(&s);
	assert_int_equal(s.sync.sync_file_range_calls, 10);
	assert_int_equal(s.sync.sync_file_range_bytes, 12 * SIM_PAGE);
	assert_int_equal(s.sync.msync_calls, 1);
	assert_int_equal(s.sync.msync_bytes, SIM_PAGE);
	assert_int_equal(s.sync.fdatasync_calls, 1);
	assert_int_equal(s.sync.barriers, 2);
}

/* Random dirty sets, any strategy: durable afterwards, with one barrier. */
static void whatever_is_dirty_becomes_durable(void **state)
{
	uint32_t seed = 1;

	for (unsigned round = 0; round < 500; round++) {
		fresh(NULL);
		set_up(round % 2 ? PGW_SYNC_AUTO : PGW_SYNC_WRITEOUT, true);
		for (unsigned i = 0; i < 1 + round % 60; i++) {
			seed = seed * 1664525 + 1013904223;
			dirty((seed >> 10) % (round % 3 ? SIM_FILE_PAGES : 200));
		}
		assert_int_equal(sync_set(), 0);
		assert_int_equal(report.barriers, 1);
		assert_int_equal(sim.device_flushes, 1);
		assert_true(sim_is_durable(0, SIM_FILE_PAGES));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(start_all_wait_all_one_barrier, fresh),
		cmocka_unit_test_setup(ranges_that_are_alone_are_started_by_one_call, fresh),
		cmocka_unit_test_setup(ranges_that_are_all_that_is_dirty_are_one_call, fresh),
		cmocka_unit_test_setup(other_dirty_pages_are_left_alone, fresh),
		cmocka_unit_test_setup(the_model_knows_about_waiting, fresh),
		cmocka_unit_test_setup(one_range_is_one_call, fresh),
		cmocka_unit_test_setup(dense_ranges_are_one_span, fresh),
		cmocka_unit_test_setup(very_many_ranges_are_the_file, fresh),
		cmocka_unit_test_setup(ranges_past_the_mapping, fresh),
		cmocka_unit_test_setup(an_empty_set_is_no_call, fresh),
		cmocka_unit_test_setup(offsets_no_file_has, fresh),
		cmocka_unit_test_setup(chosen_by_file_system, fresh),
		cmocka_unit_test_setup(no_device_no_call, fresh),
		cmocka_unit_test_setup(a_disk_is_not_a_tmpfs, fresh),
		cmocka_unit_test_setup(read_only_descriptor, fresh),
		cmocka_unit_test_setup(without_a_mapping, fresh),
		cmocka_unit_test_setup(sync_file_range_is_refused, fresh),
		cmocka_unit_test_setup(forced_by_the_caller, fresh),
		cmocka_unit_test_setup(forced_writeout_of_dense_ranges, fresh),
		cmocka_unit_test_setup(forced_by_the_environment, fresh),
		cmocka_unit_test(names),
		cmocka_unit_test_setup(set_up_that_fails, fresh),
		cmocka_unit_test_setup(the_nth_call_fails, fresh),
		cmocka_unit_test_setup(interrupted_calls_are_made_again, fresh),
		cmocka_unit_test_setup(all_of_it, fresh),
		cmocka_unit_test_setup(counted, fresh),
		cmocka_unit_test_setup(whatever_is_dirty_becomes_durable, fresh),
	};

	sim_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
