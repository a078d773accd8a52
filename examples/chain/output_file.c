/* SPDX-License-Identifier: BSD-2-Clause
 *
 * output_file.c - see output_file.h.
 */
#include "output_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

static int cannot(const char *what, const char *path, struct chain_error *err)
{
	return chain_fail(err, CHAIN_SYSTEM, "%s: cannot %s: %s", path, what, strerror(errno));
}

static int write_part(const char *part, int (*fill)(void *ctx, FILE *f, struct chain_error *err),
    void *ctx, struct chain_error *err)
{
	FILE *f = fopen(part, "wbe");

	if (!f)
		return cannot("create", part, err);
	(void)setvbuf(f, NULL, _IOFBF, 1 << 20);
	if (fill(ctx, f, err)) {
		fclose(f);
		return -1;
	}
	if (fflush(f) || fsync(fileno(f))) {
		(void)cannot("sync", part, err);
		fclose(f);
		return -1;
	}
	return fclose(f) ? cannot("close", part, err) : 0;
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
	if (write_part(part, fill, ctx, err)) {
		(void)unlink(part);
		return -1;
	}
	if (rename(part, path)) {
		(void)cannot("rename to it", path, err);
		(void)unlink(part);
		return -1;
	}
	errno = folder_sync(path);
	return errno ? cannot("sync the folder of", path, err) : 0;
}
