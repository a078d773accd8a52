/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive.c CASE: what programs do to a malloc, and what is done to them. Linked to the library;
 * run with MALLOC_CONF=dirty_decay_ms:0, so that everything is purged.
 *
 * Each case does its thing and then checks that memory works: blocks keep what is written to them,
 * calloc is zero, and a purge still goes through (or the reason why not is what it should be).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#include "cases.h"

/* ---- memory that works ---- */

static atomic_bool stop;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static bool is(const unsigned char *p, size_t n, unsigned char value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

/* Replace blocks at random; every byte is checked. */
static bool memory_works(size_t rounds, uint64_t seed)
{
	struct {
		unsigned char *p;
		size_t n;
	} v[40] = { { NULL, 0 } };
	uint64_t x = seed * 2654435761u + 1;
	bool ok = true;

	for (size_t i = 0; ok && i < rounds; i++) {
		size_t k = next(&x) % 40;
		unsigned char value = (unsigned char)(k + 1);

		ok = !v[k].p || is(v[k].p, v[k].n, value);
		free(v[k].p);
		v[k].n = 1 + next(&x) % (64 * 1024);
		v[k].p = next(&x) % 2 ? calloc(1, v[k].n) : NULL;
		if (v[k].p)
			ok &= is(v[k].p, v[k].n, 0);
		else
			v[k].p = malloc(v[k].n);
		if (!v[k].p)
			return false;
		memset(v[k].p, value, v[k].n);
	}
	for (size_t k = 0; k < 40; k++)
		free(v[k].p);
	return ok;
}

static void *load(void *arg)
{
	while (!atomic_load(&stop))
		if (!memory_works(200, (uintptr_t)arg))
			return arg;
	return NULL;
}

static pthread_t loaders[3];

static void start_load(void)
{
	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&loaders[i], NULL, load, (void *)(i + 1)))
			abort();
}

static bool end_load(void)
{
	bool ok = true;

	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++) {
		void *bad;

		ok &= !pthread_join(loaders[i], &bad) && !bad;
	}
	return ok;
}

/* 0 if the child left with 0 within a minute. */
static int wait_for(pid_t pid)
{
	int st;

	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return -1;
	return st;
}

/* ---- cases: fork ---- */

static int fork_threads(void)
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
static int fork_flush(void)
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
static int fork_alone(void)
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
static int fork_deep(void)
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

static int vfork_exec(void)
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
static int raw_fork(void)
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

/* ---- cases: descriptors ---- */

static int closed_descriptors(void)
{
	if (!memory_works(500, 1))
		return wrong("memory");
	closefrom(3);
	if (!memory_works(2000, 2))
		return wrong("after closefrom");
	/* Files of the program take the numbers; nothing of ours may close or use them. */
	for (int i = 0; i < 50; i++)
		(void)open("/dev/null", O_RDONLY);
	if (!memory_works(2000, 3))
		return wrong("with the numbers taken");
	for (int fd = 3; fd < 53; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return wrong("a descriptor of the program was closed");
	return pgw_alloc_purge() ? wrong("purge") : 0;
}

/* ---- cases: locked memory ---- */

static int locked(void)
{
	struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY };
	int err = 0;

	(void)setrlimit(RLIMIT_MEMLOCK, &r);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return skip("memory cannot be locked here");
	if (!memory_works(3000, 1))
		return wrong("memory");
	for (int tries = 0; tries < 100 && !err;
	     tries++) { /* the purger may have tried it before */
		if (!memory_works(20, (uint64_t)tries))
			return wrong("memory");
		err = pgw_alloc_purge();
	}
	if (err != -EAGAIN)
		return wrong("locked memory must be reported as not given back");
	if (!stats().stale_bytes || stats().purged_bytes == 0)
		return wrong("it should have been tried, and be stale");
	if (!memory_works(3000, 2))
		return wrong("stale memory reused");
	if (!stats().stale_hits)
		return wrong("stale memory was not reused");
	munlockall();
	return memory_works(3000, 3) && !pgw_alloc_purge() ? 0 : wrong("after munlockall");
}

/* ---- cases: system call filters ---- */

static bool filter(uint32_t action, int nr)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	bool ok = ctx && !seccomp_rule_add(ctx, action, nr, 0) && !seccomp_load(ctx);

	seccomp_release(ctx);
	return ok;
}

#define PROCESS_MADVISE 440

static int filtered(uint32_t action)
{
	if (!filter(action, PROCESS_MADVISE))
		return skip("no system call filter can be installed");
	if (!memory_works(3000, 1))
		return wrong("memory");
	if (pgw_alloc_purge())
		return wrong("purge");
	if (!stats().purged_bytes || stats().kept_ranges)
		return wrong("the loop should have purged all");
	return 0;
}

static int filter_enosys(void)
{
	return filtered(SCMP_ACT_ERRNO(ENOSYS));
}

static int filter_eperm(void)
{
	return filtered(SCMP_ACT_ERRNO(EPERM));
}

static int filter_zero(void)
{
	return filtered(SCMP_ACT_ERRNO(0));
}

/* Installed when batches are on their way already. */
static int filter_late(void)
{
	if (!memory_works(1000, 1) || pgw_alloc_purge())
		return wrong("memory");
	return filtered(SCMP_ACT_ERRNO(EPERM));
}

/* madvise answers 0 and does nothing: seen by the probe, so nothing counts as zeroed. */
static int filter_madvise_zero(void)
{
	if (!filter(SCMP_ACT_ERRNO(0), SCMP_SYS(madvise)) ||
	    !filter(SCMP_ACT_ERRNO(EPERM), PROCESS_MADVISE))
		return skip("no system call filter can be installed");
	if (!memory_works(3000, 1))
		return wrong("memory");
	return stats().purged_ranges == stats().kept_ranges ? 0 : wrong("it counts as purged");
}

/* Run with PAGEWISE_KERNEL=off: the call would be the end. */
static int filter_kill(void)
{
	if (!filter(SCMP_ACT_KILL_PROCESS, PROCESS_MADVISE) ||
	    !filter(SCMP_ACT_KILL_PROCESS, SCMP_SYS(mincore)))
		return skip("no system call filter can be installed");
	if (!memory_works(3000, 1))
		return wrong("memory");
	return pgw_alloc_purge() ? wrong("purge") : 0;
}

static int no_threads(void)
{
	if (!filter(SCMP_ACT_ERRNO(EAGAIN), SCMP_SYS(clone)) ||
	    !filter(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3)))
		return skip("no system call filter can be installed");
	pgw_alloc_option_set(PGW_ALLOC_PENDING, 512 << 10);
	if (!memory_works(5000, 1))
		return wrong("memory");
	if (stats().threads || !stats().thread_fails)
		return wrong("a thread was made, or never tried");
	return stats().inline_purges ? 0 : wrong("nobody purged");
}

/* ---- cases: limits ---- */

/* Fill an address space that is limited, free every other block, go on with other sizes. */
static int address_limit(void)
{
	struct rlimit r = { 512u << 20, 512u << 20 };
	static void *v[4000];
	size_t n = 0, again = 0;

	if (setrlimit(RLIMIT_AS, &r))
		return skip("no limit can be set");
	while (n < 4000 && (v[n] = malloc(200 << 10)))
		memset(v[n++], 1, 200 << 10);
	if (n == 4000 || n < 1000)
		return wrong("the limit is not where it should be");
	for (size_t i = 0; i < n; i += 2)
		free(v[i]);
	for (size_t i = 0; i < n; i += 2)
		again += (v[i] = malloc(190 << 10)) != NULL;
	if (again < n / 2 * 9 / 10)
		return wrong("freed memory cannot be had again");
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	/* All in pieces; one large block needs them unmapped. */
	v[0] = malloc(300 << 20);
	if (!v[0])
		return wrong("no large block after everything was freed");
	memset(v[0], 1, 300 << 20);
	free(v[0]);
	return memory_works(1000, 1) ? 0 : wrong("memory");
}

/* More than there is memory, of which little is touched: allowed unless overcommit is forbidden. */
static int sparse(void)
{
	size_t pages = (size_t)sysconf(_SC_PHYS_PAGES), page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = 16 * pages * page;
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = f ? fgetc(f) : '2';
	char *p;

	if (f)
		fclose(f);
	if (mode == '2')
		return skip("overcommit is forbidden here");
	p = malloc(size);
	if (!p)
		return wrong("no large block");
	for (size_t i = 0; i < size; i += size / 16)
		p[i] = 1;
	free(p);
	p = calloc(1, size);
	if (!p)
		return wrong("no large block of zeroes");
	for (size_t i = 0; i < size; i += size / 16)
		if (p[i])
			return wrong("not zero");
	free(p);
	if (pgw_alloc_purge())
		return wrong("purge");
	return stats().clean_bytes <= 1u << 30 ? 0 : wrong("address space is kept without bound");
}

/* ---- cases: threads ---- */

static void *short_life(void *arg)
{
	return memory_works(5, (uintptr_t)arg) ? NULL : arg;
}

static int many_short_threads(void)
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

static int main_leaves(void)
{
	static useconds_t us;

	if (!memory_works(2000, 1) || !stats().threads)
		return wrong("memory, or no purger");
	return leave(&us);
}

/* All traffic comes when main has left already. */
static int main_leaves_first(void)
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

static int main_leaves_child(void)
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
static int main_ends_raw(void)
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
static int exit_while_purging(void)
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

static int exit_child(void)
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

static int exit_in_handlers(void)
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

static int signals(void)
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

/* ---- cases: an idle process ---- */

static size_t resident(void)
{
	size_t total, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%zu %zu", &total, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* It gives its memory back, without another call of malloc. No time is asserted but a generous
 * end: 30 s, where the age is 0.1 s. */
static int idle(void)
{
	enum { N = 1000 };
	static void *v[N];
	size_t full;

	for (int i = 0; i < N; i++)
		memset(v[i] = malloc(40000), 1, 40000);
	full = resident();
	for (int i = 0; i < N; i++)
		free(v[i]);
	for (int i = 0; i < 600; i++) {
		struct timespec t = { 0, 50 * 1000 * 1000 };

		if (stats().pending_bytes + stats().in_flight_bytes == 0)
			break;
		nanosleep(&t, NULL);
	}
	if (stats().pending_bytes)
		return wrong("memory is still pending");
	return resident() + 9000 * 4096 < full ? 0 : wrong("memory is still resident");
}

/* ---- cases: before everything ---- */

static void *early[100];

__attribute__((constructor(101))) static void before_all(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "constructors"))
		return;
	for (int i = 0; i < 100; i++)
		early[i] = calloc(1, 30000 + 100 * (size_t)i);
	for (int i = 0; i < 100; i += 2)
		free(early[i]);
}

static int constructors(void)
{
	for (int i = 1; i < 100; i += 2) {
		if (!early[i] || !is(early[i], 30000, 0))
			return wrong("memory from a constructor");
		free(early[i]);
	}
	return memory_works(1000, 1) ? 0 : wrong("memory");
}

static const struct test_case cases[] = {
	{ "fork-threads", fork_threads },
	{ "fork-flush", fork_flush },
	{ "fork-alone", fork_alone },
	{ "fork-deep", fork_deep },
	{ "vfork-exec", vfork_exec },
	{ "raw-fork", raw_fork },
	{ "closed-descriptors", closed_descriptors },
	{ "locked", locked },
	{ "filter-enosys", filter_enosys },
	{ "filter-eperm", filter_eperm },
	{ "filter-zero", filter_zero },
	{ "filter-late", filter_late },
	{ "filter-madvise-zero", filter_madvise_zero },
	{ "filter-kill", filter_kill },
	{ "no-threads", no_threads },
	{ "address-limit", address_limit },
	{ "sparse", sparse },
	{ "many-short-threads", many_short_threads },
	{ "main-leaves", main_leaves },
	{ "main-leaves-first", main_leaves_first },
	{ "main-leaves-child", main_leaves_child },
	{ "main-ends-raw", main_ends_raw },
	{ "exit-while-purging", exit_while_purging },
	{ "exit-in-handler", exit_in_handlers },
	{ "exit-child", exit_child },
	{ "signals", signals },
	{ "idle", idle },
	{ "constructors", constructors },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
