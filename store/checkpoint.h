/* SPDX-License-Identifier: BSD-2-Clause
 *
 * checkpoint.h - the durable horizon of an environment in group or relaxed durability.
 *
 * Commits are written and not synced. The horizon is the newest snapshot that is durable; a
 * checkpoint moves it to a newer one with one barrier. group and relaxed differ only in who waits.
 */
#ifndef PGW_STORE_CHECKPOINT_H
#define PGW_STORE_CHECKPOINT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <pagewise/store.h>

#include "cut.h"
#include "env.h"
#include "identity.h"
#include "pin.h"

struct pgw__waiter {
	struct pgw__waiter *next;
	uint64_t txnid;
	bool queued;
	_Atomic bool woken; /* before the semaphore says so; sanitizers do not know sem_clockwait */
	sem_t wake;
};

struct pgw__checkpointer {
	/* Constant while attached. */
	struct pgw__env *env;
	MDB_env *lmdb;
	pid_t pid;    /* of who attached; in a child nothing here may be used */
	int owner_fd; /* attach.c */
	struct pgw_env_options options;
	struct pgw__identity id;
	uint64_t start_early; /* live bytes from which write-out begins before the cut */
	size_t record_ranges; /* more are not put into a record, even if there is room */

	pthread_mutex_t lock; /* the rest, unless it says otherwise */

	/* d is pinned by *durable_pin, always. `next` is (running, newest], `running` is what the
	 * checkpoint under way makes durable; empty if there is none. */
	_Atomic uint64_t durable; /* written under lock, read anywhere */
	struct pgw__pin pins[PGW__PINS];
	struct pgw__pin *durable_pin;
	struct pgw__cut next;
	struct pgw__cut running; /* while busy: of the thread that runs it, but for the pin */
	uint64_t running_bytes;	 /* of running, at most */
	uint64_t running_taken;
	uint64_t growth;	   /* bytes that may be taken before the file has grown enough */
	uint64_t measured;	   /* last page when growth was set; of who runs the checkpoint */
	bool full;		   /* it is time for a checkpoint of next */
	struct pgw_ranges weighed; /* scratch of the writer */
	bool busy;
	pthread_t runner; /* while busy: the thread that runs it, or keeps others from it */
	int failed;	  /* -errno, then for good */

	/* Of the thread that runs the checkpoint. */
	uint64_t seq;  /* of the record of d */
	uint64_t left; /* bytes that were dirtied, free by the checkpoint, and not written for it */
	uint64_t spared; /* bytes whose writing would cost what it costs to name ranges, so far */
	struct pgw_ranges freed, set;

	/* Of the thread of relaxed (retire.c). */
	struct pgw_ranges retired;
	uint64_t faults; /* major ones of the process, up to the last checkpoint */
	unsigned short_of_memory, retire_backoff; /* for so many checkpoints */

	struct pgw__waiter *waiters; /* group.c */

	/* The thread (relaxed.c). */
	pthread_t thread;
	pthread_cond_t work;
	bool thread_started, thread_ended, stop; /* ended: to be joined */
};

/* Storage for e, not attached yet. NULL: out of memory. */
struct pgw__checkpointer *pgw__checkpoint_create(
    struct pgw__env *e, MDB_env *lmdb, const struct pgw_env_options *options);

/* No checkpoint runs, no thread, no waiter. The pins are not touched. NULL is fine. */
void pgw__checkpoint_destroy(struct pgw__checkpointer *c);

/* Take the newest snapshot as durable, because the caller has just synced everything, and pin it.
 * Writers are kept out. record: filled in for it, with the next sequence number. 0 or LMDB's code. */
struct pgw__record;
int pgw__checkpoint_start(struct pgw__checkpointer *c, struct pgw__record *record);

/* Give the pins back. */
void pgw__checkpoint_finish(struct pgw__checkpointer *c);

/* A write transaction was committed, and other writers are kept out still. spilled: it wrote pages
 * before its commit. 0, or -errno: the environment has failed. */
int pgw__checkpoint_note(struct pgw__checkpointer *c, bool spilled);

/* Make what is committed durable. The lock is held, and is let go of meanwhile; busy is false. The outcome
 * is in durable and failed; waiters have been woken, and one of them may be running the next checkpoint
 * already: busy means nothing on return. */
void pgw__checkpoint_run(struct pgw__checkpointer *c);

/* group.c: wait until txnid is durable; who finds no checkpoint running runs one. deadline:
 * CLOCK_MONOTONIC ns, or 0. 0; -ETIMEDOUT; -EDEADLK: a signal handler has interrupted the checkpoint that it
 * would wait for; -errno: the environment has failed. */
int pgw__group_wait(struct pgw__checkpointer *c, uint64_t txnid, uint64_t deadline);

/* Wake those who need not wait any more, and one to run the next checkpoint. The lock is held, and let
 * go of meanwhile. */
void pgw__group_wake(struct pgw__checkpointer *c);

/* Keep checkpoints from running (the map is about to move), and let them again. */
void pgw__group_pause(struct pgw__checkpointer *c);
void pgw__group_resume(struct pgw__checkpointer *c);

/* relaxed.c: start the thread if it is not there yet; tell it that a transaction was committed. The
 * lock is not held. A thread that cannot be started costs its bound: -errno, and the caller makes
 * the transaction durable itself. */
int pgw__relaxed_poke(struct pgw__checkpointer *c);

/* The transaction that must be durable before a writer goes on, as too much is not; or 0. */
uint64_t pgw__relaxed_behind(struct pgw__checkpointer *c);

/* Join the thread if it has ended by itself. The lock is held. */
void pgw__relaxed_reap(struct pgw__checkpointer *c);

/* The process exits: the thread is to end, and is not waited for. The lock is held. */
void pgw__relaxed_abandon(struct pgw__checkpointer *c);

/* End the thread. The lock is not held, and nobody commits. */
void pgw__relaxed_stop(struct pgw__checkpointer *c);

uint64_t pgw__clock_ns(clockid_t clock);

#endif
