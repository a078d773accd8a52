/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purger.h - when memory that is not in use goes back, and by whom.
 *
 * A thread does it, which is made when there is something to do for it, and never before: a
 * process that frees little has none. It purges what is pending, and it drives the decay of
 * jemalloc (the upstream), which by itself happens on the way of malloc and free only: a process
 * that frees and goes idle gets its memory back to the kernel. While anything is left that will
 * decay or is pending, the thread wakes for it; when nothing is left it rests until there is traffic,
 * and ends if there is none for long and jemalloc holds little.
 *
 * A process also ends with its last thread, when main has called pthread_exit(3) or ended itself in
 * some other way. Ours must not be that last one: it ends when main does, and none is made any more.
 *
 * It cannot be made in an extent hook (pthread_create allocates), so the hook only leaves word, and
 * the thread is made at the next safe point: jemalloc's thread events, which come about every 64 KiB
 * of traffic when no lock of jemalloc is held. At a safe point, too, what is unused in jemalloc's
 * arenas is looked at, at first every CHECK_BYTES of traffic, then more rarely.
 *
 * In free that is not safe either once there are other threads: glibc frees the TLS vector of an
 * ended thread while it holds the lock of its stack cache, which pthread_create needs. So only an
 * event of malloc makes the thread then; and it does so early, before there is much to free.
 *
 * Where there is no thread (not yet, PAGEWISE_ALLOC=thread:off, no more threads to be had, a vfork
 * child, main has ended) the thread that frees purges, once what is pending is over the limit.
 *
 *   none ──(worth_it, safe point)──► running in this generation ──(fork, rested, main ends, paused)──► none
 *    └─(over the limit)─► purge inline  │  └──(a quarter over) ───► also purge inline
 *                                       ▼
 *                    busy ◄──(something pending, or 64 KiB of traffic)── resting
 */
#ifndef PGW_ALLOC_PURGER_H
#define PGW_ALLOC_PURGER_H

#include <stdbool.h>

#include "space.h"

/* Called in the dalloc hook after every pgw__space_give, with what that reported. */
void pgw__purger_notice(const struct pgw__space_view *v);

/* A safe point. in_malloc: in an allocation, not in free. bytes: traffic since this thread's last
 * one. errno stays as it was. */
void pgw__purger_poll(bool in_malloc, uint64_t bytes);

/* What is not in use, and has not been given to us yet. */
struct pgw__unused {
	uint64_t bytes;	  /* that will decay with time */
	uint64_t step_ms; /* the next step of decay is due then; 0: there is nothing */
};

/* Where unused memory comes from: jemalloc, but in tests. */
struct pgw__upstream {
	/* false: it cannot be told now. Called at safe points. */
	bool (*unused)(struct pgw__unused *u);
	/* Decay, as far as time says, or everything; what decays arrives by pgw__space_give. u is
	 * what is left. Called by the purger's thread. */
	void (*decay)(bool all, struct pgw__unused *u);
};

/* NULL: there is none. Set before the first use. */
extern const struct pgw__upstream *pgw__purger_upstream;

/* Is the thread there? */
bool pgw__purger_running(void);

/* The process is exiting: make no thread any more. */
void pgw__purger_exit(void);

/* The main thread ends, and the process does not: end, and make no thread any more. */
void pgw__purger_main_leaves(void);

/* A process that must have one thread only, for a system call, has none of ours between these. Returns
 * whether it was there, and the caller is the one who has ended it; resume, which takes that, makes another
 * then. Not in a signal handler, nor in a hook. */
bool pgw__purger_pause(void);
void pgw__purger_resume(bool paused_here);

/* In the forking thread, before jemalloc takes its locks: purge what the child would have to copy.
 * alone: there is no other thread. */
void pgw__purger_before_fork(bool alone);

#endif
