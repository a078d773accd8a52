/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pressed.c [SECONDS] - a process that holds 64 MiB it does not use, while a neighbour in its cgroup wants
 * as much. Linked to the library; pressed.py runs it where both together are above memory.high, with
 * MALLOC_CONF=dirty_decay_ms:600000, so that only pressure gives memory back. Prints a line of JSON.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#include "cases.h"

#define BLOCK  40000
#define BLOCKS 1600
#define BYTES  ((size_t)BLOCKS * BLOCK)

static double resident_mib(void)
{
	return (double)resident() / (1 << 20);
}

/* Touches its memory page by page once it is told to. The kernel stops it where the cgroup is above its
 * limit and has nothing to reclaim: that is the pressure. */
static pid_t start_neighbour(int fds[2])
{
	pid_t pid = fork();
	char *p, go;

	if (pid)
		return pid;
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)close(fds[1]);
	if (p == MAP_FAILED || read(fds[0], &go, 1) != 1)
		_exit(1);
	for (size_t i = 0; i < BYTES; i += 4096)
		p[i] = 1;
	_exit(0);
}

static void hold_and_free(void)
{
	static void *v[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		v[i] = malloc(BLOCK);
		if (!v[i])
			abort();
		memset(v[i], 1, BLOCK);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(v[i]);
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 60, fds[2], st = -1, waited = 0;
	struct timespec tenth = { 0, 100 * 1000 * 1000 };
	struct pgw_alloc_stats s;
	double before;
	pid_t pid;

	if (pipe(fds) || (pid = start_neighbour(fds)) < 0)
		return 1;
	hold_and_free();
	before = resident_mib();
	if (write(fds[1], "", 1) != 1)
		return 1;
	/* No call of malloc or free from here on. */
	while (waited++ < 10 * seconds && waitpid(pid, &st, WNOHANG) == 0)
		nanosleep(&tenth, NULL);
	if (st == -1) {
		kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	pgw_alloc_stats_get(&s);
	printf("{\"resident_before_mib\": %.1f, \"resident_after_mib\": %.1f, \"pressure_purges\": "
	       "%lu, "
	       "\"neighbour_done\": %s, \"seconds\": %.1f}\n",
	    before, resident_mib(), (unsigned long)s.pressure_purges, st == 0 ? "true" : "false",
	    waited / 10.0);
	return 0;
}
