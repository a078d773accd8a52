/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sys.h - the system calls pagewise is about, behind a table.
 *
 * shim/sys.c is the only file that makes them (tools/check-syscalls.sh proves it with nm).
 * Everything else calls through pgw__sys, so that a test can replace, count, or fail any of them.
 *
 * For all entries: the result is the call's own, or -errno; errno itself is left as it was (an
 * allocator calls these from inside free()); EINTR is returned, not retried; no allocation, no
 * lock.
 */
#ifndef PGW_SHIM_SYS_H
#define PGW_SHIM_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct pgw__sys {
	/* memory */
	int (*madvise)(void *addr, size_t len, int advice);
	int64_t (*process_madvise)(
	    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags);
	int (*pidfd_open)(pid_t pid, unsigned flags);
	/* Anonymous private pages, or exactly at addr if fixed. *out on success only. */
	int (*map_anon)(void *addr, size_t len, int prot, int extra_flags, void **out);
	int (*unmap)(void *addr, size_t len);
	int (*unlock)(void *addr, size_t len); /* munlock */
	int (*mincore)(void *addr, size_t len, unsigned char *vec);
	/* files */
	int (*msync)(void *addr, size_t len, int flags);
	int (*fdatasync)(int fd);
	int (*fsync)(int fd);
	int (*sync_file_range)(int fd, uint64_t off, uint64_t len, unsigned flags);
	int64_t (*pwritev)(int fd, const struct iovec *v, int n, uint64_t off);
	int (*allocate)(int fd, uint64_t off, uint64_t len);	/* fallocate, mode 0 */
	int (*drop_cached)(int fd, uint64_t off, uint64_t len); /* POSIX_FADV_DONTNEED */
	int (*fs_magic)(int fd, uint64_t *magic);		/* f_type of fstatfs(2) */
	int (*fd_mode)(int fd, mode_t *mode);			/* st_mode of fstat(2) */
	int (*fd_flags)(int fd);				/* fcntl(F_GETFL) */
	int (*fd_move)(int fd, int lowest); /* fcntl(F_DUPFD_CLOEXEC) and close the old one */
	int (*close)(int fd);
	pid_t (*getpid)(void);
	int (*major_faults)(uint64_t *n); /* of this process: getrusage(2) */
};

/* Constant but in tests. */
extern struct pgw__sys pgw__sys;

/* The real calls, for a test's replacement to fall through to. */
extern const struct pgw__sys pgw__sys_real;

/* write(2) until all of buf is written. Not in the table: it is how reports and warnings leave, from
 * destructors and from inside malloc. 0 or -errno; EINTR is retried; errno stays as it was. */
int pgw__sys_write_all(int fd, const void *buf, size_t len);

#endif
