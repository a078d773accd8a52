/* SPDX-License-Identifier: BSD-2-Clause
 *
 * coredump.c - see coredump.h.
 */
#include "coredump.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noreturn, format(printf, 2, 3))) static void leave(int code, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(code);
}

/* Where dumps go to is a setting of the machine. */
static void check_pattern(void)
{
	char pattern[256] = "";
	FILE *f = fopen("/proc/sys/kernel/core_pattern", "re");

	if (!f || !fgets(pattern, sizeof(pattern), f))
		leave(77, "no /proc/sys/kernel/core_pattern");
	fclose(f);
	pattern[strcspn(pattern, "\n")] = '\0';
	if (!*pattern || strpbrk(pattern, "|/"))
		leave(77, "core dumps go to \"%s\", not to the current folder", pattern);
}

static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_CORE, &limit) || limit.rlim_max == 0)
		leave(77, "core dumps are forbidden here (hard limit 0)");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_CORE, &limit))
		leave(77, "the limit of core dumps cannot be raised");
}

static void find(struct coredump *c)
{
	DIR *d = opendir(c->dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (*e->d_name != '.')
			snprintf(c->path, sizeof(c->path), "%s/%.40s", c->dir, e->d_name);
	if (d)
		closedir(d);
	if (!*c->path)
		leave(1, "FAIL: no core dump in %s", c->dir);
}

/* Calls fn for each segment of memory until it is false. */
static bool each_segment(
    const struct coredump *c, bool (*fn)(const ElfW(Phdr) * p, void *arg), void *arg)
{
	ElfW(Ehdr) head;
	ElfW(Phdr) p;

	if (pread(c->fd, &head, sizeof(head), 0) != sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_type != ET_CORE)
		leave(1, "FAIL: %s is not a core dump", c->path);
	for (unsigned i = 0; i < head.e_phnum; i++) {
		off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof(p));

		if (pread(c->fd, &p, sizeof(p), at) != sizeof(p))
			leave(1, "FAIL: %s is cut short", c->path);
		if (p.p_type == PT_LOAD && !fn(&p, arg))
			return false;
	}
	return true;
}

static bool add_size(const ElfW(Phdr) * p, void *arg)
{
	*(uint64_t *)arg += p->p_filesz;
	return true;
}

void coredump_make(struct coredump *c, void (*prepare)(void *arg), void *arg)
{
	const char *tmp = getenv("TMPDIR");
	pid_t pid;
	int st;

	check_pattern();
	memset(c, 0, sizeof(*c));
	snprintf(c->dir, sizeof(c->dir), "%.40s/coredump.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(c->dir))
		leave(1, "FAIL: no folder for the dump");
	pid = fork();
	if (pid == 0) {
		raise_limit();
		if (chdir(c->dir) || prctl(PR_SET_DUMPABLE, 1))
			_exit(1);
		prepare(arg);
		abort();
	}
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		leave(1, "FAIL: no child");
	if (WIFEXITED(st)) { /* it has said why */
		rmdir(c->dir);
		exit(WEXITSTATUS(st));
	}
	if (!WCOREDUMP(st)) {
		rmdir(c->dir);
		leave(77, "the kernel made no core dump (signal %d)", WTERMSIG(st));
	}
	find(c);
	c->fd = open(c->path, O_RDONLY | O_CLOEXEC);
	if (c->fd < 0)
		leave(77, "the core dump cannot be opened");
	each_segment(c, add_size, &c->bytes);
}

struct wanted {
	uint64_t addr;
	size_t len;
	off_t at;
};

static bool not_here(const ElfW(Phdr) * p, void *arg)
{
	struct wanted *w = arg;

	if (w->addr < p->p_vaddr || w->addr - p->p_vaddr + w->len > p->p_filesz)
		return true;
	w->at = (off_t)(p->p_offset + (w->addr - p->p_vaddr));
	return false;
}

bool coredump_read(const struct coredump *c, uint64_t addr, void *to, size_t len)
{
	struct wanted w = { addr, len, 0 };

	return !each_segment(c, not_here, &w) && pread(c->fd, to, len, w.at) == (ssize_t)len;
}

void coredump_remove(struct coredump *c)
{
	close(c->fd);
	unlink(c->path);
	rmdir(c->dir);
}
