/* SPDX-License-Identifier: BSD-2-Clause
 *
 * path.c - how a file, or a file made in a directory, would be synced.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct path_report *out, const char *step)
{
	out->error = errno;
	out->step = step;
	return -1;
}

/* File systems without O_TMPFILE answer EOPNOTSUPP, old kernels EISDIR. */
static int open_scratch(const char *dir)
{
	char *name;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	if (asprintf(&name, "%s/.pagewise-XXXXXX", dir) < 0)
		return -1;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	free(name);
	return fd;
}

/* A strategy is a matter of file and descriptor: one that cannot be written is looked at as one
 * that is open read-only. Only files and directories are opened at all: to open a device can be an
 * act. */
static int open_for_report(const char *path, struct path_report *out)
{
	struct stat st;
	int fd;

	if (stat(path, &st))
		return fail(out, "cannot look at it");
	if (S_ISDIR(st.st_mode)) {
		fd = open_scratch(path);
		if (fd < 0)
			return fail(out, "cannot make a scratch file in it");
		if (ftruncate(fd, (off_t)pgw_page_size()) == 0)
			return fd;
		fail(out, "cannot grow a scratch file in it");
		close(fd);
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		errno = EOPNOTSUPP;
		return fail(out, "neither a file nor a directory");
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EROFS || errno == ETXTBSY || errno == EPERM))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(out, "cannot open it");
	return fd;
}

void examine_path(const char *path, struct path_report *out)
{
	*out = (struct path_report){ .path = path };

	int fd = open_for_report(path, out);

	if (fd < 0)
		return;

	/* A database would map the file, and some strategies need the mapping. An empty file has
	 * none, and that is reported as it is. */
	size_t len = pgw_page_size();
	struct stat st;
	void *map = MAP_FAILED;

	if (fstat(fd, &st) == 0 && st.st_size > 0)
		map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

	int r = pgw_sync_init(&out->file, fd, map == MAP_FAILED ? NULL : map,
	    map == MAP_FAILED ? 0 : len, PGW_SYNC_AUTO);

	if (r) {
		out->error = -r;
		out->step = "cannot choose a strategy";
	}
	if (map != MAP_FAILED)
		munmap(map, len);
	close(fd);
}
