/* SPDX-License-Identifier: BSD-2-Clause
 *
 * output_file.c - see output_file.h.
 */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

static int cannot(const char *what, const char *path, struct chain_error *err)
{
	return chain_fail(err, CHAIN_SYSTEM, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* PATH.part, for this process alone until the stream is closed. One that a killed process has left is
 * written over. It is locked before it is emptied: somebody else may be writing it; and it is looked
 * up again afterwards, since whoever had it may have made it the file meanwhile. */
static FILE *open_part(const char *part, struct chain_error *err)
{
	struct stat ours, there;
	FILE *f;

	for (;;) {
		int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

		if (fd < 0) {
			(void)cannot("create", part, err);
			return NULL;
		}
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			if (errno == EWOULDBLOCK)
				(void)chain_fail(err, CHAIN_REFUSED,
				    "%s: another process is writing it; wait for that, or name "
				    "another file",
				    part);
			else
				(void)cannot("lock", part, err);
			close(fd);
			return NULL;
		}
		if (fstat(fd, &ours) || stat(part, &there) || ours.st_dev != there.st_dev ||
		    ours.st_ino != there.st_ino) {
			close(fd);
			continue;
		}
		if ((S_ISREG(ours.st_mode) && ftruncate(fd, 0)) || !(f = fdopen(fd, "wb"))) {
			(void)cannot("write", part, err);
			close(fd);
			return NULL;
		}
		(void)setvbuf(f, NULL, _IOFBF, 1 << 20);
		return f;
	}
}

/* The lock is kept until the name is the new one. */
static int finish(FILE *f, const char *part, const char *path, struct chain_error *err)
{
	if (fflush(f) || fsync(fileno(f)))
		return cannot("sync", part, err);
	if (rename(part, path))
		return cannot("rename to it", path, err);
	return 0;
}

static int write_whole(const char *path, const char *part,
    int (*fill)(void *ctx, FILE *f, struct chain_error *err), void *ctx, struct chain_error *err)
{
	FILE *f = open_part(part, err);

	if (!f)
		return -1;
	if (fill(ctx, f, err) || finish(f, part, path, err)) {
		(void)unlink(part);
		fclose(f);
		return -1;
	}
	fclose(f); /* it is synced: what that can say is not about the file */
	errno = folder_sync(path);
	return errno ? chain_fail(err, CHAIN_SYSTEM,
			   "%s: is written, but its folder cannot be synced (%s): the name may be "
			   "gone after a power cut",
			   path, strerror(errno))
		     : 0;
}

/* A device, a pipe: there nothing is to appear, and nothing must take its place. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static int write_straight(const char *path,
    int (*fill)(void *ctx, FILE *f, struct chain_error *err), void *ctx, struct chain_error *err)
{
	FILE *f = fopen(path, "wbe");

	if (!f)
		return cannot("open", path, err);
	if (fill(ctx, f, err)) {
		fclose(f);
		return -1;
	}
	return fclose(f) ? cannot("write", path, err) : 0;
}

int output_file(const char *path, int (*fill)(void *ctx, FILE *f, struct chain_error *err),
    void *ctx, struct chain_error *err)
{
	char part[PATH_MAX], target[PATH_MAX];
	int n;

	if (strcmp(path, "-") == 0)
		return fill(ctx, stdout, err);
	if (is_special(path))
		return write_straight(path, fill, ctx, err);
	if (realpath(path, target)) /* not in place of a link that leads there */
		path = target;
	n = snprintf(part, sizeof(part), "%s.part", path);
	if (n < 0 || (size_t)n >= sizeof(part))
		return chain_fail(err, CHAIN_SYSTEM, "%s: name too long", path);
	return write_whole(path, part, fill, ctx, err);
}
