/* SPDX-License-Identifier: BSD-2-Clause
 *
 * As sys/mman.h beside it.
 */
#pragma once
#include <sys/types.h>

int close(int fd);
int fdatasync(int fd);
int fsync(int fd);
pid_t getpid(void);
ssize_t write(int fd, const void *buf, size_t len);
