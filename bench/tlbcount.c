/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tlbcount.c - see tlbcount.h.
 */
#include "tlbcount.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The number of the tracepoint, or -1. */
static long tracepoint(void)
{
	static const char *const paths[] = { "/sys/kernel/tracing/events/tlb/tlb_flush/id",
		"/sys/kernel/debug/tracing/events/tlb/tlb_flush/id" };
	char line[32] = "";

	for (size_t i = 0; i < 2 && !line[0]; i++) {
		FILE *f = fopen(paths[i], "r");

		if (!f)
			continue;
		if (!fgets(line, sizeof(line), f))
			line[0] = '\0';
		fclose(f);
	}
	return line[0] ? strtol(line, NULL, 10) : -1;
}

int tlbcount_open(const char **why)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.inherit = 1,
	};
	long id = tracepoint();
	int fd;

	if (id < 0) {
		*why = "no tracepoint tlb:tlb_flush that this user can read";
		return -ENOENT;
	}
	attr.config = (uint64_t)id;
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		return fd;
	*why = "perf_event_open is not permitted (perf_event_paranoid)";
	return -errno;
}

uint64_t tlbcount_read(int fd)
{
	uint64_t n = 0;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		abort();
	return n;
}
