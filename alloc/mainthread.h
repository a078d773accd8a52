/* SPDX-License-Identifier: BSD-2-Clause
 *
 * mainthread.h - notices that the main thread ends and leaves the process to the others.
 *
 * glibc calls exit(3) when the last thread ends, and counts the purger. So when main leaves by
 * pthread_exit(3), or is cancelled, the purger has to go. Destructors of thread-specific data run
 * then, and not when main returns or calls exit(3).
 */
#ifndef PGW_ALLOC_MAINTHREAD_H
#define PGW_ALLOC_MAINTHREAD_H

/* Call in the main thread: when the library is loaded, and in a forked child. Does nothing in
 * another thread. */
void pgw__mainthread_watch(void);

#endif
