/* SPDX-License-Identifier: BSD-2-Clause
 *
 * update.c - many threads' small changes in one transaction.
 *
 * A thread puts its closure into the environment's queue. The one that finds the queue empty leads: it
 * begins a write transaction, which waits for other writers while more closures come; then it takes
 * out all that are there, runs them, commits, and tells each its result. Who comes meanwhile finds
 * the queue empty and leads the next batch.
 *
 *   queued --taken--> in a batch --run, committed--> done
 *                 \-> left over: the first one leads the rest
 *
 * U1  At most one thread has found the queue empty and not taken it yet: the queue stays non-empty
 *     until it does. So only one thread takes at a time.
 * U2  A closure runs once, in one thread, and its thread waits until it is done: what it refers to on
 *     a stack lives as long.
 * U3  A closure that fails leaves nothing in the transaction: it had one of its own, nested. Only
 *     the commit of all can fail for all.
 * U4  A batch is bounded, and the rest goes to the thread of its first closure, so that nobody leads
 *     longer than for one batch. The rest is led before anything that came later: the new leader is
 *     not behind the thread that leads what has come since, but beside it, at LMDB's writer lock.
 *
 * A nested transaction costs two allocations of a megabyte or two, which are not touched; a closure that is
 * alone runs in the outer transaction itself. With MDB_WRITEMAP LMDB has no nested transactions: there each
 * closure has a transaction of its own, one after the other, and in group durability they share the
 * barrier.
 *
 * mdb_drop is refused in a closure. Random histories on stock LMDB 0.9.24 that delete a database in a
 * nested transaction lose pages, or give them out twice, in most of the runs; the same ones without
 * mdb_drop, none of 60.
 */
#include "update.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>

#include "commit.h"
#include "env.h"
#include "front.h"
#include "gate.h"
#include "options.h"
#include "queue.h"

#define PUBLIC __attribute__((visibility("default")))

/* So many closures in one transaction: the last of them waits for all, and a transaction that is too large
 * spills pages. */
#define BATCH_MAX 128u

enum state { QUEUED, LEADS, DONE };

struct job {
	struct pgw__queue_node node;
	pgw_update_fn *fn;
	void *arg;
	int rc;
	_Atomic enum state state; /* also hands over what is written before it is set */
	sem_t wake;
};

struct batch {
	struct pgw__env *e;
	MDB_env *env;
	struct job *first, *end; /* end: not of it; NULL if nothing is left over */
	unsigned jobs;
};

__thread bool pgw__updating;

static struct job *job_of(struct pgw__queue_node *node)
{
	return node ? (struct job *)((char *)node - offsetof(struct job, node)) : NULL;
}

static struct job *next_of(struct job *job)
{
	return job_of(pgw__queue_next(&job->node));
}

static struct pgw__queue *queue_of(struct pgw__env *e)
{
	struct pgw__queue *q = atomic_load(&e->updates), *fresh, *none = NULL;

	if (q)
		return q;
	fresh = pgw__queue_create();
	if (!fresh)
		return NULL;
	if (atomic_compare_exchange_strong(&e->updates, &none, fresh))
		return fresh;
	pgw__queue_destroy(fresh);
	return none;
}

static void run(struct job *job, MDB_txn *txn)
{
	pgw__updating = true;
	job->rc = job->fn(txn, job->arg);
	pgw__updating = false;
}

static void run_nested(struct batch *b, struct job *job, MDB_txn *outer)
{
	MDB_txn *txn;

	job->rc = mdb_txn_begin(b->env, outer, 0, &txn);
	if (job->rc)
		return;
	run(job, txn);
	if (job->rc)
		mdb_txn_abort(txn);
	else
		job->rc = mdb_txn_commit(txn);
}

/* Find where the batch ends. Loading the state makes what its thread wrote into the job visible here. */
static void bound(struct batch *b)
{
	struct job *job = b->first;

	for (b->jobs = 0; job && b->jobs < BATCH_MAX; b->jobs++) {
		(void)atomic_load_explicit(&job->state, memory_order_acquire);
		job = next_of(job);
	}
	if (job)
		(void)atomic_load_explicit(&job->state, memory_order_acquire);
	b->end = job;
}

static void set_all(const struct batch *b, int rc)
{
	for (struct job *job = b->first; job != b->end; job = next_of(job))
		if (!job->rc)
			job->rc = rc;
}

static void tell(struct job *job, enum state state)
{
	atomic_store_explicit(&job->state, state, memory_order_release);
	sem_post(&job->wake);
}

/* U4. Not before the batch has run: its thread would have to wait anyway, and could wake too early. */
static void hand_over_rest(struct batch *b)
{
	if (b->end)
		tell(b->end, LEADS);
}

/* Everything in one transaction, which has begun. */
static void run_together(struct batch *b, MDB_txn *outer)
{
	bool any = false;
	int rc = 0;

	for (struct job *job = b->first; job != b->end; job = next_of(job)) {
		if (b->jobs == 1)
			run(job, outer);
		else
			run_nested(b, job, outer);
		any = any || !job->rc;
	}
	hand_over_rest(b);
	if (any)
		rc = mdb_txn_commit(outer);
	else
		mdb_txn_abort(outer);
	set_all(b, rc);
}

/* Wait for a transaction that was committed without waiting. 0 or errno. */
static int wait_for_barrier(struct batch *b, uint64_t txnid)
{
	struct pgw__checkpointer *c = pgw__checkpointer_of(b->e);
	unsigned flags = 0;

	(void)mdb_env_get_flags(b->env, &flags);
	if (!c || b->e->options.durability == PGW_DURABILITY_RELAXED ||
	    pgw__options_unsynced(flags))
		return 0;
	return -pgw__group_wait(c, txnid, 0);
}

/* Its number in *newest, if it has changed anything. */
static int commit_one(struct batch *b, MDB_txn *txn, uint64_t *newest)
{
	uint64_t txnid = mdb_txn_id(txn);
	int rc = pgw__commit_writer(b->e, b->env, txn, false);
	struct pgw__checkpointer *c = pgw__checkpointer_of(b->e);

	if (!rc && c && pgw__gate_newest(c) >= txnid)
		*newest = txnid;
	return rc;
}

/* A transaction for each, the first of which has begun. They wait for their barrier together. */
static void run_one_by_one(struct batch *b, MDB_txn *txn)
{
	uint64_t newest = 0;

	for (struct job *job = b->first; job != b->end; job = next_of(job)) {
		job->rc = txn ? 0 : mdb_txn_begin(b->env, NULL, 0, &txn);
		if (job->rc)
			continue;
		run(job, txn);
		if (job->rc)
			mdb_txn_abort(txn);
		else
			job->rc = commit_one(b, txn, &newest);
		txn = NULL;
	}
	hand_over_rest(b);
	if (newest)
		set_all(b, wait_for_barrier(b, newest));
}

/* Lead a batch: of first and what follows it, or of what is in the queue once it is our turn. */
static void lead(struct pgw__env *e, MDB_env *env, struct pgw__queue *q, struct job *own, bool rest)
{
	struct batch b = { .e = e, .env = env, .first = rest ? own : NULL };
	struct job *job, *next;
	MDB_txn *txn;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (!rest)
		b.first = job_of(pgw__queue_take(q));
	bound(&b);
	if (!rc) {
		PGW__ENV_COUNT(e, updates, b.jobs);
		PGW__ENV_COUNT(e, update_batches, 1);
	}
	if (rc) {
		hand_over_rest(&b);
		set_all(&b, rc);
	} else if (e->writemap) {
		run_one_by_one(&b, txn);
	} else {
		run_together(&b, txn);
	}
	for (job = b.first; job != b.end; job = next) {
		next = next_of(job);
		if (job != own)
			tell(job, DONE); /* and it is gone */
	}
}

static int wait_or_lead(struct pgw__env *e, MDB_env *env, struct pgw__queue *q, struct job *job)
{
	bool first = pgw__queue_push(q, &job->node);

	if (!first) {
		while (sem_wait(&job->wake) && errno == EINTR)
			;
		if (atomic_load_explicit(&job->state, memory_order_acquire) == DONE)
			return job->rc;
	}
	lead(e, env, q, job, !first);
	return job->rc;
}

PUBLIC int pgw_update(MDB_env *env, pgw_update_fn *fn, void *arg)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);
	struct job job = { .fn = fn, .arg = arg };
	struct pgw__queue *q;
	int before, rc;

	if (!e || !fn)
		return EINVAL;
	if (pgw__updating)
		return EDEADLK;
	q = queue_of(e);
	if (!q || sem_init(&job.wake, 0, 0))
		return ENOMEM;
	atomic_store_explicit(&job.state, QUEUED, memory_order_release);
	/* Others wait for us, and we for them: this is no place to be cancelled. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	rc = wait_or_lead(e, env, q, &job);
	pthread_setcancelstate(before, NULL);
	sem_destroy(&job.wake);
	return rc;
}
