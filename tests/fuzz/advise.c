/* SPDX-License-Identifier: BSD-2-Clause
 *
 * advise.c - pgw_advise against a kernel that answers what it likes: it must end, and no range may
 * be said to be done that no call has reported done.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <pagewise/advise.h>

#include "simkernel.h"

#define RANGES_MAX 1200

static struct input in;
static struct pgw_range ranges[RANGES_MAX];
static int status[RANGES_MAX];

/* Bytes below this let the call through to the (simulated) kernel. */
#define HONEST 160

static int64_t any_error(void)
{
	static const int errors[] = { EPERM, ENOENT, ESRCH, EINTR, EIO, EBADF, EAGAIN, ENOMEM,
		EACCES, EFAULT, EBUSY, EINVAL, EMFILE, ENOSPC, ENOSYS, EOPNOTSUPP };
	uint8_t b = next_byte(&in);

	return -errors[b % (sizeof(errors) / sizeof(*errors))];
}

static int64_t any_sum(const struct sim_args *args)
{
	uint64_t sum = 0;
	size_t n = next_u16(&in) % (args->n + 1);

	for (size_t i = 0; i < n; i++)
		sum += args->v[i].iov_len;
	return (int64_t)(sum + next_byte(&in) % 3 * 2048);
}

static bool answer_anything(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	uint8_t b = next_byte(&in);

	if (b < HONEST)
		return false;
	if (call != SIM_PROCESS_MADVISE) {
		/* What is mapped, or opened, would have to exist: only errors there. */
		*answer = b % 4 || call != SIM_MADVISE ? any_error() : 0;
		return true;
	}
	switch (b % 4) {
	case 0:
		*answer = any_error();
		break;
	case 1:
		*answer = any_sum(args);
		break;
	case 2:
		*answer = 0;
		break;
	default:
		*answer = (int64_t)next_u64(&in);
	}
	return true;
}

static size_t make_ranges(void)
{
	size_t n = next_byte(&in), at = 0;

	/* Written down one by one, or many in a row. */
	if (n >= 200)
		n = 200 + (n - 200) * 18;
	for (size_t i = 0; i < n; i++) {
		uint8_t b = i < 200 ? next_byte(&in) : 1;

		if (b & 128)
			at = next_u16(&in) % (SIM_PAGES - 300);
		ranges[i] = sim_range(at, b & 64 ? (size_t)next_byte(&in) : b & 3);
		if (b == 127)
			ranges[i].start += next_byte(&in);
		at = (at + (b & 3) + (b >> 2 & 7)) % (SIM_PAGES - 300);
	}
	return n;
}

static void make_kernel(void)
{
	static const char *const modes[] = { "auto", "vectored", "loop", "off" };
	uint8_t b = next_byte(&in);

	sim_install(modes[b & 3]);
	sim.has_pidfd_self = !(b & 4);
	sim.has_process_madvise = !(b & 8);
	sim.born_locked = b & 16;
	sim.max_maps = b & 32 ? 1 : 8;
	for (unsigned bad = b >> 6; bad > 0; bad--) {
		size_t at = next_u16(&in) % (SIM_PAGES - 300);

		sim_set_flags(at, 1 + next_byte(&in) % 4, (uint8_t)(1u << next_byte(&in) % 3));
	}
}

static void check(size_t n, int result, const struct pgw_advise_report *report)
{
	int first = 0;
	uint64_t failed = 0;

	for (size_t i = n; i-- > 0;) {
		if (status[i]) {
			CHECK(status[i] < 0);
			first = status[i];
			failed++;
		} else {
			CHECK(!ranges[i].len || sim_is_claimed(ranges[i]));
		}
	}
	CHECK(result == first);
	CHECK(report->failed_ranges == failed);
	/* A run, its members, and as many tries as EAGAIN is given; and the probe. */
	CHECK(sim.total <= 16 * (4 * n + 64));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pgw_advise_report report;
	enum pgw_advice advice;
	size_t n;
	int r;

	in = (struct input){ data, size };
	make_kernel();
	advice = (enum pgw_advice)(next_byte(&in) % PGW_COLLAPSE); /* none that needs 4 MiB */
	n = make_ranges();
	sim.intercept = answer_anything;
	memset(status, 0x55, sizeof(status));
	for (int round = 0; round < 2; round++) { /* with what was decided before */
		sim_forget();
		r = pgw_advise(ranges, n, advice, status, &report);
		check(n, r, &report);
		sim.pid += next_byte(&in) & 1;
	}
	sim_remove();
	return 0;
}
