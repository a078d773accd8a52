/* SPDX-License-Identifier: BSD-2-Clause
 *
 * advise.c - pgw_advise on a simulated kernel: what each range is told, and with how many calls.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagewise/advise.h>
#include <pagewise/stats.h>

#include "simkernel.h"

#define MANY 3000

static struct pgw_range ranges[MANY];
static int status[MANY];
static struct pgw_advise_report report;

/* n ranges of one page, with a page between. */
static size_t spread(size_t n)
{
	for (size_t i = 0; i < n; i++)
		ranges[i] = sim_range(2 * i, 1);
	return n;
}

static int advise(size_t n)
{
	sim_forget();
	memset(status, 0x55, sizeof(status));
	memset(&report, 0x55, sizeof(report));
	return pgw_advise(ranges, n, PGW_DONTNEED, status, &report);
}

static unsigned singles(void)
{
	return sim.calls[SIM_MADVISE];
}

static unsigned vectors(void)
{
	return sim.calls[SIM_PROCESS_MADVISE];
}

/* The report, and what happened. */
static void assert_calls(unsigned vectored, unsigned single)
{
	assert_int_equal(vectors(), vectored);
	assert_int_equal(singles(), single);
	assert_int_equal(report.vectored_calls, vectored);
	assert_int_equal(report.single_calls, single);
}

static void assert_all_done(size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(status[i], 0);
		assert_true(sim_is_claimed(ranges[i]));
	}
	for (size_t i = 0; i < SIM_PAGES; i++)
		bytes += sim.claimed[i] ? SIM_PAGE : 0;
	assert_int_equal(report.done_bytes, bytes);
	assert_int_equal(report.failed_ranges, 0);
}

static bool is_vectored(void)
{
	struct pgw_probe p;

	assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
	return p.route == PGW_ROUTE_VECTORED;
}

static void assert_reason_has(const char *part)
{
	struct pgw_probe p;

	assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
	if (!strstr(p.reason, part))
		fail_msg("no \"%s\" in \"%s\"", part, p.reason);
}

static int fresh(void **state)
{
	sim_install("auto");
	assert_true(is_vectored());
	return 0;
}

/* --- the ordinary --- */

static void a_thousand_ranges_are_one_call(void **state)
{
	spread(1024);
	assert_int_equal(advise(1024), 0);
	assert_calls(1, 0);
	assert_all_done(1024);
	assert_int_equal(report.vectored_ranges, 1024);
	assert_int_equal(sim.calls[SIM_MAP_ANON], 0); /* handed over where they lie */
}

static void more_are_cut_at_1024(void **state)
{
	spread(MANY);
	assert_int_equal(advise(MANY), 0);
	assert_calls(3, 0);
	assert_all_done(MANY);
}

static void the_1025th_goes_alone(void **state)
{
	spread(1025);
	assert_int_equal(advise(1025), 0);
	assert_calls(1, 1);
	assert_all_done(1025);
}

static void one_range_goes_to_madvise_without_a_probe(void **state)
{
	sim_install("auto"); /* nothing decided */
	spread(1);
	assert_int_equal(advise(1), 0);
	assert_calls(0, 1);
	assert_int_equal(sim.total, 1);
	assert_all_done(1);
}

static void no_range_is_no_call(void **state)
{
	assert_int_equal(advise(0), 0);
	assert_int_equal(sim.total, 0);
	assert_int_equal(report.vectored_calls + report.single_calls + report.done_bytes, 0);
	assert_int_equal(pgw_advise(NULL, 0, PGW_FREE, NULL, NULL), 0);
}

static void neighbours_are_joined(void **state)
{
	for (size_t i = 0; i < 60; i++)
		ranges[i] = sim_range(i, 1);
	assert_int_equal(advise(60), 0);
	assert_calls(0, 1);
	assert_all_done(60);
	/* Pairs: half as many runs, on the stack or in scratch pages. */
	for (size_t i = 0; i < 2000; i++)
		ranges[i] = sim_range(i + i / 2, 1);
	assert_int_equal(advise(2000), 0);
	assert_calls(1, 0);
	assert_int_equal(report.vectored_ranges, 1000);
	assert_all_done(2000);
	assert_int_equal(sim.calls[SIM_MAP_ANON], 1);
	assert_int_equal(sim.calls[SIM_UNMAP], 1);
}

static void any_order_will_do(void **state)
{
	spread(MANY);
	for (size_t i = 0; i < MANY; i++) {
		size_t k = i * 7919 % MANY;
		struct pgw_range t = ranges[i];

		ranges[i] = ranges[k];
		ranges[k] = t;
	}
	assert_int_equal(advise(MANY), 0);
	assert_calls(3, 0);
	assert_all_done(MANY);
	for (size_t i = 0; i < MANY; i++)
		ranges[i] = sim_range(2 * (MANY - i), 1);
	assert_int_equal(advise(MANY), 0);
	assert_calls(3, 0);
	assert_all_done(MANY);
}

static void overlaps_count_once(void **state)
{
	ranges[0] = sim_range(10, 10);
	ranges[1] = sim_range(5, 10);
	ranges[2] = sim_range(12, 2);
	ranges[3] = sim_range(100, 1);
	assert_int_equal(advise(4), 0);
	assert_calls(1, 0);
	assert_int_equal(report.vectored_ranges, 2);
	assert_int_equal(report.done_bytes, 16 * SIM_PAGE);
	assert_all_done(4);
	for (size_t i = 5; i < 20; i++)
		assert_int_equal(sim.advised[i], 1);
}

static void large_ranges_go_alone(void **state)
{
	const size_t large = PGW_ADVISE_SINGLE_BYTES / SIM_PAGE;

	/* In a long array one of them is passed by ... */
	spread(200);
	ranges[200] = sim_range(1000, large);
	for (size_t i = 0; i < 200; i++)
		ranges[201 + i] = sim_range(2000 + 2 * i, 1);
	assert_int_equal(advise(401), 0);
	assert_calls(2, 1);
	assert_all_done(401);
	assert_int_equal(sim.calls[SIM_MAP_ANON], 0);
	/* ... many are taken out, for the others to be together. */
	for (size_t i = 0; i < 100; i++)
		ranges[i] = sim_range(100 * i, i % 2 ? large : large - 1);
	assert_int_equal(advise(100), 0);
	assert_calls(1, 50);
	assert_int_equal(report.vectored_ranges, 50);
	assert_all_done(100);
}

static void empty_and_odd_ranges(void **state)
{
	spread(8);
	ranges[1].len = 0;
	ranges[2].start += 1;
	ranges[3].len -= 1;
	ranges[4].start = UINT64_MAX - SIM_PAGE + 1; /* its end is past the last number */
	ranges[4].len = 2 * SIM_PAGE;
	ranges[5].len = 0;
	ranges[5].start += 7;
	assert_int_equal(advise(8), -EINVAL);
	assert_calls(1, 0);
	assert_int_equal(report.vectored_ranges, 3);
	assert_int_equal(report.failed_ranges, 3);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(status[i], i >= 2 && i <= 4 ? -EINVAL : 0);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(sim.advised[i], i == 0 || i == 12 || i == 14);
}

static void unknown_advice(void **state)
{
	spread(2);
	sim_forget();
	status[0] = 77;
	assert_int_equal(pgw_advise(ranges, 2, PGW_ADVICE_COUNT, status, NULL), -EINVAL);
	assert_int_equal(pgw_advise(ranges, 2, (enum pgw_advice) - 1, status, NULL), -EINVAL);
	assert_int_equal(status[0], 77);
	assert_int_equal(sim.total, 0);
}

static void advice_the_kernel_does_not_know(void **state)
{
	sim.knows[PGW_COLD] = false;
	spread(3);
	for (size_t n = 1; n <= 3; n++) {
		memset(status, 0x55, sizeof(status));
		assert_int_equal(pgw_advise(ranges, n, PGW_COLD, status, &report), -EOPNOTSUPP);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(status[i], -EOPNOTSUPP);
		assert_int_equal(report.failed_ranges, n);
	}
}

static void dump_advice_is_looped(void **state)
{
	spread(100);
	assert_int_equal(pgw_advise(ranges, 100, PGW_DONTDUMP, NULL, &report), 0);
	assert_int_equal(report.vectored_calls, 0);
	assert_int_equal(report.single_calls, 100);
}

/* --- one bad range --- */

static void one_bad_range(size_t n, size_t bad, uint8_t flag, int err)
{
	spread(n);
	sim_set_flags(2 * bad, 1, flag);
	assert_int_equal(advise(n), err);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(status[i], i == bad ? err : 0);
		assert_int_equal(sim.advised[2 * i], i != bad);
	}
	assert_int_equal(report.failed_ranges, 1);
	assert_int_equal(report.done_bytes, (n - 1) * SIM_PAGE);
	assert_int_equal(singles(), n - bad - 1 == 1 && bad ? 2 : 1);
	assert_true(is_vectored()); /* one bad range is not the end of it */
	sim_set_flags(2 * bad, 1, 0);
}

static void a_bad_range_costs_only_itself(void **state)
{
	static const size_t places[] = { 0, 1, 500, 999, 1000 };

	for (size_t i = 0; i < 5; i++) {
		one_bad_range(1001, places[i], SIM_LOCKED, -EINVAL);
		one_bad_range(1001, places[i], SIM_SEALED, -EPERM);
		one_bad_range(1001, places[i], SIM_UNMAPPED, -ENOMEM);
	}
	spread(1001);
	sim_set_flags(1000, 1, SIM_LOCKED);
	advise(1001);
	assert_calls(2, 1); /* before, the bad one, after */
	assert_int_equal(report.short_returns, 1);
}

static void every_second_range_is_bad(void **state)
{
	spread(1000);
	for (size_t i = 0; i < 1000; i += 2)
		sim_set_flags(2 * i, 1, SIM_LOCKED);
	assert_int_equal(advise(1000), -EINVAL);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(status[i], i % 2 ? 0 : -EINVAL);
	assert_true(is_vectored());
	sim_set_flags(0, SIM_PAGES, SIM_UNMAPPED);
	assert_int_equal(advise(1000), -ENOMEM);
	assert_int_equal(report.failed_ranges, 1000);
	assert_int_equal(report.done_bytes, 0);
	assert_true(is_vectored());
}

static void a_joined_run_is_taken_apart(void **state)
{
	size_t n = 0;

	spread(5);
	for (n = 5; n < 15; n++)
		ranges[n] = sim_range(100 + n, 1);
	ranges[n++] = sim_range(200, 1);
	sim_set_flags(107, 1, SIM_LOCKED);
	assert_int_equal(advise(n), -EINVAL);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(status[i], i == 7 ? -EINVAL : 0);
		if (i != 7)
			assert_true(sim_is_claimed(ranges[i]));
	}
	assert_int_equal(report.failed_ranges, 1);
	assert_int_equal(report.done_bytes, 15 * SIM_PAGE);
	assert_calls(1, 12); /* the run, its ten members, the last one alone */
}

static void members_of_a_bad_run_overlap(void **state)
{
	ranges[0] = sim_range(10, 4);
	ranges[1] = sim_range(12, 4); /* its last page is bad */
	ranges[2] = sim_range(12, 2);
	ranges[3] = sim_range(50, 1);
	sim_set_flags(15, 1, SIM_UNMAPPED);
	assert_int_equal(advise(4), -ENOMEM);
	assert_int_equal(status[0], 0);
	assert_int_equal(status[1], -ENOMEM);
	assert_int_equal(status[2], 0);
	assert_int_equal(status[3], 0);
	assert_int_equal(report.done_bytes, 5 * SIM_PAGE);
}

static void the_first_bad_range_is_the_result(void **state)
{
	ranges[0] = sim_range(100, 1);
	ranges[1] = sim_range(50, 1);
	ranges[2] = sim_range(10, 1);
	sim_set_flags(50, 1, SIM_SEALED);
	sim_set_flags(10, 1, SIM_UNMAPPED);
	assert_int_equal(advise(3), -EPERM); /* index 1, though 2 is met first */
	assert_int_equal(status[2], -ENOMEM);
}

static void kernel_addresses(void **state)
{
	spread(10);
	ranges[10] = (struct pgw_range){ UINT64_C(0xffff800000000000), SIM_PAGE };
	assert_int_equal(advise(11), -ENOMEM);
	for (size_t i = 0; i < 11; i++)
		assert_int_equal(status[i], i == 10 ? -ENOMEM : 0);
	assert_true(is_vectored());
}

/* --- no memory to sort in --- */

static void without_scratch_one_by_one(void **state)
{
	spread(500);
	ranges[3] = sim_range(2000, 1);
	ranges[7].len = 0;
	ranges[9].start++;
	sim_set_flags(40, 1, SIM_LOCKED);
	sim.max_maps = 0;
	assert_int_equal(advise(500), -EINVAL);
	assert_calls(0, 498);
	for (size_t i = 0; i < 500; i++)
		assert_int_equal(status[i], i == 9 || i == 20 ? -EINVAL : 0);
	assert_true(is_vectored());
}

/* --- a kernel that answers otherwise --- */

static int64_t script_answer;
static unsigned script_times; /* how often, then the kernel itself */

static bool script(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	if (call != SIM_PROCESS_MADVISE || !script_times)
		return false;
	script_times--;
	*answer = script_answer;
	return true;
}

static void answer_next(int64_t answer, unsigned times)
{
	script_answer = answer;
	script_times = times;
	sim.intercept = script;
}

static void answers_that_end_it(void **state)
{
	static const struct {
		int64_t answer;
		const char *reason;
	} cases[] = {
		{ -ENOSYS, "ENOSYS" },
		{ -EBADF, "EBADF" },
		{ -ESRCH, "ESRCH" },
		{ -EPERM, "EPERM" },
		{ -EACCES, "EACCES" },
		{ -EFAULT, "EFAULT" },
		{ -EINVAL, "EINVAL" },
		{ -ENOMEM, "ENOMEM" },
		{ -EIO, "not expected" },
		{ 0, "answers 0" },
		{ (int64_t)1 << 40, "more bytes" },
		{ INT64_MAX, "more bytes" },
		{ INT64_MIN, "not expected" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fresh(NULL);
		spread(1000);
		answer_next(cases[i].answer, UINT32_MAX);
		assert_int_equal(advise(1000), 0);
		assert_all_done(1000);
		assert_true(vectors() <= 3);
		assert_false(is_vectored());
		assert_reason_has(cases[i].reason);
		/* And it stays that way. */
		sim.intercept = NULL;
		assert_int_equal(advise(1000), 0);
		assert_calls(0, 1000);
	}
}

static void the_end_is_noted(void **state)
{
	struct pgw_stats s;

	spread(100);
	answer_next(-ENOSYS, UINT32_MAX);
	advise(100);
	advise(100);
	pgw_stats_get(&s);
	assert_string_equal(s.fallback[0].what, "process_madvise DONTNEED");
	assert_non_null(strstr(s.fallback[0].reason, "ENOSYS"));
	assert_int_equal(s.fallback[0].count, 1);
	assert_null(s.fallback[1].reason);
	assert_int_equal(s.advice[PGW_DONTNEED].vectored_calls, 1);
	assert_int_equal(s.advice[PGW_DONTNEED].single_calls, 200);
	assert_int_equal(s.advice[PGW_DONTNEED].bytes, 200 * SIM_PAGE);
}

static void other_advice_is_not_concerned(void **state)
{
	struct pgw_probe p;

	spread(10);
	answer_next(-EPERM, UINT32_MAX);
	advise(10);
	sim.intercept = NULL;
	assert_int_equal(pgw_probe(PGW_FREE, &p), 0);
	assert_int_equal(p.route, PGW_ROUTE_VECTORED);
}

/* A refusal that madvise does not confirm may be a race with another thread. */
static void a_passing_refusal_is_not_the_end(void **state)
{
	static const int errors[] = { EINVAL, ENOMEM };

	for (size_t i = 0; i < 2; i++) {
		spread(1000);
		answer_next(-errors[i], 1);
		assert_int_equal(advise(1000), 0);
		assert_all_done(1000);
		assert_calls(2, 1);
		assert_true(is_vectored());
	}
}

static void again_is_tried_again(void **state)
{
	spread(1000);
	answer_next(-EAGAIN, 5);
	assert_int_equal(advise(1000), 0);
	assert_calls(6, 0);
	answer_next(-EINTR, 5);
	assert_int_equal(advise(1000), 0);
	assert_calls(6, 0);
	/* But not for ever; nor is it the end. */
	answer_next(-EAGAIN, UINT32_MAX);
	assert_int_equal(advise(1000), 0);
	assert_all_done(1000);
	assert_true(vectors() <= 20);
	assert_true(is_vectored());
}

static void short_returns(int64_t bytes, size_t settled)
{
	spread(1000);
	answer_next(bytes, 1);
	assert_int_equal(advise(1000), 0);
	assert_all_done(1000);
	assert_int_equal(report.short_returns, 1);
	/* What was not counted is done again, alone; the rest in one more call. */
	assert_calls(2, 1);
	assert_int_equal(report.vectored_ranges, 1000 + (1000 - settled - 1));
}

static void short_returns_are_resumed(void **state)
{
	short_returns(500 * SIM_PAGE, 500);
	short_returns(500 * SIM_PAGE + 1, 500);
	short_returns(501 * SIM_PAGE - 1, 500);
	short_returns(1, 0);
	short_returns(997 * SIM_PAGE, 997);
}

static void always_short(void **state)
{
	spread(1000);
	answer_next(SIM_PAGE, UINT32_MAX);
	assert_int_equal(advise(1000), 0);
	assert_all_done(1000);
	assert_true(vectors() <= 3);
	assert_true(is_vectored()); /* next time it may be better */
}

static void always_one_byte(void **state)
{
	spread(1000);
	answer_next(1, UINT32_MAX);
	assert_int_equal(advise(1000), 0);
	assert_all_done(1000);
}

static bool madvise_again(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	if (call != SIM_MADVISE || !script_times)
		return false;
	script_times--;
	*answer = -EAGAIN;
	return true;
}

static void madvise_is_tried_again(void **state)
{
	spread(1);
	script_times = 3;
	sim.intercept = madvise_again;
	assert_int_equal(advise(1), 0);
	assert_calls(0, 4);
	script_times = UINT32_MAX;
	assert_int_equal(advise(1), -EAGAIN);
	assert_true(singles() < 100);
	assert_int_equal(status[0], -EAGAIN);
	assert_int_equal(report.done_bytes, 0);
}

/* --- the descriptor --- */

static void by_pidfd(void)
{
	struct pgw_probe p;

	sim_install("auto");
	sim.has_pidfd_self = false;
	assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
	assert_int_equal(p.route, PGW_ROUTE_VECTORED);
	assert_int_equal(p.self, PGW_SELF_PIDFD);
	assert_int_equal(sim.pidfds_open, 1);
	spread(1000);
	assert_int_equal(advise(1000), 0);
	assert_calls(1, 0);
}

static void a_child_opens_its_own(void **state)
{
	by_pidfd();
	sim.pid++;
	assert_int_equal(advise(1000), 0);
	assert_calls(1, 0);
	assert_int_equal(sim.calls[SIM_PIDFD_OPEN], 1);
	assert_int_equal(sim.calls[SIM_CLOSE], 0); /* the inherited number may be somebody's */
	assert_all_done(1000);
	assert_int_equal(advise(1000), 0);
	assert_int_equal(sim.calls[SIM_PIDFD_OPEN], 0);
}

static void a_closed_descriptor_is_replaced(void **state)
{
	by_pidfd();
	sim_steal_pidfd(0);
	assert_int_equal(advise(1000), 0);
	assert_calls(2, 0);
	assert_all_done(1000);
	assert_true(is_vectored());
}

static void a_reused_number_is_replaced(void **state)
{
	by_pidfd();
	sim_steal_pidfd(1);
	assert_int_equal(advise(1000), 0);
	assert_calls(2, 1); /* EINVAL, which madvise does not confirm; then the rest */
	assert_all_done(1000);
	assert_true(is_vectored());
	assert_int_equal(sim.calls[SIM_CLOSE], 0);
}

static void a_program_that_closes_everything_all_the_time(void **state)
{
	by_pidfd();
	for (unsigned i = 0; i < 50; i++) {
		sim_steal_pidfd(0);
		assert_int_equal(advise(1000), 0);
		assert_all_done(1000);
	}
	assert_false(is_vectored());
}

static void no_descriptor_left(void **state)
{
	by_pidfd();
	sim.pid++;
	sim.intercept = NULL;
	sim.fail_at = 1; /* pidfd_open */
	sim.fail_errno = EMFILE;
	assert_int_equal(advise(1000), 0);
	assert_true(sim.failed);
	assert_calls(0, 1000);
	assert_true(is_vectored()); /* next time there may be one */
	sim.fail_at = 0;
	assert_int_equal(advise(1000), 0);
	assert_calls(1, 0);
}

static void cold_never_by_pidfd(void **state)
{
	sim_install("auto");
	sim.has_pidfd_self = false;
	spread(100);
	assert_int_equal(pgw_advise(ranges, 100, PGW_COLD, NULL, &report), 0);
	assert_int_equal(report.vectored_calls, 0);
	assert_int_equal(sim.calls[SIM_PIDFD_OPEN], 0);
}

/* --- modes --- */

static void mode_loop(void **state)
{
	sim_install("loop");
	spread(1000);
	assert_int_equal(advise(1000), 0);
	assert_int_equal(vectors(), 0);
	assert_int_equal(singles(), 1001); /* with the probe of madvise */
	assert_int_equal(report.single_calls, 1000);
	assert_all_done(1000);
}

static void mode_off(void **state)
{
	sim_install("off");
	spread(1000);
	assert_int_equal(advise(1000), 0);
	assert_calls(0, 1000);
	assert_int_equal(sim.total, 1000);
	for (size_t i = 0; i < 500; i++)
		ranges[2 * i + 1] = sim_range(4 * i + 1, 1);
	assert_int_equal(pgw_advise(ranges, 1000, PGW_DONTNEED, status, NULL), 0);
}

static void mode_vectored(void **state)
{
	sim_install("vectored");
	spread(1000);
	assert_int_equal(advise(1000), 0);
	assert_calls(1, 0);
	assert_int_equal(sim.total, 1);
	/* An older kernel: a pidfd, found out by doing. */
	sim_install("vectored");
	sim.has_pidfd_self = false;
	assert_int_equal(advise(1000), 0);
	assert_calls(2, 0);
	assert_int_equal(advise(1000), 0);
	assert_calls(1, 0);
	assert_int_equal(sim.calls[SIM_PIDFD_OPEN], 0);
	/* One that does not take it: the loop. */
	sim_install("vectored");
	sim.has_pidfd_self = false;
	sim.takes_self[PGW_DONTNEED] = false;
	assert_int_equal(advise(1000), 0);
	assert_all_done(1000);
	assert_false(is_vectored());
	assert_true(vectors() <= 4);
}

/* --- every call can fail --- */

/* Whatever failed: no status may claim what no call has said. */
static void assert_truthful(size_t n, int result)
{
	int first = 0;

	for (size_t i = n; i-- > 0;) {
		if (status[i])
			first = status[i];
		else
			assert_true(!ranges[i].len || sim_is_claimed(ranges[i]));
	}
	assert_int_equal(result, first);
}

static void sweep(const char *mode, bool pidfd_self, int err)
{
	unsigned k = 0;

	do {
		int r;

		sim_install(mode);
		sim.has_pidfd_self = pidfd_self;
		for (size_t i = 0; i < 300; i++)
			ranges[i] = sim_range((i * 37 % 300) * 2 + i % 2, 1 + i % 2);
		sim_set_flags(50, 2, SIM_LOCKED);
		sim_set_flags(250, 1, SIM_UNMAPPED);
		sim.fail_at = ++k;
		sim.fail_errno = err;
		memset(status, 0x55, sizeof(status));
		r = pgw_advise(ranges, 300, PGW_DONTNEED, status, &report);
		assert_truthful(300, r);
		assert_true(sim.total < 2000);
		/* One failed call costs one run at most, or the batching; or it was the probe's,
		 * and looks like a kernel without madvise. */
		if (r != -EOPNOTSUPP && err != EAGAIN && err != EINTR)
			assert_true(report.failed_ranges <= 12);
	} while (sim.failed);
	assert_true(k > 5);
}

static void the_nth_call_fails(void **state)
{
	static const int errors[] = { EPERM, ENOENT, ESRCH, EINTR, EIO, EBADF, EAGAIN, ENOMEM,
		EACCES, EFAULT, EBUSY, EINVAL, ENFILE, EMFILE, ENOSPC, ENOSYS, EOPNOTSUPP };

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		sweep("auto", true, errors[i]);
		sweep("auto", false, errors[i]);
		sweep("loop", true, errors[i]);
		sweep("vectored", false, errors[i]);
		sweep("off", true, errors[i]);
	}
}

/* --- against a plain loop --- */

static uint32_t seed;

static uint32_t pick(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

/* What one madvise of this range alone would say. A joined call must not say anything else. */
static int alone(struct pgw_range r)
{
	int err = 0;

	if (!r.len)
		return 0;
	if ((r.start | r.len) % SIM_PAGE)
		return -EINVAL;
	for (uint64_t p = (r.start - SIM_BASE) / SIM_PAGE; r.len; p++, r.len -= SIM_PAGE) {
		if (sim.flags[p] & SIM_UNMAPPED)
			err = -ENOMEM;
		else if (sim.flags[p])
			return sim.flags[p] & SIM_SEALED ? -EPERM : -EINVAL;
	}
	return err;
}

static void like_a_loop(void **state)
{
	for (uint32_t round = 0; round < 3000; round++) {
		size_t n = 1;

		seed = round;
		sim_set_flags(0, SIM_PAGES, 0);
		for (uint32_t bad = pick(6); bad > 0; bad--)
			sim_set_flags(pick(600), 1 + pick(3), (uint8_t)(1u << pick(3)));
		n += pick(pick(3) ? 70 : 400);
		for (size_t i = 0; i < n; i++) {
			ranges[i] = sim_range(pick(600), pick(pick(20) ? 4 : 80));
			if (!pick(50))
				ranges[i].start += pick(SIM_PAGE);
		}
		if (pick(2)) {
			n = pgw_range_normalize(ranges, n);
			if (!n)
				continue;
		}
		advise(n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(status[i], alone(ranges[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_thousand_ranges_are_one_call, fresh),
		cmocka_unit_test_setup(more_are_cut_at_1024, fresh),
		cmocka_unit_test_setup(the_1025th_goes_alone, fresh),
		cmocka_unit_test_setup(one_range_goes_to_madvise_without_a_probe, fresh),
		cmocka_unit_test_setup(no_range_is_no_call, fresh),
		cmocka_unit_test_setup(neighbours_are_joined, fresh),
		cmocka_unit_test_setup(any_order_will_do, fresh),
		cmocka_unit_test_setup(overlaps_count_once, fresh),
		cmocka_unit_test_setup(large_ranges_go_alone, fresh),
		cmocka_unit_test_setup(empty_and_odd_ranges, fresh),
		cmocka_unit_test_setup(unknown_advice, fresh),
		cmocka_unit_test_setup(advice_the_kernel_does_not_know, fresh),
		cmocka_unit_test_setup(dump_advice_is_looped, fresh),
		cmocka_unit_test_setup(a_bad_range_costs_only_itself, fresh),
		cmocka_unit_test_setup(every_second_range_is_bad, fresh),
		cmocka_unit_test_setup(a_joined_run_is_taken_apart, fresh),
		cmocka_unit_test_setup(members_of_a_bad_run_overlap, fresh),
		cmocka_unit_test_setup(the_first_bad_range_is_the_result, fresh),
		cmocka_unit_test_setup(kernel_addresses, fresh),
		cmocka_unit_test_setup(without_scratch_one_by_one, fresh),
		cmocka_unit_test_setup(answers_that_end_it, fresh),
		cmocka_unit_test_setup(the_end_is_noted, fresh),
		cmocka_unit_test_setup(other_advice_is_not_concerned, fresh),
		cmocka_unit_test_setup(a_passing_refusal_is_not_the_end, fresh),
		cmocka_unit_test_setup(again_is_tried_again, fresh),
		cmocka_unit_test_setup(short_returns_are_resumed, fresh),
		cmocka_unit_test_setup(always_short, fresh),
		cmocka_unit_test_setup(always_one_byte, fresh),
		cmocka_unit_test_setup(madvise_is_tried_again, fresh),
		cmocka_unit_test_setup(a_child_opens_its_own, fresh),
		cmocka_unit_test_setup(a_closed_descriptor_is_replaced, fresh),
		cmocka_unit_test_setup(a_reused_number_is_replaced, fresh),
		cmocka_unit_test_setup(a_program_that_closes_everything_all_the_time, fresh),
		cmocka_unit_test_setup(no_descriptor_left, fresh),
		cmocka_unit_test_setup(cold_never_by_pidfd, fresh),
		cmocka_unit_test_setup(mode_loop, fresh),
		cmocka_unit_test_setup(mode_off, fresh),
		cmocka_unit_test_setup(mode_vectored, fresh),
		cmocka_unit_test_setup(the_nth_call_fails, fresh),
		cmocka_unit_test_setup(like_a_loop, fresh),
	};

	sim_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
