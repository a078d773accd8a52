/* SPDX-License-Identifier: BSD-2-Clause
 *
 * program.c - the program that `run` will start, and whether a preload can reach it.
 */
#include "command.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool is_executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *program_find(const char *name)
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/'))
		return is_executable(name) ? strdup(name) : NULL;
	if (!dirs)
		dirs = "/bin:/usr/bin"; /* execvp's default */
	for (;;) {
		size_t n = strcspn(dirs, ":");
		char *path;

		/* An empty element is the current directory. */
		if (asprintf(&path, "%.*s%s%s", (int)n, dirs, n ? "/" : "./", name) < 0)
			return NULL;
		if (is_executable(path))
			return path;
		free(path);
		if (!dirs[n])
			return NULL;
		dirs += n + 1;
	}
}

/* Would the kernel set AT_SECURE for this file? The loader takes no preload with a slash then. */
static bool gains_privilege(int fd, const struct stat *st)
{
	if ((st->st_mode & S_ISUID) && st->st_uid != getuid())
		return true;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getgid())
		return true;
	return getuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

/* An ELF program without an interpreter has no loader that could preload anything. */
static bool is_static(int fd)
{
	ElfW(Ehdr) e;
	ElfW(Phdr) p;

	if (pread(fd, &e, sizeof(e), 0) != (ssize_t)sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return false;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		off_t at = (off_t)(e.e_phoff + (uint64_t)i * e.e_phentsize);

		if (pread(fd, &p, sizeof(p), at) != (ssize_t)sizeof(p))
			return false;
		if (p.p_type == PT_INTERP)
			return false;
	}
	return true;
}

const char *program_preload_obstacle(const char *path)
{
	const char *why = NULL;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) /* executable and not readable: nothing to be seen */
		return NULL;
	if (fstat(fd, &st) == 0 && gains_privilege(fd, &st))
		why = "it is set-user-ID or gains capabilities";
	else if (is_static(fd))
		why = "it is statically linked";
	close(fd);
	return why;
}
