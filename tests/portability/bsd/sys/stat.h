/* SPDX-License-Identifier: BSD-2-Clause
 *
 * As sys/mman.h beside it.
 */
#pragma once
#include <sys/types.h>

struct stat {
	mode_t st_mode;
	off_t st_size;
};
int fstat(int fd, struct stat *s);
