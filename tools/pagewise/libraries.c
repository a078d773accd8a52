/* SPDX-License-Identifier: BSD-2-Clause
 *
 * libraries.c - where the libraries to preload are.
 *
 * They are looked for beside the running program, not where the build thought it would be
 * installed: a build folder, a tree staged with DESTDIR, and an installed copy each run their own.
 */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A place the program can be in, and the libraries that go with it, from the same root. */
static const struct layout {
	const char *program_dir;
	const char *library[2]; /* by enum preload */
} layouts[] = {
	{ "/tools/pagewise", { "/alloc/libpagewise-alloc.so", "/store/compat/liblmdb.so.0" } },
	{ PGW_BINDIR, { PGW_LIBDIR "/libpagewise-alloc.so.0", PGW_PKGLIBDIR "/liblmdb.so.0" } },
};

#define NLAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

static const struct {
	const char *part, *option;
} names[] = {
	[PRELOAD_ALLOC] = { "alloc", "--no-alloc" },
	[PRELOAD_STORE] = { "store", "--no-store" },
};

/* The directory of this program, without a final slash. */
static int own_directory(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
	char *slash;

	if (n < 0) {
		complain("cannot read /proc/self/exe to find the libraries beside this program: %s",
		    strerror(errno));
		return -1;
	}
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

/* ROOT of dir if dir is ROOT with tail appended, else NULL. */
static char *root_of(const char *dir, const char *tail)
{
	size_t d = strlen(dir), t = strlen(tail);

	if (d < t || strcmp(dir + d - t, tail))
		return NULL;
	return strndup(dir, d - t);
}

char *preload_library(enum preload which)
{
	char dir[PATH_MAX], *path = NULL, *last = NULL;

	if (own_directory(dir))
		return NULL;
	for (size_t i = 0; i < NLAYOUTS; i++) {
		char *root = root_of(dir, layouts[i].program_dir);

		/* An installed program that was reached through a link: its libraries are where it
		 * was told at build time. */
		if (!root && !strcmp(layouts[i].program_dir, PGW_BINDIR))
			root = strdup("");
		if (!root)
			continue;
		if (asprintf(&path, "%s%s", root, layouts[i].library[which]) < 0)
			path = NULL;
		free(root);
		if (path && access(path, R_OK) == 0) {
			free(last);
			return path;
		}
		free(last);
		last = path;
	}
	complain("the %s library is not at %s: build or install it, or leave it out with %s",
	    names[which].part, last ? last : "any known place", names[which].option);
	free(last);
	return NULL;
}
