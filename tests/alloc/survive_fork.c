/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive_fork.c - processes that fork, in every way there is.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "survive.h"

int fork_threads(void)
{
	start_load();
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			_exit(!memory_works(50, (uint64_t)i));
		}
		if (wait_for(pid))
			return wrong("a forked child");
		if (!memory_works(20, (uint64_t)i))
			return wrong("the parent");
	}
	return end_load() ? 0 : wrong("a thread");
}

/* What is pending is purged before, so that the child has no pages of it to copy. */
int fork_flush(void)
{
	void *v[40];
	pid_t pid;

	pgw_alloc_option_set(PGW_ALLOC_AGE, 3600 * 1000);
	pgw_alloc_option_set(PGW_ALLOC_PENDING, 64 << 20);
	for (int i = 0; i < 40; i++)
		memset(v[i] = malloc(50000), 1, 50000);
	for (int i = 0; i < 40; i++)
		free(v[i]);
	if (stats().pending_bytes < 40 * 50000)
		return wrong("nothing is pending");
	pid = fork();
	if (pid == 0)
		_exit(stats().pending_bytes + stats().in_flight_bytes ? 1 : 0);
	if (wait_for(pid))
		return wrong("the child has pending memory");
	return stats().fork_flushes == 1 ? 0 : wrong("not flushed");
}

/* Page faults of 50 forks, in the parent and its children. */
static long faults_of_forks(void)
{
	struct rusage self[2], children[2];

	getrusage(RUSAGE_SELF, &self[0]);
	getrusage(RUSAGE_CHILDREN, &children[0]);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (wait_for(pid))
			return -1;
	}
	getrusage(RUSAGE_SELF, &self[1]);
	getrusage(RUSAGE_CHILDREN, &children[1]);
	return self[1].ru_minflt - self[0].ru_minflt + children[1].ru_minflt -
	       children[0].ru_minflt;
}

static void *wait_for_byte(void *arg)
{
	char c;

	return read(*(int *)arg, &c, 1) == 1 ? NULL : arg;
}

/* A process of one thread copies none of the pages that locks lie on. Its children are whole: they
 * allocate, fork, make threads and purge. */
int fork_alone(void)
{
	long alone, asleep, threaded;
	int fds[2];
	pthread_t t;
	pid_t pid;
	void *bad;

	for (int depth = 0; depth < 3; depth++) {
		pid = fork();
		if (pid)
			break;
		alarm(60);
	}
	if (pid == 0) { /* the last one */
		if (!memory_works(500, 1))
			_exit(2);
		if (stats().threads != 1 || stats().raw_forks)
			_exit(3);
		start_load();
		_exit(end_load() ? 0 : 4);
	}
	if (wait_for(pid))
		return wrong("a child");
	alone = faults_of_forks();
	if (!memory_works(500, 3) || stats().threads != 1)
		return wrong("no purger");
	asleep = faults_of_forks();
	for (int i = 0; i < 20; i++) {
		pid = fork();
		if (pid == 0) {
			alarm(60);
			_exit(!memory_works(300, (uint64_t)i) || stats().threads != 1 ||
			      wait_for(fork()) > 0);
		}
		if (wait_for(pid) || !memory_works(20, (uint64_t)i))
			return wrong("a child of a process with a purger");
	}
	if (pipe(fds) || pthread_create(&t, NULL, wait_for_byte, &fds[0]))
		return wrong("no thread");
	threaded = faults_of_forks();
	if (write(fds[1], "", 1) != 1 || pthread_join(t, &bad) || bad)
		return wrong("the thread");
	printf("faults of 50 forks: %ld alone, %ld with a purger, %ld with another thread\n", alone,
	    asleep, threaded);
	if (alone < 0 || threaded < alone + 50 * 10)
		return wrong("a process of one thread takes locks to fork");
	if (asleep < 0 || threaded < asleep + 50 * 5)
		return wrong("with a purger that sleeps, locks are taken to fork");
	return memory_works(500, 2) ? 0 : wrong("memory");
}

/* The child of a child, which has a purger of its own. */
int fork_deep(void)
{
	for (int depth = 0; depth < 5; depth++) {
		pid_t pid;

		if (!memory_works(500, (uint64_t)depth))
			return wrong("memory");
		pid = fork();
		if (pid == 0) {
			alarm(60);
			continue;
		}
		if (wait_for(pid))
			_exit(1);
		if (depth)
			_exit(0);
		return 0;
	}
	_exit(memory_works(500, 9) && stats().threads == 1 ? 0 : 1);
}

/* That is not allowed, and is done. */
static pid_t malloc_in_vfork_child(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		void *p = malloc(50000);

		free(p);
		_exit(!p);
	}
	return pid;
}

int vfork_exec(void)
{
	start_load();
	for (int i = 0; i < 100; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		if (wait_for(pid))
			return wrong("an exec after vfork");
	}
	for (int i = 0; i < 20; i++)
		if (wait_for(malloc_in_vfork_child()))
			return wrong("malloc in a vfork child");
	return end_load() ? 0 : wrong("a thread");
}

/* With no handlers run jemalloc's own locks may be held in the child: it must be a quiet moment for
 * them. Ours may be in any state; space.c tests that. */
int raw_fork(void)
{
	if (!memory_works(500, 1))
		return wrong("memory");
	for (int i = 0; i < 20; i++) {
		pid_t pid = _Fork();

		if (pid == 0) {
			alarm(60);
			if (!memory_works(300, (uint64_t)i))
				_exit(1);
			_exit(stats().raw_forks == 1 ? 0 : 2);
		}
		if (wait_for(pid))
			return wrong("a child of _Fork");
	}
	return 0;
}
