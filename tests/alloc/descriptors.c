/* SPDX-License-Identifier: BSD-2-Clause
 *
 * descriptors.c CASE: the numbers of descriptors are the program's alone. Linked to the library; run with
 * MALLOC_CONF=dirty_decay_ms:500, so that the purger works (and looks at files) all the time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#define KIB ((size_t)1 << 10)
#define N   400

static int wrong(const char *what)
{
	fprintf(stderr, "FAIL: %s (errno %d)\n", what, errno);
	return 1;
}

/* Always something to decay and to purge. */
static bool keep_busy(void)
{
	static unsigned char *v[N];
	bool ok = true;

	for (size_t i = 0; i < N; i++) {
		v[i] = malloc(40 * KIB);
		if (!v[i])
			return false;
		memset(v[i], (int)i, 40 * KIB);
	}
	for (size_t i = 0; i < N; i++) {
		ok &= v[i][40 * KIB - 1] == (unsigned char)i;
		free(v[i]);
	}
	return ok;
}

/* The lowest free number is what open gives: nobody else takes it, not even for a moment. */
static int numbers(void)
{
	int low = dup(STDERR_FILENO);

	if (low < 0 || close(low))
		return wrong("dup");
	for (int i = 0; i < 60000; i++) {
		int fd;

		if (i % 100 == 0 && !keep_busy())
			return wrong("memory");
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd != low)
			return wrong("the number of a descriptor was taken");
		close(fd);
	}
	return 0;
}

/* daemon(3), then everything closed, and 0, 1 and 2 opened again. */
static int daemons(void)
{
	int fds[2], st = 0;
	char answer = 'x';
	pid_t pid;

	if (!keep_busy() || pipe2(fds, O_CLOEXEC))
		return wrong("memory or pipe");
	pid = fork();
	if (pid == 0) {
		struct pgw_alloc_stats s;
		bool ok;

		alarm(60);
		if (daemon(0, 0) || fcntl(fds[1], F_DUPFD, 200) != 200)
			_exit(1);
		closefrom(201);
		for (int fd = 0; fd < 200; fd++)
			close(fd);
		ok = keep_busy();
		for (int fd = 0; fd < 3; fd++)
			ok &= open("/dev/null", O_RDWR) == fd;
		for (int i = 0; i < 50; i++)
			ok &= keep_busy();
		ok &= pgw_alloc_purge() == 0;
		pgw_alloc_stats_get(&s);
		ok &= s.purged_bytes > 0 && s.kept_ranges == 0;
		answer = ok ? 'y' : 'n';
		_exit(write(200, &answer, 1) != 1);
	}
	close(fds[1]);
	if (pid < 0 || waitpid(pid, &st, 0) != pid || st)
		return wrong("the child");
	if (read(fds[0], &answer, 1) != 1 || answer != 'y') /* from the grandchild */
		return wrong("the daemon");
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "numbers", numbers },
	{ "daemon", daemons },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(*cases); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	fprintf(stderr, "usage: descriptors CASE\n");
	return 2;
}
