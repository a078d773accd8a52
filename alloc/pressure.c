/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pressure.c - see pressure.h.
 */
#include "pressure.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <linux/close_range.h>

#include <pagewise/probe.h>

#include "options.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_FILE "/memory.pressure"

static bool usable;

static struct {
	uint64_t us, at_ms; /* at_ms 0: not seen yet */
} last[PGW__PRESSURE_SOURCES];

/* May advice go through a pidfd (Linux 6.13 and 6.14)? That is a number of the program's table. */
static bool needs_pidfd(enum pgw_advice advice)
{
	struct pgw_probe p;

	return pgw_probe(advice, &p) || p.self == PGW_SELF_PIDFD;
}

void pgw__pressure_init(void)
{
	enum pgw_kernel_mode mode = pgw_kernel_mode();

	memset(last, 0, sizeof(last)); /* a child's purger has its own */
	usable = false;
	if (mode == PGW_KERNEL_OFF) /* for filters that kill: no call that is not needed */
		return;
	if (mode == PGW_KERNEL_VECTORED) /* a pidfd may be needed later */
		return;
	if (!needs_pidfd(PGW_DONTNEED) && !needs_pidfd(PGW_FREE))
		usable = close_range(0, UINT_MAX, CLOSE_RANGE_UNSHARE) == 0;
}

/* What is in a small file, as text. */
static bool read_file(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);

	if (fd >= 0)
		(void)close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
}

/* The cgroup of the unified hierarchy is the line "0::/its/path". */
static bool cgroup_path(char *path, unsigned cap)
{
	const size_t root = sizeof(CGROUP_ROOT) - 1;
	char text[2048], *line;
	size_t len;

	if (!read_file("/proc/self/cgroup", text, sizeof(text)))
		return false;
	line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
	if (!line)
		return false;
	line = strchr(line, '/');
	len = strcspn(line, "\n");
	if (len == 1) /* the root, whose file is the system's */
		len = 0;
	if (root + len + sizeof(CGROUP_FILE) > cap)
		return false;
	memcpy(path, CGROUP_ROOT, root);
	memcpy(path + root, line, len);
	memcpy(path + root + len, CGROUP_FILE, sizeof(CGROUP_FILE));
	return true;
}

static bool system_path(char *path, unsigned cap)
{
	static const char name[] = "/proc/pressure/memory";

	if (sizeof(name) > cap)
		return false;
	memcpy(path, name, sizeof(name));
	return true;
}

static bool find_path(unsigned source, char *path, unsigned cap)
{
	return source == 0 ? cgroup_path(path, cap) : system_path(path, cap);
}

bool (*pgw__pressure_path)(unsigned source, char *path, unsigned cap) = find_path;

bool pgw__pressure_parse(const char *text, uint64_t *us)
{
	const char *p = strncmp(text, "some ", 5) == 0 ? text : strstr(text, "\nsome ");
	const char *total = p ? strstr(p, "total=") : NULL;
	const char *end = p ? strchr(p + 1, '\n') : NULL;
	uint64_t v = 0;

	if (!total || (end && total > end))
		return false;
	total += strlen("total=");
	if (*total < '0' || *total > '9')
		return false;
	while (*total >= '0' && *total <= '9')
		v = v * 10 + (uint64_t)(*total++ - '0');
	*us = v;
	return true;
}

static bool pressed(unsigned source, uint64_t now_ms, uint64_t percent)
{
	char path[1024], text[512];
	uint64_t us = 0, was = last[source].us, at = last[source].at_ms;

	if (!pgw__pressure_path(source, path, sizeof(path)) ||
	    !read_file(path, text, sizeof(text)) || !pgw__pressure_parse(text, &us))
		return false;
	last[source].us = us;
	last[source].at_ms = now_ms;
	/* us of 1000 * ms, in percent. Less than was: it is another cgroup now. */
	return at && now_ms > at && us > was && us - was > (now_ms - at) * 10 * percent;
}

bool pgw__pressure(uint64_t now_ms)
{
	uint64_t percent = pgw__option(PGW_ALLOC_PRESSURE);
	bool is = false;

	if (!usable || !percent)
		return false;
	for (unsigned i = 0; i < PGW__PRESSURE_SOURCES; i++)
		is |= pressed(i, now_ms, percent);
	return is;
}
