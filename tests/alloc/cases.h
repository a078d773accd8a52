/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cases.h - a test program of which each run is one case: what it does would spoil the process for
 * another. A case returns 0, 1 after wrong(), or SKIP.
 */
#ifndef PGW_TEST_CASES_H
#define PGW_TEST_CASES_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#define SKIP 77

struct test_case {
	const char *name;
	int (*run)(void);
};

static inline int skip(const char *why)
{
	fprintf(stderr, "%s\n", why);
	return SKIP;
}

static inline int wrong(const char *what)
{
	fprintf(stderr, "FAIL: %s (errno %d)\n", what, errno);
	return 1;
}

static inline struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

/* Of this process. */
static inline size_t mappings(void)
{
	static char buf[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t lines = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += buf[i] == '\n';
	close(fd);
	return lines;
}

/* Bytes of this process that are in memory; SIZE_MAX if that cannot be read. No malloc. */
static inline size_t resident(void)
{
	char buf[256], *end;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return SIZE_MAX;
	buf[n] = '\0';
	(void)strtoul(buf, &end, 10); /* the address space */
	return strtoul(end, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* The exit code of main: of the case that is named. */
static inline int run_case(int argc, char **argv, const struct test_case *cases, size_t n)
{
	for (size_t i = 0; argc == 2 && i < n; i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}

#endif
