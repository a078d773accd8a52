/* SPDX-License-Identifier: BSD-2-Clause
 *
 * As sys/mman.h beside it.
 */
#pragma once
#include <sys/types.h>

#define F_GETFL 3
#ifdef __FreeBSD__
#define F_DUPFD_CLOEXEC 17
int posix_fallocate(int fd, off_t offset, off_t len);
#else
#define F_DUPFD_CLOEXEC 10
#endif
int fcntl(int fd, int command, ...);
