/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space_private.h - what space.c, request.c, flight.c and dump.c share; the invariants are in space.h.
 */
#ifndef PGW_ALLOC_SPACE_PRIVATE_H
#define PGW_ALLOC_SPACE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "pool.h"
#include "space.h"

enum pgw__state { PENDING, LAZY, STALE, CLEAN, HIDDEN, POOLS };

struct pgw__space {
	pthread_mutex_t lock;
	pthread_cond_t work;			 /* the purger sleeps here */
	pthread_cond_t idle;			 /* in_flight has become empty */
	bool torn;				 /* somebody is between lock and unlock */
	enum { AWAKE, IF_OVER, IF_ANY } sleeper; /* when to wake it */

	struct pgw__extent_cache cache;
	struct pgw__pool pool[POOLS];
	struct pgw__extent_queue in_flight;
	uint64_t in_flight_bytes;
	_Atomic uint64_t held; /* written under the lock */
	struct pgw_alloc_stats n;

	bool fork_alone; /* the last fork was of a process with one thread */
	_Atomic uint64_t generation;
	uint64_t born_ms;
	pid_t pid;
};

extern struct pgw__space pgw__space;

static inline void pgw__space_set_held(uint64_t v)
{
	atomic_store_explicit(&pgw__space.held, v, memory_order_relaxed);
}

void pgw__space_lock(void); /* pgw__space_unlock is in space.h */

/* After every range of something long (S3): lets others in, now and then. true: it has just done so,
 * and what was known of the pools is not true any more. */
bool pgw__space_breathe(size_t done);

/* The time for a range that arrives, in ms. Of a coarse clock: it is read for every one of them. */
uint64_t pgw__space_stamp(void);

/* Two threads own the same memory: to go on would hand it out twice. Says so, and aborts. The lock is
 * held, and what it guards is as it should be. */
_Noreturn void pgw__space_given_twice(void);

/* flight.c, in a forked child: what was in flight is pending again (S5). */
void pgw__space_land(void);

/* Put a range into a pool. Without an extent for it the memory is unmapped: that is what clean
 * space comes to anyway. The lock is held. */
void pgw__space_add(enum pgw__state s, struct pgw_range r);

/* Clean space has grown. The lock is held. */
void pgw__space_note_clean(void);

/* How much to ask the kernel for when need bytes are wanted. */
uint64_t pgw__space_chunk(uint64_t need);

/* dump.c. Outside of the lock: hide clean ranges that are large; put a hidden range, which the caller
 * has taken, back into core dumps. false: the kernel would not (it would need one more mapping). */
void pgw__space_hide(void);
bool pgw__space_reveal(struct pgw_range r);

#endif
