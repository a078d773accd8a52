/* SPDX-License-Identifier: BSD-2-Clause
 *
 * probe.c - what is decided about a simulated kernel, and why.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pagewise/probe.h>
#include <pagewise/stats.h>

#include "simkernel.h"

static const enum pgw_advice all[] = { PGW_DONTNEED, PGW_FREE, PGW_DONTNEED_LOCKED, PGW_COLD,
	PGW_PAGEOUT, PGW_WILLNEED, PGW_POPULATE_READ, PGW_POPULATE_WRITE };

#define ALL (sizeof(all) / sizeof(*all))

static int fresh(void **state)
{
	sim_install("auto");
	return 0;
}

static struct pgw_probe probe(enum pgw_advice advice)
{
	struct pgw_probe p;

	assert_int_equal(pgw_probe(advice, &p), 0);
	assert_non_null(p.reason);
	assert_null(strchr(p.reason, '\n'));
	return p;
}

static void assert_probe(
    enum pgw_advice advice, enum pgw_route route, enum pgw_self self, int error, const char *reason)
{
	struct pgw_probe p = probe(advice);

	if (p.route != route || p.self != self || p.error != error || !strstr(p.reason, reason))
		fail_msg("%s: %s, %s, error %d, %s", pgw_advice_name(advice),
		    pgw_route_name(p.route), pgw_self_name(p.self), p.error, p.reason);
}

static bool has_effect(enum pgw_advice a)
{
	return a == PGW_DONTNEED || a == PGW_DONTNEED_LOCKED || a == PGW_POPULATE_READ ||
	       a == PGW_POPULATE_WRITE;
}

static void a_kernel_that_can_do_everything(void **state)
{
	for (size_t i = 0; i < ALL; i++) {
		assert_probe(all[i], PGW_ROUTE_VECTORED, PGW_SELF_PIDFD_SELF, 0, "PIDFD_SELF");
		assert_int_equal(probe(all[i]).proven, has_effect(all[i]));
	}
	assert_probe(PGW_DONTDUMP, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "does not take");
	assert_probe(PGW_DODUMP, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "does not take");
	assert_probe(PGW_COLLAPSE, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "too large");
	assert_true(pgw_dontneed_zeroes());
	assert_int_equal(sim.calls[SIM_PIDFD_OPEN], 0);
}

static void each_is_asked_once(void **state)
{
	struct pgw_stats s;
	unsigned total;

	probe(PGW_DONTNEED);
	total = sim.total;
	assert_int_equal(sim.calls[SIM_PROCESS_MADVISE], 2);
	assert_int_equal(sim.calls[SIM_MADVISE], 1);
	assert_int_equal(sim.calls[SIM_MAP_ANON], 1);
	assert_int_equal(sim.calls[SIM_UNMAP], 1);
	probe(PGW_DONTNEED);
	assert_int_equal(sim.total, total);
	pgw_stats_get(&s);
	assert_int_equal(s.probe_calls, total);
	assert_null(s.fallback[0].reason);
}

static void no_such_advice(void **state)
{
	struct pgw_probe p = { .error = 77 };

	assert_int_equal(pgw_probe(PGW_ADVICE_COUNT, &p), -EINVAL);
	assert_int_equal(pgw_probe((enum pgw_advice) - 1, &p), -EINVAL);
	assert_int_equal(p.error, 77);
	assert_int_equal(sim.total, 0);
}

/* --- older kernels --- */

static void linux_6_13(void **state)
{
	sim.has_pidfd_self = false;
	for (size_t i = 0; i < ALL; i++) {
		switch (all[i]) {
		case PGW_COLD:
		case PGW_PAGEOUT:
		case PGW_WILLNEED:
			assert_probe(all[i], PGW_ROUTE_LOOP, PGW_SELF_NONE, EBADF, "EBADF");
			break;
		default:
			assert_probe(all[i], PGW_ROUTE_VECTORED, PGW_SELF_PIDFD, 0, "pidfd");
		}
	}
	assert_int_equal(sim.pidfds_open, 1); /* one for all */
	for (size_t i = 0; i < sim.logged; i++)
		if (sim.log[i].call == SIM_PROCESS_MADVISE && sim.log[i].args.fd >= 0)
			assert_true(sim.log[i].args.fd >= 512);
}

static void linux_6_1(void **state)
{
	sim.has_pidfd_self = false;
	sim.takes_self[PGW_DONTNEED] = sim.takes_self[PGW_FREE] = false;
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, EINVAL, "EINVAL");
	assert_true(probe(PGW_DONTNEED).proven); /* of madvise */
	assert_probe(PGW_FREE, PGW_ROUTE_LOOP, PGW_SELF_NONE, EINVAL, "EINVAL");
	assert_int_equal(sim.pidfds_open, 0); /* none is kept for nothing */
	assert_true(pgw_dontneed_zeroes());
}

static void linux_5_4(void **state)
{
	sim.has_process_madvise = false;
	sim.knows[PGW_POPULATE_READ] = sim.knows[PGW_COLLAPSE] = false;
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, ENOSYS, "ENOSYS");
	assert_probe(PGW_POPULATE_READ, PGW_ROUTE_NONE, PGW_SELF_NONE, EINVAL, "does not know");
	assert_probe(PGW_COLLAPSE, PGW_ROUTE_NONE, PGW_SELF_NONE, EINVAL, "does not know");
}

/* --- filters --- */

static enum sim_call filter_call;
static int64_t filter_answer;
static unsigned filter_times;

static bool filter(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	if (call != filter_call || !filter_times)
		return false;
	filter_times--;
	*answer = filter_answer;
	return true;
}

static void answer(enum sim_call call, int64_t with, unsigned times)
{
	filter_call = call;
	filter_answer = with;
	filter_times = times;
	sim.intercept = filter;
}

static void filters_on_process_madvise(void **state)
{
	static const struct {
		int64_t answer;
		int error;
		const char *reason;
	} cases[] = {
		{ -ENOSYS, ENOSYS, "ENOSYS" },
		{ -EPERM, EPERM, "EPERM" },
		{ -EACCES, EACCES, "EACCES" },
		{ -EINVAL, EINVAL, "EINVAL" },
		{ -EBADF, EBADF, "EBADF" },
		{ -ESRCH, ESRCH, "ESRCH" },
		{ -EIO, EIO, "not expected" },
		{ 0, 0, "answers 0 and does nothing" },
		{ 1, 0, "stops short" },
		{ (int64_t)SIM_PAGE * 3, 0, "more bytes" },
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		fresh(NULL);
		answer(SIM_PROCESS_MADVISE, cases[c].answer, UINT32_MAX);
		for (size_t i = 0; i < ALL; i++)
			assert_probe(
			    all[i], PGW_ROUTE_LOOP, PGW_SELF_NONE, cases[c].error, cases[c].reason);
		assert_int_equal(sim.pidfds_open, 0);
	}
}

/* The sum that was asked for, and nothing done. */
static void pretended_success(void **state)
{
	answer(SIM_PROCESS_MADVISE, 2 * SIM_PAGE, UINT32_MAX);
	for (size_t i = 0; i < ALL; i++)
		assert_probe(all[i], PGW_ROUTE_LOOP, PGW_SELF_NONE, 0,
		    has_effect(all[i]) ? "does nothing" : "misaligned");
}

/* Effect on the first of two ranges only. */
static bool half(enum sim_call call, const struct sim_args *args, int64_t *ret)
{
	if (call != SIM_PROCESS_MADVISE || args->n != 2)
		return false;
	memset(args->v[0].iov_base, 0, args->v[0].iov_len);
	*ret = 2 * SIM_PAGE;
	return true;
}

/* Effect on the page beside, too. */
static bool too_wide(enum sim_call call, const struct sim_args *args, int64_t *ret)
{
	if (call != SIM_PROCESS_MADVISE || args->n != 2)
		return false;
	for (size_t i = 0; i < 2; i++)
		memset(args->v[i].iov_base, 0, 2 * args->v[i].iov_len);
	*ret = 2 * SIM_PAGE;
	return true;
}

static void effects_are_looked_at(void **state)
{
	sim.intercept = half;
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "does nothing");
	sim.intercept = too_wide;
	assert_probe(PGW_DONTNEED_LOCKED, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "does nothing");
}

static void filters_on_madvise(void **state)
{
	answer(SIM_MADVISE, -ENOSYS, UINT32_MAX);
	assert_probe(PGW_DONTNEED, PGW_ROUTE_NONE, PGW_SELF_NONE, ENOSYS, "ENOSYS");
	answer(SIM_MADVISE, -EPERM, UINT32_MAX);
	assert_probe(PGW_FREE, PGW_ROUTE_NONE, PGW_SELF_NONE, EPERM, "not permitted");
	answer(SIM_MADVISE, -EACCES, UINT32_MAX);
	assert_probe(PGW_COLD, PGW_ROUTE_NONE, PGW_SELF_NONE, EACCES, "not permitted");
	answer(SIM_MADVISE, -EIO, UINT32_MAX);
	assert_probe(PGW_PAGEOUT, PGW_ROUTE_LOOP, PGW_SELF_NONE, EIO, "not expected");
	answer(SIM_MADVISE, -EBADF, UINT32_MAX);
	assert_probe(PGW_WILLNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, EBADF, "without swap");
}

static void a_pidfd_that_cannot_be_had(void **state)
{
	sim.has_pidfd_self = false;
	answer(SIM_PIDFD_OPEN, -EPERM, UINT32_MAX);
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, EPERM, "pidfd_open is refused");
	/* For want of descriptors it is asked again. */
	answer(SIM_PIDFD_OPEN, -EMFILE, 1);
	assert_probe(PGW_FREE, PGW_ROUTE_LOOP, PGW_SELF_NONE, EMFILE, "no free descriptor");
	assert_probe(PGW_FREE, PGW_ROUTE_VECTORED, PGW_SELF_PIDFD, 0, "pidfd");
}

/* With a low RLIMIT_NOFILE the high numbers are not to be had; 0 to 9 are never taken. */
static void low_limits_on_descriptors(void **state)
{
	sim.has_pidfd_self = false;
	answer(SIM_FD_MOVE, -EINVAL, 2);
	assert_probe(PGW_DONTNEED, PGW_ROUTE_VECTORED, PGW_SELF_PIDFD, 0, "pidfd");
	for (size_t i = 0; i < sim.logged; i++)
		if (sim.log[i].call == SIM_PROCESS_MADVISE && sim.log[i].args.fd >= 0)
			assert_int_equal(sim.log[i].args.fd, 10);
	fresh(NULL);
	sim.has_pidfd_self = false;
	answer(SIM_FD_MOVE, -EINVAL, UINT32_MAX);
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, EMFILE, "no free descriptor");
	assert_int_equal(sim.pidfds_open, 0);
}

/* --- circumstances --- */

static void an_emulator_that_does_nothing(void **state)
{
	sim.does_nothing = true;
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "emulator");
	assert_false(probe(PGW_DONTNEED).proven);
	assert_false(pgw_dontneed_zeroes());
}

static void locked_memory(void **state)
{
	sim.born_locked = true;
	for (size_t i = 0; i < ALL; i++)
		assert_int_equal(probe(all[i]).route, PGW_ROUTE_VECTORED);
	assert_true(pgw_dontneed_zeroes());
}

static void no_memory_to_probe_in(void **state)
{
	sim.max_maps = 0;
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, ENOMEM, "no memory");
	assert_probe(PGW_COLLAPSE, PGW_ROUTE_LOOP, PGW_SELF_NONE, ENOMEM, "no memory");
	assert_true(pgw_dontneed_zeroes());
	sim.max_maps = 4;
	assert_int_equal(probe(PGW_DONTNEED).route, PGW_ROUTE_VECTORED);
}

static void a_shortage_is_not_the_last_word(void **state)
{
	answer(SIM_MADVISE, -EAGAIN, 1);
	assert_probe(PGW_DONTNEED, PGW_ROUTE_LOOP, PGW_SELF_NONE, EAGAIN, "asked again");
	assert_int_equal(probe(PGW_DONTNEED).route, PGW_ROUTE_VECTORED);
	answer(SIM_PROCESS_MADVISE, -ENOMEM, 1);
	assert_probe(PGW_FREE, PGW_ROUTE_LOOP, PGW_SELF_NONE, ENOMEM, "asked again");
	assert_int_equal(probe(PGW_FREE).route, PGW_ROUTE_VECTORED);
}

static void the_reason_is_noted(void **state)
{
	struct pgw_stats s;

	answer(SIM_PROCESS_MADVISE, -EPERM, UINT32_MAX);
	probe(PGW_FREE);
	pgw_stats_get(&s);
	assert_string_equal(s.fallback[0].what, "process_madvise FREE");
	assert_string_equal(s.fallback[0].reason, probe(PGW_FREE).reason);
	assert_int_equal(s.fallback[0].count, 1);
}

/* --- modes --- */

static void mode_off_asks_nothing(void **state)
{
	sim_install("off");
	assert_int_equal(pgw_kernel_mode(), PGW_KERNEL_OFF);
	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		assert_probe(
		    (enum pgw_advice)a, PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "PAGEWISE_KERNEL=off");
	assert_true(pgw_dontneed_zeroes());
	assert_int_equal(sim.total, 0);
}

static void mode_vectored_asks_nothing(void **state)
{
	sim_install("vectored");
	for (size_t i = 0; i < ALL; i++)
		assert_probe(
		    all[i], PGW_ROUTE_VECTORED, PGW_SELF_PIDFD_SELF, 0, "PAGEWISE_KERNEL=vectored");
	assert_int_equal(probe(PGW_DONTDUMP).route, PGW_ROUTE_LOOP);
	assert_int_equal(probe(PGW_COLLAPSE).route, PGW_ROUTE_LOOP);
	assert_int_equal(sim.total, 0);
}

static void mode_loop_asks_madvise_only(void **state)
{
	sim_install("loop");
	for (size_t i = 0; i < ALL; i++)
		assert_probe(all[i], PGW_ROUTE_LOOP, PGW_SELF_NONE, 0, "PAGEWISE_KERNEL=loop");
	assert_true(probe(PGW_DONTNEED).proven);
	assert_int_equal(sim.calls[SIM_PROCESS_MADVISE], 0);
	assert_int_equal(sim.calls[SIM_PIDFD_OPEN], 0);
}

static void unknown_mode_counts_as_auto(void **state)
{
	sim_install("Loop");
	assert_int_equal(pgw_kernel_mode(), PGW_KERNEL_AUTO);
	sim_install("");
	assert_int_equal(pgw_kernel_mode(), PGW_KERNEL_AUTO);
}

static void names(void **state)
{
	assert_string_equal(pgw_advice_name(PGW_DONTNEED_LOCKED), "DONTNEED_LOCKED");
	assert_string_equal(pgw_advice_name(PGW_DODUMP), "DODUMP");
	assert_null(pgw_advice_name(PGW_ADVICE_COUNT));
	assert_string_equal(pgw_route_name(PGW_ROUTE_VECTORED), "vectored");
	assert_null(pgw_route_name((enum pgw_route)3));
	assert_string_equal(pgw_kernel_mode_name(PGW_KERNEL_OFF), "off");
	assert_null(pgw_kernel_mode_name((enum pgw_kernel_mode)4));
	assert_string_equal(pgw_self_name(PGW_SELF_PIDFD), "pidfd");
	assert_null(pgw_self_name((enum pgw_self)3));
	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		assert_non_null(pgw_advice_name((enum pgw_advice)a));
}

/* Whatever fails: an answer with a reason, the scratch pages are gone, and no descriptor is left
 * that is not in use. */
static void the_nth_call_fails(void **state)
{
	static const int errors[] = { EPERM, EINVAL, ENOMEM, ENOSYS, EAGAIN, EMFILE };

	for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); e++) {
		for (size_t i = 0; i < ALL; i++) {
			unsigned k = 0;

			do {
				struct pgw_probe p;

				sim_install("auto");
				sim.has_pidfd_self = k % 2;
				sim.fail_at = ++k / 2 + 1;
				sim.fail_errno = errors[e];
				p = probe(all[i]);
				assert_int_equal(sim.calls[SIM_UNMAP],
				    sim.calls[SIM_MAP_ANON] - (sim.log[0].answer != 0 ? 1u : 0u));
				if (sim.log[sim.logged - 1].call != SIM_CLOSE)
					assert_true(
					    sim.pidfds_open <= (p.self == PGW_SELF_PIDFD) + 1);
			} while (sim.failed || k < 8);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_kernel_that_can_do_everything, fresh),
		cmocka_unit_test_setup(each_is_asked_once, fresh),
		cmocka_unit_test_setup(no_such_advice, fresh),
		cmocka_unit_test_setup(linux_6_13, fresh),
		cmocka_unit_test_setup(linux_6_1, fresh),
		cmocka_unit_test_setup(linux_5_4, fresh),
		cmocka_unit_test_setup(filters_on_process_madvise, fresh),
		cmocka_unit_test_setup(pretended_success, fresh),
		cmocka_unit_test_setup(effects_are_looked_at, fresh),
		cmocka_unit_test_setup(filters_on_madvise, fresh),
		cmocka_unit_test_setup(a_pidfd_that_cannot_be_had, fresh),
		cmocka_unit_test_setup(low_limits_on_descriptors, fresh),
		cmocka_unit_test_setup(an_emulator_that_does_nothing, fresh),
		cmocka_unit_test_setup(locked_memory, fresh),
		cmocka_unit_test_setup(no_memory_to_probe_in, fresh),
		cmocka_unit_test_setup(a_shortage_is_not_the_last_word, fresh),
		cmocka_unit_test_setup(the_reason_is_noted, fresh),
		cmocka_unit_test_setup(mode_off_asks_nothing, fresh),
		cmocka_unit_test_setup(mode_vectored_asks_nothing, fresh),
		cmocka_unit_test_setup(mode_loop_asks_madvise_only, fresh),
		cmocka_unit_test_setup(unknown_mode_counts_as_auto, fresh),
		cmocka_unit_test(names),
		cmocka_unit_test_setup(the_nth_call_fails, fresh),
	};

	sim_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
