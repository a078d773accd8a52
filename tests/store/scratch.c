/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scratch.c - see scratch.h.
 */
#include "scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool make_in(const char *parent, char *dir, size_t size)
{
	snprintf(dir, size, "%s/pagewise-test-XXXXXX", parent);
	return mkdtemp(dir) != NULL;
}

void scratch_make_here(char *dir, size_t size)
{
	char cwd[256];

	if (!getcwd(cwd, sizeof(cwd)) || !make_in(cwd, dir, size)) {
		perror("a folder for the test");
		exit(1);
	}
}

void scratch_make(char *dir, size_t size)
{
	if (!make_in("/dev/shm", dir, size))
		scratch_make_here(dir, size);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void scratch_remove(const char *dir)
{
	nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
