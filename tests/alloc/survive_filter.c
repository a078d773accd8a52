/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive_filter.c - processes that may not make every system call.
 */
#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#include "survive.h"

static bool filter(uint32_t action, int nr)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	bool ok = ctx && !seccomp_rule_add(ctx, action, nr, 0) && !seccomp_load(ctx);

	seccomp_release(ctx);
	return ok;
}

#define PROCESS_MADVISE 440

static int filtered(uint32_t action)
{
	if (!filter(action, PROCESS_MADVISE))
		return skip("no system call filter can be installed");
	if (!memory_works(3000, 1))
		return wrong("memory");
	if (pgw_alloc_purge())
		return wrong("purge");
	if (!stats().purged_bytes || stats().kept_ranges)
		return wrong("the loop should have purged all");
	return 0;
}

int filter_enosys(void)
{
	return filtered(SCMP_ACT_ERRNO(ENOSYS));
}

int filter_eperm(void)
{
	return filtered(SCMP_ACT_ERRNO(EPERM));
}

int filter_zero(void)
{
	return filtered(SCMP_ACT_ERRNO(0));
}

/* Installed when batches are on their way already. */
int filter_late(void)
{
	if (!memory_works(1000, 1) || pgw_alloc_purge())
		return wrong("memory");
	return filtered(SCMP_ACT_ERRNO(EPERM));
}

/* madvise answers 0 and does nothing: seen by the probe, so nothing counts as zeroed. */
int filter_madvise_zero(void)
{
	if (!filter(SCMP_ACT_ERRNO(0), SCMP_SYS(madvise)) ||
	    !filter(SCMP_ACT_ERRNO(EPERM), PROCESS_MADVISE))
		return skip("no system call filter can be installed");
	if (!memory_works(3000, 1))
		return wrong("memory");
	return stats().purged_ranges == stats().kept_ranges ? 0 : wrong("it counts as purged");
}

/* Run with PAGEWISE_KERNEL=off: the call would be the end. */
int filter_kill(void)
{
	if (!filter(SCMP_ACT_KILL_PROCESS, PROCESS_MADVISE) ||
	    !filter(SCMP_ACT_KILL_PROCESS, SCMP_SYS(mincore)))
		return skip("no system call filter can be installed");
	if (!memory_works(3000, 1))
		return wrong("memory");
	return pgw_alloc_purge() ? wrong("purge") : 0;
}

int no_threads(void)
{
	if (!filter(SCMP_ACT_ERRNO(EAGAIN), SCMP_SYS(clone)) ||
	    !filter(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3)))
		return skip("no system call filter can be installed");
	pgw_alloc_option_set(PGW_ALLOC_PENDING, 512 << 10);
	if (!memory_works(5000, 1))
		return wrong("memory");
	if (stats().threads || !stats().thread_fails)
		return wrong("a thread was made, or never tried");
	return stats().inline_purges ? 0 : wrong("nobody purged");
}
