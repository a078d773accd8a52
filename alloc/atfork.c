/* SPDX-License-Identifier: BSD-2-Clause
 *
 * atfork.c - jemalloc's fork handlers and ours, in one.
 *
 * With threads, in the forking thread: purge what the child would have to copy, with jemalloc
 * unlocked; then jemalloc's locks; then ours, a leaf below them. In the child ours is made new first.
 *
 * Without threads nobody can hold a lock, and nothing is done at all: jemalloc's handlers take and
 * make new every lock of every arena, which are some forty pages that a shell that forks and the
 * child that it made would copy for nothing, and more than half of what a malloc costs there. The
 * child is a copy of a process at rest; what it must know, that it is a child, the kernel tells it
 * (forkmark.h).
 *
 * The same is true if the purger is the only other thread, and sleeps: it holds no lock then, and gets
 * none without ours. libc does not know who its threads are; the kernel knows how many.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>

#include "forkmark.h"
#include "jemalloc_private.h"
#include "leaf.h"
#include "mainthread.h"
#include "purger.h"
#include "space.h"

static void (*je_prepare)(void), (*je_parent)(void), (*je_child)(void);

/* Of the fork under way. Written only where they change: a page that is written is copied. */
static bool purger_sleeps; /* it is the only other thread, and our lock is held */
static bool libc_alone;	   /* libc knows of no other thread */

static void set(bool *flag, bool value)
{
	if (*flag != value)
		*flag = value;
}

/* 0 if it is not known. A folder has a link for itself, one from above, and one for each in it. */
static unsigned long threads(void)
{
	struct stat s;
	int saved = errno, err = stat("/proc/self/task", &s);

	errno = saved;
	return err || s.st_nlink < 3 ? 0 : s.st_nlink - 2;
}

static void before_fork(void)
{
	unsigned long n;

	set(&libc_alone, __libc_single_threaded);
	n = libc_alone ? 1 : threads();
	pgw__space_fork_alone(n == 1);
	pgw__purger_before_fork(n == 1);
	if (n == 1)
		return;
	purger_sleeps = n == 2 && pgw__purger_running() && pgw__space_fork_prepare_asleep();
	if (purger_sleeps)
		return;
	je_prepare();
	pgw__space_fork_prepare();
}

static void in_parent(void)
{
	if (pgw__space_is_fork_alone())
		return;
	pgw__space_fork_parent();
	if (purger_sleeps)
		return;
	pgw__leaf_fork_parent();
	je_parent();
}

static void in_child(void)
{
	bool alone = pgw__space_is_fork_alone();

	if (!alone || !pgw__forkmark_by_kernel())
		pgw__space_fork_child();
	/* A prepare handler that runs after ours may make a thread. Then locks are made new here that
	 * were not taken, which does no harm. */
	if (alone ? libc_alone && !__libc_single_threaded : !purger_sleeps) {
		pgw__leaf_fork_child();
		je_child();
	}
	pgw__mainthread_watch();
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	if (prepare != je_jemalloc_prefork) /* some other part of this library */
		return __real_pthread_atfork(prepare, parent, child);
	je_prepare = prepare;
	je_parent = parent;
	je_child = child;
	return __real_pthread_atfork(before_fork, in_parent, in_child);
}
