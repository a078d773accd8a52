/* SPDX-License-Identifier: BSD-2-Clause
 *
 * program.c - the program that `run` will start, and whether a preload can reach it.
 */
#include "command.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "elf_file.h"

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

/* Programs with the runtime of a sanitizer in them, which is a malloc of its own. */
static const struct {
	const char *symbol, *why;
} sanitizers[] = {
	{ "__asan_init", "it is built with AddressSanitizer, which is a malloc of its own" },
	{ "__hwasan_init", "it is built with HWAddressSanitizer, which is a malloc of its own" },
	{ "__lsan_init", "it is built with LeakSanitizer, which is a malloc of its own" },
	{ "__msan_init", "it is built with MemorySanitizer, which is a malloc of its own" },
	{ "__tsan_init", "it is built with ThreadSanitizer, which is a malloc of its own" },
};

static void look_inside(int fd, struct preload_obstacle *out)
{
	struct elf e;

	if (!elf_open(&e, fd))
		return;
	/* Without an interpreter there is no loader that could preload anything. */
	if (!elf_has_interpreter(&e))
		*out = (struct preload_obstacle){ .why = "it is statically linked", .store = true };
	else if (elf_has_prefix(&e, "libasan.so") || elf_has_prefix(&e, "libclang_rt.asan"))
		*out = (struct preload_obstacle){
			.why = "it is built with AddressSanitizer, whose library must be the first",
			.store = true,
			.fatal = true,
		};
	for (size_t i = 0; !out->why && i < sizeof(sanitizers) / sizeof(*sanitizers); i++)
		if (elf_has_name(&e, sanitizers[i].symbol))
			*out = (struct preload_obstacle){ .why = sanitizers[i].why, .fatal = true };
	elf_close(&e);
}

struct preload_obstacle program_preload_obstacle(const char *path)
{
	struct preload_obstacle found = { 0 };
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) /* executable and not readable: nothing to be seen */
		return found;
	if (fstat(fd, &st) == 0 && gains_privilege(fd, &st))
		found = (struct preload_obstacle){
			.why = "it is set-user-ID or gains capabilities",
			.store = true,
		};
	else
		look_inside(fd, &found);
	close(fd);
	return found;
}
