/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sys.c - the one file that makes the system calls of sys.h.
 *
 * They are made through syscall(2) and not through their libc wrappers: a library under LD_PRELOAD
 * must not end up in another preloaded library's wrapper, and Debian 12's libc lacks some of them.
 */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Numbers are the same on every architecture since Linux 5.1; kernel headers may be older. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* errno belongs to the program whose free() we are in. */
static long answer(long r, int saved)
{
	if (r == -1) {
		r = -errno;
		errno = saved;
	}
	return r;
}

#define CALL(...)                                    \
	({                                           \
		int saved = errno;                   \
		answer(syscall(__VA_ARGS__), saved); \
	})

static int sys_madvise(void *addr, size_t len, int advice)
{
	return (int)CALL(SYS_madvise, addr, len, advice);
}

static int64_t sys_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	return CALL(SYS_process_madvise, (long)pidfd, v, n, (long)advice, (unsigned long)flags);
}

static int sys_pidfd_open(pid_t pid, unsigned flags)
{
	return (int)CALL(SYS_pidfd_open, (long)pid, (unsigned long)flags);
}

static int sys_map_anon(void *addr, size_t len, int prot, int extra_flags, void **out)
{
	int saved = errno;
	void *p = mmap(addr, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);

	if (p == MAP_FAILED)
		return (int)answer(-1, saved);
	*out = p;
	return 0;
}

static int sys_unmap(void *addr, size_t len)
{
	return (int)CALL(SYS_munmap, addr, len);
}

static int sys_unlock(void *addr, size_t len)
{
	return (int)CALL(SYS_munlock, addr, len);
}

static int sys_mincore(void *addr, size_t len, unsigned char *vec)
{
	return (int)CALL(SYS_mincore, addr, len, vec);
}

static int sys_msync(void *addr, size_t len, int flags)
{
	return (int)CALL(SYS_msync, addr, len, (long)flags);
}

static int sys_fdatasync(int fd)
{
	return (int)CALL(SYS_fdatasync, (long)fd);
}

static int sys_fsync(int fd)
{
	return (int)CALL(SYS_fsync, (long)fd);
}

static int sys_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	int saved = errno;

	/* The wrapper, for once: 32-bit architectures disagree on how 64-bit arguments are passed.
	 */
	return (int)answer(sync_file_range(fd, (off64_t)off, (off64_t)len, flags), saved);
}

static int64_t sys_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	int saved = errno;

	return answer(pwritev(fd, v, n, (off_t)off), saved); /* the wrapper, as above */
}

static int sys_allocate(int fd, uint64_t off, uint64_t len)
{
	int saved = errno;

	/* The wrapper: offsets are passed differently on each architecture. */
	return (int)answer(fallocate(fd, 0, (off_t)off, (off_t)len), saved);
}

static int sys_drop_cached(int fd, uint64_t off, uint64_t len)
{
	return -posix_fadvise(
	    fd, (off_t)off, (off_t)len, POSIX_FADV_DONTNEED); /* returns the error */
}

static int sys_fs_magic(int fd, uint64_t *magic)
{
	int saved = errno;
	struct statfs s;

	if (fstatfs(fd, &s))
		return (int)answer(-1, saved);
	*magic = (uint64_t)s.f_type & 0xffffffffu; /* f_type is signed on some */
	return 0;
}

static int sys_fd_mode(int fd, mode_t *mode)
{
	int saved = errno;
	struct stat s;

	if (fstat(fd, &s))
		return (int)answer(-1, saved);
	*mode = s.st_mode;
	return 0;
}

static int sys_fd_flags(int fd)
{
	int saved = errno;

	return (int)answer(fcntl(fd, F_GETFL), saved);
}

static int sys_fd_move(int fd, int lowest)
{
	int before = errno;
	int r = (int)answer(fcntl(fd, F_DUPFD_CLOEXEC, lowest), before);

	if (r >= 0)
		(void)CALL(SYS_close, (long)fd);
	return r;
}

static int sys_close(int fd)
{
	return (int)CALL(SYS_close, (long)fd);
}

static pid_t sys_getpid(void)
{
	return (pid_t)CALL(SYS_getpid); /* not a value libc kept from before a raw clone */
}

static int sys_major_faults(uint64_t *n)
{
	int saved = errno;
	struct rusage u;
	int err = (int)answer(getrusage(RUSAGE_SELF, &u), saved);

	if (!err)
		*n = (uint64_t)u.ru_majflt;
	return err;
}

#include "sys_table.h" /* here, where all of it is defined */

int pgw__sys_write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		long r = CALL(SYS_write, (long)fd, p, len);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r ? (int)r : -EIO;
		p += r;
		len -= (size_t)r;
	}
	return 0;
}
