/* SPDX-License-Identifier: BSD-2-Clause
 *
 * unshare.c - unshare(2) and setns(2) in a process whose only other thread is ours.
 *
 * The kernel refuses a new or another user namespace to a process with several threads, and another
 * mount namespace to a thread that shares its root and working directory with one. A program that is
 * single-threaded by itself is to be so for these calls: the purger ends before, and another begins
 * after. If that fails, as it does once CLONE_NEWPID was given (the kernel makes no thread then),
 * whoever frees purges.
 *
 * A program that makes the system call without libc's function is not seen: PAGEWISE_ALLOC=thread:off
 * is for that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#include "purger.h"

#define EXPORT __attribute__((visibility("default")))

/* What the kernel does for one thread only. */
#define ALONE (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)

static int done(bool paused, int result)
{
	int err = errno;

	pgw__purger_resume(paused);
	errno = err;
	return result;
}

static int missing(void)
{
	errno = ENOSYS;
	return -1;
}

EXPORT int unshare(int flags)
{
	static int (*_Atomic known)(int flags);
	int (*real)(int flags) = atomic_load_explicit(&known, memory_order_relaxed);

	if (!real) {
		*(void **)&real = dlsym(RTLD_NEXT, "unshare");
		atomic_store_explicit(&known, real, memory_order_relaxed);
	}
	if (!real)
		return missing();
	if (!(flags & ALONE))
		return real(flags);

	bool paused = pgw__purger_pause();

	return done(paused, real(flags));
}

EXPORT int setns(int fd, int type)
{
	static int (*_Atomic known)(int fd, int type);
	int (*real)(int fd, int type) = atomic_load_explicit(&known, memory_order_relaxed);

	if (!real) {
		*(void **)&real = dlsym(RTLD_NEXT, "setns");
		atomic_store_explicit(&known, real, memory_order_relaxed);
	}
	if (!real)
		return missing();

	bool paused = pgw__purger_pause();

	return done(paused, real(fd, type));
}
