/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fork_leaf.c - a fork while another thread makes a leaf of jemalloc's radix tree, under a lock that
 * jemalloc's own fork handlers do not know of. The child must be able to make one as well.
 *
 * mmap is ours here: the one for a leaf is held up until the process has forked, or for as long as it
 * takes to see that a fork waits for it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK	  ((size_t)4 << 30) /* more than a leaf covers: its first page needs another one */
#define BLOCKS	  8
#define HELD_UP_S 1

static _Thread_local bool maker;
static atomic_bool held_up, forked;
static char *kept[2 * BLOCKS + 1]; /* by one process: nothing is freed */
static atomic_size_t n_kept;

static void pause_ms(long ms)
{
	(void)nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

/* By both of its names: which one jemalloc was compiled to call depends on who built it. */
__attribute__((visibility("default"))) void *our_mmap(
    void *addr, size_t len, int prot, int flags, int fd, off_t offset) __asm__("mmap");
__attribute__((visibility("default"), alias("mmap"))) void *our_mmap64(
    void *addr, size_t len, int prot, int flags, int fd, off_t offset) __asm__("mmap64");

void *our_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (maker && len < BLOCK && !atomic_exchange(&held_up, true)) {
		for (int i = 0; i < HELD_UP_S * 1000 && !atomic_load(&forked); i++)
			pause_ms(1);
	}
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
}

static bool allocate(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *volatile p = malloc(BLOCK);

		if (!p)
			return false;
		p[0] = p[BLOCK - 1] = 1;
		kept[atomic_fetch_add(&n_kept, 1)] = p;
	}
	return true;
}

static void *make(void *arg)
{
	if (!allocate(1)) /* makes an arena, which is held up as well, but under known locks */
		return arg;
	maker = true;
	return allocate(BLOCKS) ? NULL : arg;
}

int main(void)
{
	int status = 0;
	void *bad = NULL;
	pthread_t t;
	pid_t pid;

	if (pthread_create(&t, NULL, make, &forked))
		return 1;
	for (int i = 0; i < 10000 && !atomic_load(&held_up); i++)
		pause_ms(1);
	if (!atomic_load(&held_up)) {
		fprintf(stderr, "FAIL: %d blocks of 4 GiB needed no leaf\n", BLOCKS);
		return 1;
	}
	pid = fork();
	if (pid == 0) {
		alarm(30);
		_exit(allocate(BLOCKS) ? 0 : 2);
	}
	atomic_store(&forked, true);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "FAIL: fork: %d, the child left with status 0x%x\n", pid,
		    (unsigned)status);
		return 1;
	}
	if (pthread_join(t, &bad) || bad || !allocate(BLOCKS)) {
		fputs("FAIL: the parent\n", stderr);
		return 1;
	}
	return 0;
}
