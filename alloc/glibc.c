/* SPDX-License-Identifier: BSD-2-Clause
 *
 * glibc.c - functions of the malloc family as glibc's callers know them.
 *
 * jemalloc's realloc, memalign and valloc do not set errno when they fail, its memalign takes no
 * alignment but powers of two, and before 5.3.1 it has no pvalloc at all. A program that was
 * written for glibc prints "Success" then, or goes on as if it had memory. So these are ours, and
 * jemalloc's, under other names (meson.build), do the work.
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include <pagewise/probe.h>

#define EXPORT __attribute__((visibility("default")))

void *pgw__jemalloc_realloc(void *ptr, size_t size);
void *pgw__jemalloc_memalign(size_t alignment, size_t size);
void *pgw__jemalloc_valloc(size_t size);

static void *or_errno(void *p)
{
	if (__builtin_expect(!p, 0))
		errno = ENOMEM;
	return p;
}

/* Of size 0 there may be nothing to return: the block is freed. */
EXPORT void *realloc(void *ptr, size_t size)
{
	void *p = pgw__jemalloc_realloc(ptr, size);

	return size ? or_errno(p) : p;
}

/* An alignment between two powers of two is taken for the larger one. */
EXPORT void *memalign(size_t alignment, size_t size)
{
	size_t power = sizeof(void *);

	if (alignment > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	while (power < alignment)
		power *= 2;
	return or_errno(pgw__jemalloc_memalign(power, size));
}

EXPORT void *valloc(size_t size)
{
	return or_errno(pgw__jemalloc_valloc(size));
}

/* Whole pages, at least one. Without it the memory would be glibc's, and end in our free. */
EXPORT void *pvalloc(size_t size)
{
	size_t page = pgw_page_size(), rounded = (size + page - 1) & ~(page - 1);

	if (rounded < size)
		return or_errno(NULL);
	return or_errno(pgw__jemalloc_memalign(page, rounded ? rounded : page));
}
