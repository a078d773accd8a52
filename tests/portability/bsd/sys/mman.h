/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What <sys/mman.h> of FreeBSD and OpenBSD declares of what shim/sys_bsd.c uses, and no more: a
 * declaration that only Linux has is missing here, and fails the check.
 */
#pragma once
#include <sys/types.h>

#define PROT_READ   1
#define PROT_WRITE  2
#define MAP_SHARED  0x0001
#define MAP_PRIVATE 0x0002
#define MAP_ANON    0x1000
#define MAP_FAILED  ((void *)-1)

#define MADV_WILLNEED 3
#define MADV_DONTNEED 4
#ifdef __FreeBSD__
#define MADV_FREE 5
#define MS_SYNC	  0x0000
#else
#define MADV_FREE 6
#define MS_SYNC	  0x0002
#endif
#define MS_ASYNC 0x0001

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
int munmap(void *addr, size_t len);
int munlock(const void *addr, size_t len);
int madvise(void *addr, size_t len, int behav);
int msync(void *addr, size_t len, int flags);
#ifdef __FreeBSD__
int mincore(const void *addr, size_t len, char *vec);
#endif
