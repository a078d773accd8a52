/* SPDX-License-Identifier: BSD-2-Clause
 *
 * costmodel.c - see costmodel.h. One model at a time; not thread-safe.
 */
#include "costmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "probe.h"
#include "sys.h"

/* Addresses that nobody maps; nothing behind them is touched. */
#define MAP_ADDR ((char *)(uintptr_t)UINT64_C(0x600000000000))
#define FD	 77

static struct costmodel_sync sync_cost;
static struct costmodel_advise advise_cost;
static struct pgw_range advised; /* the span that is modelled; other addresses are real */
static uint64_t resident_each;	 /* one page in so many is resident */

static uint64_t pages_of(uint64_t len)
{
	return (len + COSTMODEL_PAGE - 1) / COSTMODEL_PAGE;
}

static int model_msync(void *addr, size_t len, int flags)
{
	uint64_t pages = pages_of(len);

	(void)addr;
	if (flags != MS_SYNC)
		return -EINVAL;
	sync_cost.calls++;
	sync_cost.pages += pages;
	sync_cost.lookups += 2 * pages;
	/* The page that is synced is resident: it is dirty. */
	sync_cost.visited += resident_each ? 1 + (pages - 1) / resident_each : pages;
	return 0;
}

static int model_fdatasync(int fd)
{
	(void)fd;
	sync_cost.others++; /* it does not see stores through a mapping there */
	return 0;
}

static int model_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	(void)fd;
	(void)off;
	(void)len;
	(void)flags;
	return -ENOSYS;
}

static int model_fs_magic(int fd, uint64_t *magic)
{
	(void)fd;
	*magic = 0x0ff5; /* none that the shim knows */
	return 0;
}

static int model_fd_mode(int fd, mode_t *mode)
{
	(void)fd;
	*mode = S_IFREG | 0600;
	return 0;
}

static int model_fd_flags(int fd)
{
	(void)fd;
	return O_RDWR;
}

static int model_madvise(void *addr, size_t len, int advice)
{
	uint64_t at = (uintptr_t)addr;

	if (at < advised.start || at >= pgw_range_end(advised))
		return pgw__sys_real.madvise(addr, len, advice);
	advise_cost.calls++;
	advise_cost.range_locks++;
	advise_cost.page_locks += pages_of(len);
	return 0;
}

static int64_t model_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	(void)pidfd;
	(void)v;
	(void)n;
	(void)advice;
	(void)flags;
	return -ENOSYS;
}

static void install(void)
{
	pgw__sys.msync = model_msync;
	pgw__sys.fdatasync = model_fdatasync;
	pgw__sys.sync_file_range = model_sync_file_range;
	pgw__sys.fs_magic = model_fs_magic;
	pgw__sys.fd_mode = model_fd_mode;
	pgw__sys.fd_flags = model_fd_flags;
	pgw__sys.madvise = model_madvise;
	pgw__sys.process_madvise = model_process_madvise;
	pgw__probe_reset();
}

static void restore(void)
{
	pgw__sys = pgw__sys_real;
	pgw__probe_reset();
}

int costmodel_sync(uint64_t extent, uint64_t resident, struct pgw_ranges *dirty,
    enum pgw_sync_strategy strategy, struct costmodel_sync *out)
{
	struct pgw_sync_file f;
	int err;

	memset(&sync_cost, 0, sizeof(sync_cost));
	resident_each = resident ? extent / resident : 0;
	install();
	err = pgw_sync_init(&f, FD, MAP_ADDR, extent * COSTMODEL_PAGE, strategy);
	if (!err)
		err = pgw_sync(&f, dirty, NULL);
	restore();
	if (!err)
		*out = sync_cost;
	return err;
}

int costmodel_advise(const struct pgw_range *v, size_t n, struct costmodel_advise *out)
{
	uint64_t start = UINT64_MAX, end = 0;
	int err;

	for (size_t i = 0; i < n; i++) {
		start = v[i].start < start ? v[i].start : start;
		end = pgw_range_end(v[i]) > end ? pgw_range_end(v[i]) : end;
	}
	memset(&advise_cost, 0, sizeof(advise_cost));
	advised = (struct pgw_range){ start, n ? end - start : 0 };
	install();
	err = pgw_advise(v, n, PGW_DONTNEED, NULL, NULL);
	restore();
	if (!err)
		*out = advise_cost;
	return err;
}

double costmodel_lookup_ns(void)
{
	return (COSTMODEL_PUBLISHED_STOCK - COSTMODEL_PUBLISHED_WALK) * 1e6 /
	       (2.0 * (double)COSTMODEL_PUBLISHED_PAGES);
}

static double with(uint64_t steps)
{
	return COSTMODEL_PUBLISHED_WALK + (double)steps * costmodel_lookup_ns() / 1e6;
}

double costmodel_stock_ms(const struct costmodel_sync *c)
{
	return with(c->lookups);
}

/* How much was resident when the figure was taken is not known; the walk of it is in the figure
 * already, and here once more. So this is an upper bound, also because a step to the next page of a
 * tree costs less than a look-up. */
double costmodel_walk_ms(const struct costmodel_sync *c)
{
	return with(c->visited);
}
