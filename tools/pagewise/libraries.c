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

/* A directory the program can be in, and where its libraries are then, from the same root. */
struct layout {
	const char *program_dir;
	const char *library[2]; /* by enum preload */
};

static const struct layout build_layout = {
	"/tools/pagewise",
	{ "/alloc/libpagewise-alloc.so", "/store/compat/liblmdb.so.0" },
};

static const struct layout installed_layout = {
	PGW_BINDIR,
	{ PGW_LIBDIR "/libpagewise-alloc.so.0", PGW_PKGLIBDIR "/liblmdb.so.0" },
};

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

/* Length of ROOT if dir is ROOT with tail appended, else -1. */
static int root_length(const char *dir, const char *tail)
{
	size_t d = strlen(dir), t = strlen(tail);

	return d >= t && !strcmp(dir + d - t, tail) ? (int)(d - t) : -1;
}

/* Only one place is tried: the libraries of another build or version would be a surprise. */
char *preload_library(enum preload which)
{
	const struct layout *layout = &build_layout;
	char dir[PATH_MAX], *path;
	int root;

	if (own_directory(dir))
		return NULL;
	root = root_length(dir, layout->program_dir);
	if (root < 0) {
		layout = &installed_layout;
		root = root_length(dir, layout->program_dir);
	}
	/* Installed, and reached through a link: the libraries are where the build was told. */
	if (root < 0)
		root = 0;
	if (asprintf(&path, "%.*s%s", root, dir, layout->library[which]) < 0) {
		complain("out of memory");
		return NULL;
	}
	if (access(path, R_OK) == 0)
		return path;
	complain("the %s library is not at %s: build or install it, or leave it out with %s",
	    names[which].part, path, names[which].option);
	free(path);
	return NULL;
}
