/* SPDX-License-Identifier: BSD-2-Clause
 *
 * gate.h - one write transaction at a time, and a moment of rest after each.
 *
 * Taken before LMDB's own writer lock, which is released inside mdb_txn_commit, and let go of after
 * mdb_txn_commit has returned and the commit has been noted. In between the newest meta page and the
 * set of dirty pages stand still. Only where group or relaxed durability can be needed; strict does
 * without.
 */
#ifndef PGW_STORE_GATE_H
#define PGW_STORE_GATE_H

#include "checkpoint.h"
#include "env.h"

/* The gate of a new entry. It is robust, as LMDB's own lock is: a thread that ends in a transaction must not
 * stop the others here. 0 or errno. */
int pgw__gate_init(struct pgw__env *e);

/* Take it: 0; or EDEADLK, this thread has it. */
int pgw__gate_lock(struct pgw__env *e);

/* The same without waiting. EBUSY: another thread has it. */
int pgw__gate_trylock(struct pgw__env *e);

/* A write transaction of the outermost level is about to begin. Attaches if that is asked for.
 * 0, and if gated the gate is held; EDEADLK, where LMDB alone would hang: this thread has one already; or
 * LMDB's or this library's code. */
int pgw__gate_enter(struct pgw__env *e, MDB_env *lmdb, bool *gated);

/* It has ended, or could not begin. */
void pgw__gate_leave(struct pgw__env *e);

/* It has been committed; the writer still holds the gate. wait: until it is durable, if that is what
 * the environment promises. Leaves the gate in any case. 0 or errno. */
int pgw__gate_committed(struct pgw__env *e, uint64_t txnid, unsigned flags, bool wait);

static inline struct pgw__checkpointer *pgw__checkpointer_of(const struct pgw__env *e)
{
	return atomic_load_explicit(&e->checkpointer, memory_order_acquire);
}

/* The newest transaction that was committed. */
uint64_t pgw__gate_newest(struct pgw__checkpointer *c);

/* Make everything that is committed durable. 0 or errno. */
int pgw__gate_sync(struct pgw__checkpointer *c);

#endif
