/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive_end.c - threads and processes that end, and signals meanwhile.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "survive.h"

static void *short_life(void *arg)
{
	return memory_works(5, (uintptr_t)arg) ? NULL : arg;
}

int many_short_threads(void)
{
	for (uintptr_t i = 0; i < 1000; i += 8) {
		pthread_t t[8];
		void *bad;

		for (uintptr_t k = 0; k < 8; k++)
			if (pthread_create(&t[k], NULL, short_life, (void *)(i + k)))
				return wrong("pthread_create");
		for (int k = 0; k < 8; k++)
			if (pthread_join(t[k], &bad) || bad)
				return wrong("a thread");
	}
	return stats().threads == 1 ? 0 : wrong("not one purger");
}

/* The process ends with its last thread, with 0 (POSIX, pthread_exit). A purger that counts as one
 * would be seen by the time limit of the test. */
static void *outlives_main(void *arg)
{
	usleep(*(useconds_t *)arg);
	if (!memory_works(3000, 3))
		exit(wrong("memory, when main has left"));
	return NULL;
}

static int leave(useconds_t *us)
{
	pthread_t t;

	if (pthread_create(&t, NULL, outlives_main, us))
		return wrong("pthread_create");
	pthread_exit(NULL);
}

int main_leaves(void)
{
	static useconds_t us;

	if (!memory_works(2000, 1) || !stats().threads)
		return wrong("memory, or no purger");
	return leave(&us);
}

/* All traffic comes when main has left already. */
int main_leaves_first(void)
{
	static useconds_t us = 100 * 1000;

	return leave(&us);
}

/* Main of the child is the thread that forked. */
static void *fork_and_leave(void *arg)
{
	pid_t pid = fork();

	if (!pid) {
		if (!memory_works(2000, 4) || !stats().threads)
			_exit(1);
		pthread_exit(NULL);
	}
	return wait_for(pid) ? arg : NULL;
}

int main_leaves_child(void)
{
	static char cannot[] = "the child";
	pthread_t t;
	void *bad;

	if (!memory_works(2000, 1) || !stats().threads)
		return wrong("memory, or no purger");
	if (pthread_create(&t, NULL, fork_and_leave, cannot) || pthread_join(t, &bad))
		return wrong("pthread_create");
	return bad ? wrong(bad) : 0;
}

/* Nothing of the C library runs; the purger ends when nothing is left to do. */
int main_ends_raw(void)
{
	pid_t pid = fork();

	if (!pid) {
		if (!memory_works(2000, 1) || !stats().threads)
			_exit(1);
		syscall(SYS_exit, 0);
	}
	return wait_for(pid) ? wrong("the child") : 0;
}

/* exit while others allocate and memory is in flight. */
int exit_while_purging(void)
{
	start_load();
	usleep(200 * 1000);
	exit(0);
}

/* exit in a handler of a signal that interrupts malloc and free, with a report to be written: not
 * permitted by anybody, and done. The handler comes at another point of the hooks each time. */
static void exit_in_handler(int sig)
{
	(void)sig;
	alarm(60); /* ends what hangs: the handler is for one signal */
	exit(0);
}

int exit_child(void)
{
	struct sigaction sa = { .sa_handler = exit_in_handler,
		.sa_flags = SA_RESETHAND | SA_NODEFER };
	struct itimerval when = { .it_value = { .tv_usec = 1000 + getpid() % 50 * 97 } };
	void *v[64] = { NULL };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &when, NULL);
	for (unsigned i = 0; i < 1u << 30; i++) {
		unsigned k = i * 7 % 64;

		free(v[k]);
		v[k] = malloc(4096 + i * 7919 % 90000);
		*(volatile char *)v[k] = 1;
	}
	return wrong("no signal came");
}

int exit_in_handlers(void)
{
	setenv("PAGEWISE_STATS", "/dev/null", 1);
	for (int i = 0; i < 60; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			execl("/proc/self/exe", "survive", "exit-child", (char *)NULL);
			_exit(127);
		}
		if (wait_for(pid))
			return wrong("exit in a signal handler");
	}
	return 0;
}

/* The purger gets no signal of the program's. */
static atomic_int in_wrong_thread;
static pid_t main_thread;

static void on_signal(int sig)
{
	(void)sig;
	if (gettid() != main_thread)
		atomic_fetch_add(&in_wrong_thread, 1);
}

int signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t usr1;

	main_thread = gettid();
	sigaction(SIGUSR1, &sa, NULL);
	if (!memory_works(2000, 1) || !stats().threads)
		return wrong("memory, or no purger");
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	for (int i = 0; i < 100; i++)
		kill(getpid(), SIGUSR1);
	usleep(50 * 1000);
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
	return atomic_load(&in_wrong_thread) ? wrong("a signal reached the purger") : 0;
}
