/* SPDX-License-Identifier: BSD-2-Clause
 *
 * seccomp.c - under real system call filters, as containers and sandboxes install them: memory is
 * given back all the same, and the reason is stated. Each case is a process of its own.
 */
#include <errno.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagewise/advise.h>

#include "probe.h"
#include "sys.h"

#define RANGES 200

static struct pgw_range ranges[RANGES];
static unsigned char *area;

static void fill(void)
{
	memset(area, 0xa5, 2 * RANGES * pgw_page_size());
}

static bool all(const unsigned char *p, unsigned char value)
{
	for (size_t i = 0; i < pgw_page_size(); i++)
		if (p[i] != value)
			return false;
	return true;
}

/* Purge all ranges; were they, and nothing else? */
static bool purges(struct pgw_advise_report *report)
{
	size_t page = pgw_page_size();

	fill();
	if (pgw_advise(ranges, RANGES, PGW_DONTNEED, NULL, report))
		return false;
	for (size_t i = 0; i < RANGES; i++)
		if (!all(area + 2 * i * page, 0) || !all(area + (2 * i + 1) * page, 0xa5))
			return false;
	return true;
}

static void install(uint32_t action, const char *name, int advice)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	struct scmp_arg_cmp if_advice = {
		.arg = 3,
		.op = SCMP_CMP_EQ,
		.datum_a = (scmp_datum_t)advice,
	};
	int nr = seccomp_syscall_resolve_name(name);
	int err;

	/* The library may be older than the call; its number is the same everywhere. */
	if (nr == __NR_SCMP_ERROR)
		nr = !strcmp(name, "process_madvise") ? 440 : 434;
	err = seccomp_rule_add_array(ctx, action, nr, advice >= 0, &if_advice);
	if (!ctx || err || seccomp_load(ctx))
		_exit(77);
	seccomp_release(ctx);
}

/* What a child does: 0 is success. Returns the wait status. */
static int in_child(int (*body)(uint32_t arg), uint32_t arg)
{
	pid_t pid = fork();
	int ws;

	if (!pid)
		_exit(body(arg));
	assert_int_equal(waitpid(pid, &ws, 0), pid);
	return ws;
}

static void assert_child(int (*body)(uint32_t arg), uint32_t arg)
{
	int ws = in_child(body, arg);

	if (ws)
		fail_msg("argument %u: wait status 0x%x", arg, (unsigned)ws);
}

static bool works_and_says(const char *why, enum pgw_route route)
{
	struct pgw_advise_report report;
	struct pgw_probe p;

	if (!purges(&report)) {
		fprintf(stderr, "not purged\n");
		return false;
	}
	pgw_probe(PGW_DONTNEED, &p);
	if (p.route != route || !strstr(p.reason, why)) {
		fprintf(stderr, "%s: %s\n", pgw_route_name(p.route), p.reason);
		return false;
	}
	/* And now it is settled: no more tries. */
	return purges(&report) && (route != PGW_ROUTE_LOOP || !report.vectored_calls);
}

/* --- the call answers an error --- */

static const struct {
	int error;
	const char *name;
} errors[] = {
	{ ENOSYS, "ENOSYS" },
	{ EPERM, "EPERM" },
	{ EACCES, "EACCES" },
	{ EINVAL, "EINVAL" },
	{ EBADF, "EBADF" },
	{ ESRCH, "ESRCH" },
	{ 0, "answers 0 and does nothing" },
};

static int before_the_probe(uint32_t i)
{
	install(SCMP_ACT_ERRNO((uint16_t)errors[i].error), "process_madvise", -1);
	return !works_and_says(errors[i].name, PGW_ROUTE_LOOP);
}

static int after_the_probe(uint32_t i)
{
	if (!purges(NULL))
		return 1;
	install(SCMP_ACT_ERRNO((uint16_t)errors[i].error), "process_madvise", -1);
	return !works_and_says(errors[i].name, PGW_ROUTE_LOOP);
}

static void answers_an_error(void **state)
{
	for (uint32_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		assert_child(before_the_probe, i);
}

static bool is_vectored_here(void)
{
	struct pgw_probe p;

	pgw_probe(PGW_DONTNEED, &p);
	pgw__probe_reset();
	return p.route == PGW_ROUTE_VECTORED;
}

static void answers_an_error_later(void **state)
{
	if (!is_vectored_here())
		skip();
	for (uint32_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		assert_child(after_the_probe, i);
}

/* --- it pretends --- */

/* Answers as the kernel would if it had done everything. */
static void pretend(int sig, siginfo_t *info, void *context)
{
#if defined(__x86_64__)
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	const struct iovec *v = (const struct iovec *)regs[REG_RSI];
	size_t n = (size_t)regs[REG_RDX];
	greg_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (greg_t)v[i].iov_len;
	regs[REG_RAX] = sum;
#endif
}

static int trap(uint32_t late)
{
	struct sigaction sa = { .sa_sigaction = pretend, .sa_flags = SA_SIGINFO };

	if (late && !purges(NULL))
		return 1;
	sigaction(SIGSYS, &sa, NULL);
	install(SCMP_ACT_TRAP, "process_madvise", -1);
	return !works_and_says("does nothing", PGW_ROUTE_LOOP);
}

static void pretends_to_have_done_it(void **state)
{
#if defined(__x86_64__)
	assert_child(trap, 0);
#else
	skip();
#endif
}

/* --- one advice, one call --- */

static int one_advice(uint32_t arg)
{
	struct pgw_probe p;

	install(SCMP_ACT_ERRNO(EPERM), "process_madvise", MADV_DONTNEED);
	if (!works_and_says("EPERM", PGW_ROUTE_LOOP))
		return 1;
	pgw_probe(PGW_DONTNEED_LOCKED, &p);
	return p.route != PGW_ROUTE_VECTORED;
}

static void only_one_advice_is_refused(void **state)
{
	if (!is_vectored_here())
		skip();
	assert_child(one_advice, 0);
}

/* PIDFD_SELF is refused as an old kernel would; a pidfd works, unless that is refused too. */
static int64_t old_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	if (pidfd == PGW__PIDFD_SELF)
		return -EBADF;
	return pgw__sys_real.process_madvise(pidfd, v, n, advice, flags);
}

static int pidfd_open_refused(uint32_t with)
{
	pgw__sys.process_madvise = old_process_madvise;
	if (!with)
		return !works_and_says("through a pidfd", PGW_ROUTE_VECTORED);
	install(SCMP_ACT_ERRNO((uint16_t)with), "pidfd_open", -1);
	return !works_and_says("pidfd_open is refused", PGW_ROUTE_LOOP);
}

static void pidfd_open_is_refused(void **state)
{
	if (!is_vectored_here())
		skip();
	assert_child(pidfd_open_refused, 0);
	assert_child(pidfd_open_refused, EPERM);
	assert_child(pidfd_open_refused, ENOSYS);
}

/* --- it kills --- */

static int killed(uint32_t mode)
{
	setenv("PAGEWISE_KERNEL", mode ? "auto" : "off", 1);
	pgw__probe_reset();
	install(SCMP_ACT_KILL_PROCESS, "process_madvise", -1);
	return !works_and_says("PAGEWISE_KERNEL=off", PGW_ROUTE_LOOP);
}

static void off_survives_a_filter_that_kills(void **state)
{
	int ws;

	assert_child(killed, 0);
	/* That it would have died shows that the filter is there. */
	ws = in_child(killed, 1);
	assert_true(WIFSIGNALED(ws));
	assert_int_equal(WTERMSIG(ws), SIGSYS);
}

static int madvise_refused(uint32_t error)
{
	struct pgw_probe p;

	fill();
	install(SCMP_ACT_ERRNO((uint16_t)error), "madvise", -1);
	if (pgw_advise(ranges, RANGES, PGW_DONTNEED, NULL, NULL) != -EOPNOTSUPP)
		return 1;
	pgw_probe(PGW_DONTNEED, &p);
	return p.route != PGW_ROUTE_NONE || p.error != (int)error || !all(area, 0xa5);
}

static int madvise_pretends(uint32_t arg)
{
	fill();
	install(SCMP_ACT_ERRNO(0), "madvise", -1);
	return pgw_dontneed_zeroes();
}

static void madvise_itself(void **state)
{
	assert_child(madvise_refused, ENOSYS);
	assert_child(madvise_refused, EPERM);
	assert_child(madvise_pretends, 0);
}

static int nothing(uint32_t arg)
{
	install(SCMP_ACT_ERRNO(ENOSYS), "process_madvise", -1);
	return 0;
}

static bool has_filters(void)
{
	int ws = in_child(nothing, 0);

	return WIFEXITED(ws) && WEXITSTATUS(ws) == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_an_error),
		cmocka_unit_test(answers_an_error_later),
		cmocka_unit_test(pretends_to_have_done_it),
		cmocka_unit_test(only_one_advice_is_refused),
		cmocka_unit_test(pidfd_open_is_refused),
		cmocka_unit_test(off_survives_a_filter_that_kills),
		cmocka_unit_test(madvise_itself),
	};
	size_t page = pgw_page_size();

	if (!has_filters()) {
		fprintf(stderr, "seccomp filters cannot be installed here\n");
		return 77;
	}
	setenv("PAGEWISE_KERNEL", "auto", 1);
	pgw__probe_reset();
	area = mmap(NULL, 2 * RANGES * page, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < RANGES; i++)
		ranges[i] = (struct pgw_range){ (uintptr_t)area + 2 * i * page, page };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
