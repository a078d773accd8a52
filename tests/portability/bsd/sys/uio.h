/* SPDX-License-Identifier: BSD-2-Clause
 *
 * As sys/mman.h beside it.
 */
#pragma once
#include <sys/types.h>

struct iovec {
	void *iov_base;
	size_t iov_len;
};
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t offset);
