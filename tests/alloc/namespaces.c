/* SPDX-License-Identifier: BSD-2-Clause
 *
 * namespaces.c CASE: unshare(2) and setns(2), which the kernel refuses to a process of several
 * threads, in one whose only other thread is the library's. Linked to the library.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"

#define MIB ((size_t)1 << 20)

static void nap(void)
{
	struct timespec t = { 0, 1000000 };

	nanosleep(&t, NULL);
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2; /* . and .. */

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Malloc and free until the library has made its thread. */
static bool with_thread(void)
{
	for (int i = 0; i < 5000; i++) {
		void *p[64];

		for (int k = 0; k < 64; k++) {
			p[k] = malloc(MIB / 16);
			if (!p[k])
				abort();
			memset(p[k], 1, MIB / 16);
		}
		for (int k = 0; k < 64; k++)
			free(p[k]);
		if (threads() == 2)
			return true;
		nap();
	}
	return false;
}

/* Can a process of one thread have namespaces of its own here? Tried in a child, by system call. */
static bool permitted(int flags)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(syscall(SYS_unshare, flags) != 0);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* What is unused goes back with nobody calling malloc, so the thread is there again. */
static int thread_is_back(uint64_t made_before)
{
	if (stats().threads != made_before + 1)
		return wrong("no thread was made afterwards");
	for (int i = 0; stats().pending_bytes && i < 20000; i++)
		nap();
	return stats().pending_bytes ? wrong("memory stays pending") : 0;
}

/* ---- cases ---- */

static int case_unshare(void)
{
	uint64_t made;

	if (!permitted(CLONE_NEWUSER | CLONE_NEWNS))
		return skip("no user namespace is to be had here");
	if (!with_thread())
		return wrong("the library has made no thread");
	made = stats().threads;
	if (syscall(SYS_unshare, CLONE_NEWUSER) == 0)
		return wrong("the kernel lets processes with threads do it");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return wrong("unshare");
	return thread_is_back(made);
}

static int case_setns(void)
{
	uint64_t made;
	int fd;

	if (!permitted(CLONE_NEWUSER | CLONE_NEWNS))
		return skip("no user namespace is to be had here");
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return wrong("unshare");
	fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !with_thread())
		return wrong("the library has made no thread");
	made = stats().threads;
	if (syscall(SYS_setns, fd, CLONE_NEWNS) == 0)
		return wrong("the kernel lets processes with threads do it");
	if (setns(fd, CLONE_NEWNS))
		return wrong("setns");
	close(fd);
	return thread_is_back(made);
}

/* A child has no thread of ours, and can have one after the call. */
static int case_in_a_child(void)
{
	int status = -1;
	pid_t pid;

	if (!permitted(CLONE_NEWUSER))
		return skip("no user namespace is to be had here");
	if (!with_thread())
		return wrong("the library has made no thread");
	pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) != 0 || !with_thread());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return wrong("unshare in a child, or its thread afterwards");
	return threads() == 2 ? 0 : wrong("the parent's thread has gone");
}

/* The error is the kernel's, and the thread is back. */
static int case_refused(void)
{
	uint64_t made;

	if (!with_thread())
		return wrong("the library has made no thread");
	made = stats().threads;
	errno = 0;
	if (setns(-1, CLONE_NEWUSER) != -1 || errno != EBADF)
		return wrong("setns of no file");
	if (thread_is_back(made))
		return 1;
	made = stats().threads;
	if (unshare(CLONE_FS) || stats().threads != made)
		return wrong("a thread was ended for a call that threads may make");
	return 0;
}

/* Threads of the program, for whom the kernel says no to each other; and none waits for one that cannot
 * come. It hung for ever when one took back what another had said to the library's thread. */
static void *call_and_free(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		free(malloc(MIB / 4));
		if (setns(-1, CLONE_NEWUSER) != -1 || errno != EBADF)
			return arg;
	}
	return NULL;
}

static int case_at_once(void)
{
	pthread_t t[8];
	void *failed;

	if (!with_thread())
		return wrong("the library has made no thread");
	for (int i = 0; i < 8; i++)
		if (pthread_create(&t[i], NULL, call_and_free, t))
			return wrong("pthread_create");
	for (int i = 0; i < 8; i++)
		if (pthread_join(t[i], &failed) || failed)
			return wrong("setns of no file, in a thread");
	return with_thread() ? 0 : wrong("no thread was made afterwards");
}

/* setns is no cancellation point. */
static void *cancelled_before(void *arg)
{
	pthread_cancel(pthread_self());
	if (setns(-1, CLONE_NEWUSER) != -1 || errno != EBADF)
		arg = NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return arg;
}

static int case_cancelled(void)
{
	uint64_t made;
	void *came_back;
	pthread_t t;

	if (!with_thread())
		return wrong("the library has made no thread");
	made = stats().threads;
	if (pthread_create(&t, NULL, cancelled_before, &made) || pthread_join(t, &came_back))
		return wrong("pthread_create");
	if (came_back != &made)
		return wrong("the thread ended in setns");
	return thread_is_back(made);
}

static const struct test_case cases[] = {
	{ "unshare", case_unshare },
	{ "setns", case_setns },
	{ "in-a-child", case_in_a_child },
	{ "refused", case_refused },
	{ "at-once", case_at_once },
	{ "cancelled", case_cancelled },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
