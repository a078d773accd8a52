/* SPDX-License-Identifier: BSD-2-Clause
 *
 * libraries.c - where the libraries to preload, and the benchmarks, are.
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

#define BUILD_DIR "/tools/pagewise" /* of this program, below the build folder */

/* A file, below the root that this program's directory has, too. */
struct place {
	const char *built, *installed;
};

static const struct {
	const char *part, *option;
	struct place place;
} libraries[] = {
	[PRELOAD_ALLOC] = { "alloc", "--no-alloc",
	    { "/alloc/libpagewise-alloc.so", PGW_LIBDIR "/libpagewise-alloc.so.0" } },
	[PRELOAD_STORE] = { "store", "--no-store",
	    { "/store/compat/liblmdb.so.0", PGW_PKGLIBDIR "/liblmdb.so.0" } },
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

/* Length of ROOT if dir is ROOT with tail appended, else -1. */
static int root_length(const char *dir, const char *tail)
{
	size_t d = strlen(dir), t = strlen(tail);

	return d >= t && !strcmp(dir + d - t, tail) ? (int)(d - t) : -1;
}

/* Only one place is tried: files of another build or version would be a surprise. NULL after a
 * message; else malloc'd, and the file may be there or not. */
static char *beside(const struct place *place, const char *suffix)
{
	const char *below = place->built;
	char dir[PATH_MAX], *path;
	int root;

	if (own_directory(dir))
		return NULL;
	root = root_length(dir, BUILD_DIR);
	if (root < 0) {
		below = place->installed;
		root = root_length(dir, PGW_BINDIR);
	}
	/* Installed, and reached through a link: they are where the build was told. */
	if (root < 0)
		root = 0;
	if (asprintf(&path, "%.*s%s%s", root, dir, below, suffix) < 0) {
		complain("out of memory");
		return NULL;
	}
	return path;
}

char *preload_library(enum preload which)
{
	char *path = beside(&libraries[which].place, "");

	if (!path || access(path, R_OK) == 0)
		return path;
	complain("the %s library is not at %s: build or install it, or leave it out with %s",
	    libraries[which].part, path, libraries[which].option);
	free(path);
	return NULL;
}

char *benchmark_program(const char *name)
{
	static const struct place place = { "/bench/bench-", PGW_LIBEXECDIR "/bench-" };

	return beside(&place, name);
}
