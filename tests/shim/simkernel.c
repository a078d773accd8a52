/* SPDX-License-Identifier: BSD-2-Clause
 *
 * simkernel.c - see simkernel.h. What each call answers is taken from Linux 6.18.
 */
#include "simkernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "probe.h"
#include "stats.h"
#include "sys.h"

#define MAX_VECTOR    1024
#define MAX_BYTES     0x7ffff000u
#define KERNEL_HALF   (UINT64_C(1) << 63)
#define MAX_PIDFDS    64
#define FIRST_FREE_FD 3
#define MAX_REGIONS   64

struct sim sim;

static struct {
	int fd;
	pid_t pid; /* 0: the number is not in use */
} pidfds[MAX_PIDFDS];
static int last_pidfd;

/* Real memory, mapped through the table. */
static struct region {
	unsigned char *p;
	size_t len;
	bool locked;
	unsigned char present[4096];
} regions[MAX_REGIONS];

/* --- the way in --- */

static bool filtered(enum sim_call call, const struct sim_args *args, int64_t *answer)
{
	sim.calls[call]++;
	sim.total++;
	if (sim.fail_at && sim.total == sim.fail_at) {
		sim.failed = true;
		*answer = -sim.fail_errno;
		return true;
	}
	return sim.intercept && sim.intercept(call, args, answer);
}

static int64_t record(enum sim_call call, struct sim_args args, int64_t answer)
{
	if (sim.logged < SIM_LOG) {
		args.v = NULL; /* gone by the time it is read */
		sim.log[sim.logged++] = (struct sim_record){ call, args, answer };
	}
	return answer;
}

/* --- memory --- */

static enum pgw_advice advice_of(int number)
{
	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		if (pgw__advice_number((enum pgw_advice)a) == number)
			return (enum pgw_advice)a;
	return PGW_ADVICE_COUNT;
}

static bool in_window(uint64_t addr)
{
	return addr >= SIM_BASE && addr < SIM_BASE + (uint64_t)SIM_PAGES * SIM_PAGE;
}

static struct region *find_region(uint64_t addr)
{
	for (size_t i = 0; i < MAX_REGIONS; i++)
		if (regions[i].p && addr >= (uintptr_t)regions[i].p &&
		    addr < (uintptr_t)regions[i].p + regions[i].len)
			return &regions[i];
	return NULL;
}

/* 0 or -errno for one page of real memory. */
static int advise_real(struct region *r, uint64_t addr, enum pgw_advice advice)
{
	size_t page = (addr - (uintptr_t)r->p) / SIM_PAGE;

	switch (advice) {
	case PGW_DONTNEED:
	case PGW_FREE:
		if (r->locked)
			return -EINVAL;
		if (advice == PGW_FREE)
			return 0;
		/* fall through */
	case PGW_DONTNEED_LOCKED:
		if (!sim.does_nothing)
			memset(r->p + page * SIM_PAGE, 0, SIM_PAGE);
		return 0;
	case PGW_POPULATE_READ:
	case PGW_POPULATE_WRITE:
		if (!sim.does_nothing)
			r->present[page] = 1;
		return 0;
	default:
		return 0;
	}
}

static int advise_page(uint64_t addr, enum pgw_advice advice)
{
	struct region *r = find_region(addr);
	size_t page;

	if (r)
		return advise_real(r, addr, advice);
	if (!in_window(addr))
		return -ENOMEM;
	page = (addr - SIM_BASE) / SIM_PAGE;
	if (sim.flags[page] & SIM_UNMAPPED)
		return -ENOMEM;
	if (sim.flags[page] & SIM_SEALED)
		return -EPERM;
	if ((sim.flags[page] & SIM_LOCKED) && (advice == PGW_DONTNEED || advice == PGW_FREE))
		return -EINVAL;
	sim.advised[page]++;
	return 0;
}

/* One range, as madvise does it: holes are skipped and reported at the end. */
static int advise_range(uint64_t start, uint64_t len, int number)
{
	enum pgw_advice advice = advice_of(number);
	uint64_t end = (start + len + SIM_PAGE - 1) & ~(uint64_t)(SIM_PAGE - 1);
	int hole = 0;

	if (advice == PGW_ADVICE_COUNT || !sim.knows[advice] || start % SIM_PAGE)
		return -EINVAL;
	if (end < start)
		return -EINVAL;
	for (uint64_t addr = start; addr < end; addr += SIM_PAGE) {
		int err = advise_page(addr, advice);

		if (err == -ENOMEM)
			hole = err;
		else if (err)
			return err;
	}
	return hole;
}

static void claim(uint64_t start, uint64_t len)
{
	for (uint64_t addr = start; addr < start + len; addr += SIM_PAGE)
		if (in_window(addr))
			sim.claimed[(addr - SIM_BASE) / SIM_PAGE] = 1;
}

static int sim_madvise(void *addr, size_t len, int advice)
{
	struct sim_args a = { .start = (uintptr_t)addr, .len = len, .advice = advice };
	int64_t answer;

	if (!filtered(SIM_MADVISE, &a, &answer))
		answer = advise_range(a.start, len, advice);
	if (!answer)
		claim(a.start, len);
	return (int)record(SIM_MADVISE, a, answer);
}

static int resolve(int fd, pid_t *pid)
{
	if (fd == PGW__PIDFD_SELF) {
		*pid = sim.pid;
		return sim.has_pidfd_self ? 0 : -EBADF;
	}
	for (size_t i = 0; i < MAX_PIDFDS; i++) {
		if (pidfds[i].pid && pidfds[i].fd == fd) {
			*pid = pidfds[i].pid;
			return 0;
		}
	}
	return -EBADF;
}

static int64_t advise_vector(const struct sim_args *a)
{
	enum pgw_advice advice = advice_of(a->advice);
	uint64_t total = 0, left = MAX_BYTES;
	pid_t pid;
	int err;

	if (!sim.has_process_madvise)
		return -ENOSYS;
	if (a->flags || a->n > MAX_VECTOR)
		return -EINVAL;
	for (size_t i = 0; i < a->n; i++)
		if ((uintptr_t)a->v[i].iov_base >= KERNEL_HALF)
			return -EFAULT;
	err = resolve(a->fd, &pid);
	if (err)
		return err;
	if (pid != sim.pid || advice == PGW_ADVICE_COUNT || !sim.takes_self[advice])
		return -EINVAL;
	for (size_t i = 0; i < a->n && left; i++) {
		uint64_t len = a->v[i].iov_len < left ? a->v[i].iov_len : left;

		if (!len)
			continue;
		err = advise_range((uintptr_t)a->v[i].iov_base, len, a->advice);
		if (err)
			return total ? (int64_t)total : err;
		total += len;
		left -= len;
	}
	return (int64_t)total;
}

/* What the caller may conclude from the answer. */
static void claim_vector(const struct sim_args *a, int64_t answer)
{
	uint64_t asked = 0;

	for (size_t i = 0; i < a->n; i++)
		asked += a->v[i].iov_len;
	if (answer <= 0 || (uint64_t)answer > asked)
		return;
	for (size_t i = 0; i < a->n && (uint64_t)answer >= a->v[i].iov_len; i++) {
		claim((uintptr_t)a->v[i].iov_base, a->v[i].iov_len);
		answer -= (int64_t)a->v[i].iov_len;
	}
}

static int64_t sim_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	struct sim_args a = { .fd = pidfd, .v = v, .n = n, .advice = advice, .flags = flags };
	int64_t answer;

	if (!filtered(SIM_PROCESS_MADVISE, &a, &answer))
		answer = advise_vector(&a);
	claim_vector(&a, answer);
	return record(SIM_PROCESS_MADVISE, a, answer);
}

static int sim_map_anon(void *addr, size_t len, int prot, int extra_flags, void **out)
{
	struct sim_args a = { .start = (uintptr_t)addr, .len = len };
	size_t i = 0;
	int64_t answer;

	if (filtered(SIM_MAP_ANON, &a, &answer))
		return (int)record(SIM_MAP_ANON, a, answer);
	while (i < MAX_REGIONS && regions[i].p)
		i++;
	if (i >= MAX_REGIONS || i >= sim.max_maps ||
	    pgw__sys_real.map_anon(addr, len, prot, extra_flags, out))
		return (int)record(SIM_MAP_ANON, a, -ENOMEM);
	regions[i] = (struct region){ .p = *out, .len = len, .locked = sim.born_locked };
	return (int)record(SIM_MAP_ANON, a, 0);
}

static int sim_unmap(void *addr, size_t len)
{
	struct sim_args a = { .start = (uintptr_t)addr, .len = len };
	struct region *r = find_region(a.start);
	int64_t answer;

	if (!filtered(SIM_UNMAP, &a, &answer)) {
		answer = r ? pgw__sys_real.unmap(addr, len) : -EINVAL;
		if (r)
			r->p = NULL;
	}
	return (int)record(SIM_UNMAP, a, answer);
}

static int sim_unlock(void *addr, size_t len)
{
	struct sim_args a = { .start = (uintptr_t)addr, .len = len };
	struct region *r = find_region(a.start);
	int64_t answer;

	if (!filtered(SIM_UNLOCK, &a, &answer)) {
		answer = r ? 0 : -ENOMEM;
		if (r)
			r->locked = false;
	}
	return (int)record(SIM_UNLOCK, a, answer);
}

static int sim_mincore(void *addr, size_t len, unsigned char *vec)
{
	struct sim_args a = { .start = (uintptr_t)addr, .len = len };
	struct region *r = find_region(a.start);
	int64_t answer;

	if (!filtered(SIM_MINCORE, &a, &answer)) {
		answer = r ? 0 : -ENOMEM;
		for (size_t i = 0; r && i < len / SIM_PAGE; i++)
			vec[i] = r->present[(a.start - (uintptr_t)r->p) / SIM_PAGE + i];
	}
	return (int)record(SIM_MINCORE, a, answer);
}

/* --- descriptors --- */

static bool in_use(int fd)
{
	for (size_t i = 0; i < MAX_PIDFDS; i++)
		if (pidfds[i].pid && pidfds[i].fd == fd)
			return true;
	return false;
}

static int new_pidfd(int lowest, pid_t pid)
{
	for (size_t i = 0; i < MAX_PIDFDS; i++) {
		if (pidfds[i].pid)
			continue;
		while (in_use(lowest))
			lowest++;
		pidfds[i].fd = last_pidfd = lowest;
		pidfds[i].pid = pid;
		sim.pidfds_open++;
		return lowest;
	}
	return -EMFILE;
}

static int close_pidfd(int fd)
{
	for (size_t i = 0; i < MAX_PIDFDS; i++) {
		if (pidfds[i].pid && pidfds[i].fd == fd) {
			pidfds[i].pid = 0;
			sim.pidfds_open--;
			return 0;
		}
	}
	return -EBADF;
}

static int sim_pidfd_open(pid_t pid, unsigned flags)
{
	struct sim_args a = { .flags = flags };
	int64_t answer;

	if (!filtered(SIM_PIDFD_OPEN, &a, &answer))
		answer = new_pidfd(FIRST_FREE_FD, pid);
	return (int)record(SIM_PIDFD_OPEN, a, answer);
}

static int sim_fd_move(int fd, int lowest)
{
	struct sim_args a = { .fd = fd, .start = (uint64_t)lowest };
	int64_t answer;
	pid_t pid;

	if (!filtered(SIM_FD_MOVE, &a, &answer)) {
		answer = resolve(fd, &pid);
		if (!answer)
			answer = new_pidfd(lowest, pid);
		if (answer >= 0)
			close_pidfd(fd);
	}
	return (int)record(SIM_FD_MOVE, a, answer);
}

static int sim_close(int fd)
{
	struct sim_args a = { .fd = fd };
	int64_t answer;

	if (!filtered(SIM_CLOSE, &a, &answer))
		answer = close_pidfd(fd);
	return (int)record(SIM_CLOSE, a, answer);
}

static pid_t sim_getpid(void)
{
	sim.calls[SIM_GETPID]++; /* cannot fail, and is not worth a line in the log */
	return sim.pid;
}

void sim_steal_pidfd(pid_t pid)
{
	for (size_t i = 0; i < MAX_PIDFDS; i++)
		if (pidfds[i].pid && pidfds[i].fd == last_pidfd)
			pidfds[i].pid = pid;
}

/* --- the file --- */

/* Pages that [start, start + len) touches; len 0 means to the end, as for sync_file_range. */
static void each_page(uint64_t start, uint64_t len, enum sim_file_page from, enum sim_file_page to)
{
	uint64_t end = len ? start + len : (uint64_t)SIM_FILE_PAGES * SIM_PAGE;

	for (uint64_t p = start / SIM_PAGE; p < SIM_FILE_PAGES && p * SIM_PAGE < end; p++)
		if (sim.file[p] == from)
			sim.file[p] = (uint8_t)to;
}

/* Pages whose write-out was started and not waited for may or may not be in the cache: not. */
static void flush_device(void)
{
	sim.device_flushes++;
	each_page(0, 0, SIM_WRITTEN, SIM_DURABLE);
}

static void write_and_wait(uint64_t start, uint64_t len)
{
	each_page(start, len, SIM_DIRTY, SIM_STARTED);
	each_page(start, len, SIM_STARTED, SIM_WRITTEN);
}

static int sim_msync(void *addr, size_t len, int flags)
{
	struct sim_args a = {
		.start = (uint64_t)((char *)addr - sim.map), .len = len, .flags = (unsigned)flags
	};
	int64_t answer;

	if (!filtered(SIM_MSYNC, &a, &answer)) {
		answer = a.start % SIM_PAGE ? -EINVAL : 0;
		if (!answer && flags == MS_SYNC && (sim.open_flags & O_ACCMODE) == O_RDWR) {
			write_and_wait(a.start, len);
			flush_device();
		}
	}
	return (int)record(SIM_MSYNC, a, answer);
}

static int sim_fdatasync(int fd)
{
	struct sim_args a = { .fd = fd };
	int64_t answer;

	if (!filtered(SIM_FDATASYNC, &a, &answer)) {
		answer = fd == SIM_FILE_FD ? 0 : -EBADF;
		write_and_wait(0, 0);
		flush_device();
	}
	return (int)record(SIM_FDATASYNC, a, answer);
}

static int sim_fsync(int fd)
{
	struct sim_args a = { .fd = fd };
	int64_t answer;

	if (!filtered(SIM_FSYNC, &a, &answer)) {
		answer = fd == SIM_FILE_FD ? 0 : -EBADF;
		write_and_wait(0, 0);
		flush_device();
	}
	return (int)record(SIM_FSYNC, a, answer);
}

static int sim_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	struct sim_args a = { .fd = fd, .start = off, .len = len, .flags = flags };
	int64_t answer;

	if (!filtered(SIM_SYNC_FILE_RANGE, &a, &answer)) {
		answer = off + len > INT64_MAX ? -EINVAL : 0;
		if (!answer && (flags & SYNC_FILE_RANGE_WAIT_BEFORE))
			each_page(off, len, SIM_STARTED, SIM_WRITTEN);
		if (!answer && (flags & SYNC_FILE_RANGE_WRITE))
			each_page(off, len, SIM_DIRTY, SIM_STARTED);
		if (!answer && (flags & SYNC_FILE_RANGE_WAIT_AFTER))
			each_page(off, len, SIM_STARTED, SIM_WRITTEN);
	}
	return (int)record(SIM_SYNC_FILE_RANGE, a, answer);
}

static int sim_fs_magic(int fd, uint64_t *magic)
{
	struct sim_args a = { .fd = fd };
	int64_t answer;

	if (!filtered(SIM_FS_MAGIC, &a, &answer)) {
		answer = 0;
		*magic = sim.magic;
	}
	return (int)record(SIM_FS_MAGIC, a, answer);
}

static int sim_fd_mode(int fd, mode_t *mode)
{
	struct sim_args a = { .fd = fd };
	int64_t answer;

	if (!filtered(SIM_FD_MODE, &a, &answer)) {
		answer = 0;
		*mode = sim.mode;
	}
	return (int)record(SIM_FD_MODE, a, answer);
}

static int sim_fd_flags(int fd)
{
	struct sim_args a = { .fd = fd };
	int64_t answer;

	if (!filtered(SIM_FD_FLAGS, &a, &answer))
		answer = sim.open_flags;
	return (int)record(SIM_FD_FLAGS, a, answer);
}

/* --- for tests --- */

static const struct pgw__sys simulated = {
	.madvise = sim_madvise,
	.process_madvise = sim_process_madvise,
	.pidfd_open = sim_pidfd_open,
	.map_anon = sim_map_anon,
	.unmap = sim_unmap,
	.unlock = sim_unlock,
	.mincore = sim_mincore,
	.msync = sim_msync,
	.fdatasync = sim_fdatasync,
	.fsync = sim_fsync,
	.sync_file_range = sim_sync_file_range,
	.fs_magic = sim_fs_magic,
	.fd_mode = sim_fd_mode,
	.fd_flags = sim_fd_flags,
	.fd_move = sim_fd_move,
	.close = sim_close,
	.getpid = sim_getpid,
};

void sim_install(const char *mode)
{
	memset(&sim, 0, sizeof(sim));
	for (size_t i = 0; i < MAX_REGIONS; i++)
		if (regions[i].p)
			pgw__sys_real.unmap(regions[i].p, regions[i].len);
	memset(regions, 0, sizeof(regions));
	memset(pidfds, 0, sizeof(pidfds));
	sim.has_process_madvise = sim.has_pidfd_self = true;
	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		sim.takes_self[a] = sim.knows[a] = true;
	sim.takes_self[PGW_DONTDUMP] = sim.takes_self[PGW_DODUMP] = false;
	sim.max_maps = MAX_REGIONS;
	sim.pid = 4711;
	sim.magic = 0xef53;
	sim.mode = S_IFREG | 0600;
	sim.open_flags = O_RDWR;
	sim.map = (char *)(uintptr_t)SIM_MAP;
	pgw__sys = simulated;
	setenv("PAGEWISE_KERNEL", mode, 1);
	pgw__probe_reset();
	pgw__stats_reset();
}

void sim_or_skip(void)
{
	if (pgw_page_size() == SIM_PAGE)
		return;
	fprintf(stderr, "the simulated kernel has pages of %u bytes, this system of %zu\n",
	    SIM_PAGE, pgw_page_size());
	exit(77);
}

void sim_remove(void)
{
	pgw__sys = pgw__sys_real;
	pgw__probe_reset();
}

void sim_forget(void)
{
	memset(sim.calls, 0, sizeof(sim.calls));
	memset(sim.advised, 0, sizeof(sim.advised));
	memset(sim.claimed, 0, sizeof(sim.claimed));
	sim.total = 0;
	sim.logged = 0;
	sim.failed = false;
	sim.device_flushes = 0;
}

struct pgw_range sim_range(size_t first, size_t n)
{
	return (struct pgw_range){ SIM_BASE + first * SIM_PAGE, n * SIM_PAGE };
}

bool sim_is_claimed(struct pgw_range r)
{
	for (uint64_t addr = r.start; addr < pgw_range_end(r); addr += SIM_PAGE)
		if (!in_window(addr) || !sim.claimed[(addr - SIM_BASE) / SIM_PAGE])
			return false;
	return true;
}

void sim_set_flags(size_t first, size_t n, uint8_t flags)
{
	memset(sim.flags + first, flags, n);
}

void sim_dirty(size_t first, size_t n)
{
	memset(sim.file + first, SIM_DIRTY, n);
}

bool sim_is_durable(size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++)
		if (sim.file[i] != SIM_DURABLE)
			return false;
	return true;
}
