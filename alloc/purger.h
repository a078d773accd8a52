/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purger.h - when pending memory is purged, and by whom.
 *
 * A thread does it, which is made when there is something to do for it, and never before: a
 * process that decays nothing has none. It cannot be made in an extent hook (pthread_create
 * allocates), so the hook only leaves word, and the thread is made at the next safe point:
 * jemalloc's thread events, which come about every 64 KiB of traffic when no lock of jemalloc is
 * held.
 *
 * In free that is not safe either once there are other threads: glibc frees the TLS vector of an
 * ended thread while it holds the lock of its stack cache, which pthread_create needs. So only an
 * event of malloc makes the thread then.
 *
 * Where there is no thread (not yet, PAGEWISE_ALLOC=thread:off, no more threads to be had, a vfork
 * child) the thread that frees purges, once what is pending is over the limit.
 *
 *   none ──(pending > SPAWN_BYTES, safe point)──► running in this generation ──(fork)──► none
 *    └────(over the limit)──► purge inline           └──(over HARD limits)──► also purge inline
 */
#ifndef PGW_ALLOC_PURGER_H
#define PGW_ALLOC_PURGER_H

#include <stdbool.h>

#include "space.h"

/* Called in the dalloc hook after every pgw__space_give, with what that reported. */
void pgw__purger_notice(const struct pgw__space_view *v);

/* A safe point. in_malloc: in an allocation, not in free. errno stays as it was. */
void pgw__purger_poll(bool in_malloc);

/* Is the thread there? */
bool pgw__purger_running(void);

/* The process is exiting: make no thread any more. */
void pgw__purger_exit(void);

/* In the forking thread, before jemalloc takes its locks: purge what the child would have to copy.
 */
void pgw__purger_before_fork(void);

#endif
