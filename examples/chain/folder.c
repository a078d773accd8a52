/* SPDX-License-Identifier: BSD-2-Clause
 *
 * folder.c - see folder.h.
 */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

int folder_sync(const char *path)
{
	char name[PATH_MAX];
	int fd, rc;

	if (strlen(path) >= sizeof(name))
		return ENAMETOOLONG;
	strcpy(name, path);
	fd = open(dirname(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		rc = fsync(fd) ? errno : 0;
	} else if (errno == EACCES) { /* a folder that can be written, but not read */
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return errno;
		rc = syncfs(fd) ? errno : 0;
	} else {
		return errno;
	}
	close(fd);
	return rc == EINVAL ? 0 : rc;
}
