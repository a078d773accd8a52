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
 */
#include <pthread.h>
#include <sys/single_threaded.h>

#include "forkmark.h"
#include "jemalloc_private.h"
#include "purger.h"
#include "space.h"

static void (*je_prepare)(void), (*je_parent)(void), (*je_child)(void);

static void before_fork(void)
{
	bool alone = __libc_single_threaded;

	pgw__space_fork_alone(alone);
	pgw__purger_before_fork(alone);
	if (alone)
		return;
	je_prepare();
	pgw__space_fork_prepare();
}

static void in_parent(void)
{
	if (pgw__space_is_fork_alone())
		return;
	pgw__space_fork_parent();
	je_parent();
}

static void in_child(void)
{
	/* Another prepare handler, after ours, may have made a thread. Then locks are made new here
	 * that were not taken in before_fork, which does no harm. */
	bool alone = pgw__space_is_fork_alone() && __libc_single_threaded;

	if (!alone || !pgw__forkmark_by_kernel())
		pgw__space_fork_child();
	if (!alone)
		je_child();
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
