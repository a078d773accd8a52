/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sys_bsd.c - the table of sys.h for FreeBSD and OpenBSD, in place of sys.c.
 *
 * Not part of a build on Linux; CI checks that it compiles against the declarations that these
 * systems have (tests/portability). What a system lacks is ENOSYS, and the probe turns that into the
 * route or strategy that is left: docs/portability.md says which.
 *
 * Calls go through libc: these systems keep no stable numbers for syscall(2).
 */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* errno belongs to the program whose free() we are in. */
#define CALL(call)                      \
	({                              \
		int saved_ = errno;     \
		int64_t r_ = (call);    \
		if (r_ == -1) {         \
			r_ = -errno;    \
			errno = saved_; \
		}                       \
		r_;                     \
	})

/* FreeBSD's DONTNEED may keep what is in anonymous pages and FREE drops it lazily; OpenBSD's
 * DONTNEED only deactivates. Neither promises zeroes: the probe looks (pgw_dontneed_zeroes). */
static int sys_madvise(void *addr, size_t len, int advice)
{
	return (int)CALL(madvise(addr, len, advice));
}

static int64_t sys_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	return -ENOSYS; /* no vector: one madvise a range, neighbours joined */
}

static int sys_pidfd_open(pid_t pid, unsigned flags)
{
	return -ENOSYS;
}

static int sys_map_anon(void *addr, size_t len, int prot, int extra_flags, void **out)
{
	int saved = errno;
	void *p = mmap(addr, len, prot, MAP_PRIVATE | MAP_ANON | extra_flags, -1, 0);

	if (p == MAP_FAILED) {
		int err = -errno;

		errno = saved;
		return err;
	}
	*out = p;
	return 0;
}

static int sys_unmap(void *addr, size_t len)
{
	return (int)CALL(munmap(addr, len));
}

static int sys_unlock(void *addr, size_t len)
{
	return (int)CALL(munlock(addr, len));
}

static int sys_mincore(void *addr, size_t len, unsigned char *vec)
{
#ifdef __FreeBSD__
	return (int)CALL(mincore(addr, len, (char *)vec));
#else
	return -ENOSYS; /* OpenBSD has taken it out */
#endif
}

static int sys_msync(void *addr, size_t len, int flags)
{
	return (int)CALL(msync(addr, len, flags));
}

static int sys_fdatasync(int fd)
{
	return (int)CALL(fdatasync(fd));
}

static int sys_fsync(int fd)
{
	return (int)CALL(fsync(fd));
}

static int sys_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	return -ENOSYS; /* no "writeout": see docs/portability.md */
}

static int64_t sys_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	return CALL(pwritev(fd, v, n, (off_t)off));
}

static int sys_allocate(int fd, uint64_t off, uint64_t len)
{
#ifdef __FreeBSD__
	return -posix_fallocate(fd, (off_t)off, (off_t)len); /* returns the error */
#else
	return -ENOSYS;
#endif
}

static int sys_drop_cached(int fd, uint64_t off, uint64_t len)
{
#ifdef POSIX_FADV_DONTNEED
	return -posix_fadvise(
	    fd, (off_t)off, (off_t)len, POSIX_FADV_DONTNEED); /* returns the error */
#else
	return -ENOSYS;
#endif
}

/* File systems have names there, not numbers: none is known, so none is taken at its word. */
static int sys_fs_magic(int fd, uint64_t *magic)
{
	return -ENOSYS;
}

static int sys_fd_mode(int fd, mode_t *mode)
{
	struct stat s;
	int err = (int)CALL(fstat(fd, &s));

	if (!err)
		*mode = s.st_mode;
	return err;
}

static int sys_fd_flags(int fd)
{
	return (int)CALL(fcntl(fd, F_GETFL));
}

static int sys_fd_move(int fd, int lowest)
{
	int r = (int)CALL(fcntl(fd, F_DUPFD_CLOEXEC, lowest));

	if (r >= 0)
		(void)CALL(close(fd));
	return r;
}

static int sys_close(int fd)
{
	return (int)CALL(close(fd));
}

static pid_t sys_getpid(void)
{
	return getpid();
}

static int sys_major_faults(uint64_t *n)
{
	struct rusage u;
	int err = (int)CALL(getrusage(RUSAGE_SELF, &u));

	if (!err)
		*n = (uint64_t)u.ru_majflt;
	return err;
}

#include "sys_table.h" /* here, where all of it is defined */

int pgw__sys_write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		int64_t r = CALL(write(fd, p, len));

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r ? (int)r : -EIO;
		p += r;
		len -= (size_t)r;
	}
	return 0;
}
