/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats_file.c - can the file of --stats be written? (shim/report.c will, when the command ends.)
 *
 * No file is made here: a process that has nothing to report leaves none, and one that was made to
 * try and then removed could be one that another process has just written to.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

static int can_append(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* path is changed. */
static int can_create(char *path)
{
	return faccessat(AT_FDCWD, dirname(path), W_OK | X_OK, AT_EACCESS) ? errno : 0;
}

int stats_file_check(const char *value)
{
	char path[PATH_MAX];
	struct stat st;

	if (!pgw__report_expand_path(value, path, sizeof(path)))
		return ENAMETOOLONG;
	if (stat(path, &st))
		return errno == ENOENT ? can_create(path) : errno;
	if (S_ISFIFO(st.st_mode)) /* to open it is to wait for a reader */
		return 0;
	return can_append(path);
}
