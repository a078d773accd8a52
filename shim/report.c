/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report.c - PAGEWISE_STATS: who writes the report of a process, and where to (report.h).
 *
 * All of it is set up in constructors, single-threaded, and only if PAGEWISE_STATS is set:
 *
 *  I1  The owner is the first library of the global scope that exports pgw_report_register_0, or
 *      the library itself if there is none. Only owners have parts; only owners write.
 *  I2  A library that has handed over a part stays in memory (RTLD_NODELETE).
 *  I3  A number that was standard error when the process began may belong to a file of the program
 *      by the time it ends (daemons close 0, 1, 2; closefrom). Nothing is written to a descriptor
 *      that is not the same open file's inode as at the beginning. Programs that close their
 *      standard error before the destructors run (all of coreutils do) are why a duplicate with a
 *      high number is kept, for the report or for the complaint that its file cannot be written.
 *  I4  A relative path means the directory the process was started in.
 */
#include "report.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/version.h>

#include "stats.h"
#include "sys.h"

#define MAX_PARTS  8
#define MAX_RESETS 4

/* What is shown of something that fits no line. */
#define LONG_SUBJECT 64

/* "alloc", "store" and "shim" with every advice and every fallback in use come to 3 times 6 KiB. */
#define REPORT_BYTES (32 << 10)

static struct {
	bool asked; /* whether set_up was called, and what it said */
	bool on;
	void *self;    /* I2 */
	bool to_error; /* PAGEWISE_STATS=1 */
	bool written;
	int error_fd; /* duplicate of standard error, or -1 */
	struct stat error_file;
	bool error_known;
	size_t parts;
	struct pgw__report_part part[MAX_PARTS];
	size_t resets;
	void (*reset[MAX_RESETS])(void);
	char path[PATH_MAX];
} report;

/* Append s to the text of len bytes in buf; false if it does not fit. */
static bool append(char *buf, size_t cap, size_t *len, const char *s)
{
	size_t n = strlen(s);

	if (n >= cap - *len)
		return false;
	memcpy(buf + *len, s, n + 1);
	*len += n;
	return true;
}

/* Decimal digits of v, in buf. */
static const char *decimal(char buf[24], unsigned long v)
{
	char *p = buf + 23;

	*p = '\0';
	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	return p;
}

static bool is_first_error_file(int fd)
{
	struct stat st;

	return report.error_known && !fstat(fd, &st) && st.st_dev == report.error_file.st_dev &&
	       st.st_ino == report.error_file.st_ino && st.st_rdev == report.error_file.st_rdev;
}

/* I3. A descriptor that leads to the standard error of the beginning, or -1. */
static int error_output(void)
{
	if (is_first_error_file(STDERR_FILENO))
		return STDERR_FILENO;
	if (report.error_fd >= 0 && is_first_error_file(report.error_fd))
		return report.error_fd;
	return -1;
}

/* 0 or -errno. */
static int warn_on(int fd, const char *subject, const char *text)
{
	char line[PATH_MAX + 256];
	size_t len = 0;

	append(line, sizeof(line) - 1, &len, "pagewise: ");
	if (subject && !append(line, PATH_MAX, &len, subject)) {
		line[len] = '\0';
		strncat(line, subject, LONG_SUBJECT);
		len = strlen(line);
		append(line, sizeof(line) - 1, &len, "...");
	}
	append(line, sizeof(line) - 1, &len, text);
	append(line, sizeof(line), &len, "\n");
	return pgw__sys_write_all(fd, line, len);
}

void pgw__warn(const char *subject, const char *text)
{
	(void)warn_on(STDERR_FILENO, subject, text);
}

void pgw__warn_prepare(void)
{
	if (report.error_known)
		return;
	report.error_fd = -1;
	report.error_known = !fstat(STDERR_FILENO, &report.error_file);
}

/* Its reader may be gone. A program that says nothing itself must not be ended by what we say. */
static void warn_without_signal(int fd, const char *subject, const char *text)
{
	static const struct timespec at_once;
	sigset_t pipe, before, pending;
	bool was_pending;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigemptyset(&pending);
	(void)sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	(void)pthread_sigmask(SIG_BLOCK, &pipe, &before);
	if (warn_on(fd, subject, text) == -EPIPE && !was_pending)
		(void)sigtimedwait(&pipe, NULL, &at_once);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void pgw__warn_later(const char *subject, const char *text)
{
	int saved = errno, fd = error_output();

	if (fd >= 0)
		warn_without_signal(fd, subject, text);
	errno = saved;
}

static void keep_error_output(void)
{
	static const int lowest[] = { 512, 64, 10 };

	pgw__warn_prepare();
	for (size_t i = 0; report.error_known && i < 3; i++) {
		report.error_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, lowest[i]);
		if (report.error_fd >= 0)
			break;
	}
}

/* I4. */
static bool keep_path(const char *path)
{
	size_t len = 0;

	if (path[0] != '/') {
		if (!getcwd(report.path, sizeof(report.path)))
			return false;
		len = strlen(report.path);
		if (!append(report.path, sizeof(report.path), &len, "/"))
			return false;
	}
	return append(report.path, sizeof(report.path), &len, path);
}

/* I2. dladdr and dlopen find whatever object this code was linked into; a program's own cannot be
 * opened, and need not. */
static void stay_loaded(void)
{
	Dl_info info;

	if (dladdr(&report, &info) && info.dli_fname && info.dli_fname[0])
		report.self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void in_child(void)
{
	pgw__stats_reset();
	for (size_t i = 0; i < report.resets; i++)
		report.reset[i]();
}

static bool set_up(void)
{
	const char *where = secure_getenv("PAGEWISE_STATS");

	if (report.asked)
		return report.on;
	report.asked = true;
	if (!where || !where[0] || !strcmp(where, "0"))
		return false;
	report.to_error = !strcmp(where, "1");
	keep_error_output();
	if (!report.to_error && !keep_path(where)) {
		pgw__warn(where, ": PAGEWISE_STATS names a path that is too long, or one from a "
				 "directory that is gone; no report is written");
		return false;
	}
	/* On before dlopen: if another library's constructor has called us, our own has not run yet,
	 * and dlopen runs it. */
	report.on = true;
	stay_loaded();
	(void)pthread_atfork(NULL, NULL, in_child);
	return true;
}

__attribute__((visibility("default"))) bool pgw_report_register_0(
    const struct pgw__report_part *part)
{
	/* Possibly called before this library's own constructor. */
	if (!set_up() || report.written || report.parts == MAX_PARTS)
		return false;
	report.part[report.parts++] = *part;
	return true;
}

typedef bool register_fn(const struct pgw__report_part *part);

/* I1. Through a handle of the program and not RTLD_DEFAULT, which begins with the caller itself if
 * that was linked with -Bsymbolic. */
static register_fn *find_owner(void)
{
	void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
	register_fn *owner = NULL;

	if (program) {
		/* POSIX wants this spelling of a conversion that ISO C does not have. */
		*(void **)&owner = dlsym(program, "pgw_report_register_0");
		dlclose(program);
	}
	return owner;
}

void pgw__warn_setting(const char *value, const char *text)
{
	int saved = errno;
	register_fn *owner = find_owner();

	if (!owner || owner == pgw_report_register_0)
		pgw__warn(value, text);
	errno = saved;
}

void pgw__report_register(const char *part, pgw__report_fn *fn)
{
	struct pgw__report_part mine = { part, fn };
	int saved = errno;

	if (set_up()) {
		register_fn *owner = find_owner();

		if (!owner || !owner(&mine))
			(void)pgw_report_register_0(&mine);
	}
	errno = saved;
}

void pgw__report_reset_in_child(void (*reset)(void))
{
	if (report.on && report.resets < MAX_RESETS)
		report.reset[report.resets++] = reset;
}

/* Returns whether any part was in use. */
static bool format(struct pgw__json *j)
{
	bool used = false;

	pgw__json_open(j, NULL, '{');
	pgw__json_str(j, "pagewise", pgw_version());
	pgw__json_u64(j, "pid", (uint64_t)pgw__sys.getpid());
	pgw__json_str(j, "command", program_invocation_short_name);
	pgw__json_open(j, "parts", '{');
	for (size_t i = 0; i < report.parts; i++) {
		struct pgw__json before = *j;
		size_t empty;

		pgw__json_open(j, report.part[i].name, '{');
		empty = j->len;
		report.part[i].fn(j);
		if (j->len == empty && !j->full) {
			*j = before;
			continue;
		}
		used = true;
		pgw__json_close(j, '}');
	}
	pgw__json_close(j, '}');
	pgw__json_close(j, '}');
	return used;
}

bool pgw__report_expand_path(const char *path, char *out, size_t cap)
{
	char pid[24], one[2] = "";
	size_t len = 0;

	out[0] = '\0';
	for (const char *p = path; *p; p++) {
		const char *piece = one;

		one[0] = *p;
		if (p[0] == '%' && p[1] == 'p') {
			piece = decimal(pid, (unsigned long)pgw__sys.getpid());
			p++;
		}
		if (!append(out, cap, &len, piece))
			return false;
	}
	return true;
}

static void write_to_file(const char *line, size_t len)
{
	char path[PATH_MAX];
	int fd, err = -ENAMETOOLONG;

	if (pgw__report_expand_path(report.path, path, sizeof(path))) {
		fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
		err = fd < 0 ? -errno : pgw__sys_write_all(fd, line, len);
		if (fd >= 0)
			pgw__sys.close(fd);
	}
	if (err && error_output() >= 0) {
		char text[128];
		size_t n = 0;

		append(text, sizeof(text), &n, ": cannot write the report of PAGEWISE_STATS: ");
		append(text, sizeof(text), &n, strerrordesc_np(-err));
		(void)warn_on(error_output(), report.path, text);
	}
}

__attribute__((destructor)) static void write_report(void)
{
	static char buf[REPORT_BYTES];
	static const char too_long[] =
	    "{\"pagewise\":\"" PGW_VERSION "\",\"error\":\"the report does not fit its buffer\"}\n";
	struct pgw__json j;
	const char *line = buf;
	int saved = errno;

	if (report.written || !report.parts)
		return;
	report.written = true;
	pgw__json_init(&j, buf, sizeof(buf) - 1);
	if (!format(&j))
		return;
	buf[j.len++] = '\n';
	if (j.full) {
		line = too_long;
		j.len = sizeof(too_long) - 1;
	}
	if (!report.to_error)
		write_to_file(line, j.len);
	else if (error_output() >= 0)
		pgw__sys_write_all(error_output(), line, j.len);
	errno = saved;
}
