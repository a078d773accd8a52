/* SPDX-License-Identifier: BSD-2-Clause
 *
 * advise.c - a pool of buffers that gives the idle ones back to the kernel, in one go.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <pagewise/pagewise.h>

#define BUFFERS	 4000
#define PER_PAGE 4 /* pages of a buffer */

static char *pool;

static char *buffer(size_t i)
{
	return pool + i * PER_PAGE * pgw_page_size();
}

/* Two buffers of three are idle. Returns the number of ranges. */
static size_t find_idle(struct pgw_range *idle)
{
	size_t n = 0;

	for (size_t i = 0; i < BUFFERS; i++)
		if (i % 3)
			idle[n++] =
			    (struct pgw_range){ (uintptr_t)buffer(i), PER_PAGE * pgw_page_size() };
	return n;
}

int main(void)
{
	static struct pgw_range idle[BUFFERS];
	static int status[BUFFERS];
	struct pgw_advise_report report;
	size_t bytes = BUFFERS * PER_PAGE * pgw_page_size(), n;
	int err;

	pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	memset(pool, 'x', bytes);

	n = find_idle(idle);
	err = pgw_advise(idle, n, PGW_DONTNEED, status, &report);
	for (size_t i = 0; err && i < n; i++) /* one that failed costs only itself */
		if (status[i])
			fprintf(stderr, "buffer %zu: %s\n", i, strerror(-status[i]));
	printf("%zu idle buffers, %" PRIu64 " bytes given back by %" PRIu64 " calls\n", n,
	    report.done_bytes, report.vectored_calls + report.single_calls);

	if (pgw_dontneed_zeroes() && (*buffer(1) || *buffer(2) || *buffer(3) != 'x')) {
		fprintf(stderr, "not what was asked for\n");
		return 1;
	}
	munmap(pool, bytes);
	return err != 0;
}
