/* SPDX-License-Identifier: BSD-2-Clause
 *
 * relaxed.c - the thread that bounds how much can be lost.
 *
 * It makes a checkpoint when the oldest transaction that is not durable has waited for
 * checkpoint_ms, when the live pages of all of them come to checkpoint_bytes, or when the file has
 * grown by half of the data in it (checkpoint.c).
 *
 * The thread is created with the first transaction that is committed and need not be durable at
 * once; a process that only reads has none. All signals are blocked in it. When everything has been
 * durable for IDLE_NS it ends, and the next such transaction creates it anew: a process ends with the
 * last of its threads (main may have left by pthread_exit), and this one must not keep it alive. If it
 * is the last one, libc calls exit in it. So it has a stack as every thread of the program.
 *
 *   none --poke--> started --idle--> ended --poke, stop, or exit: joined--> none
 *                     \--exit: abandoned--> detached, and it ends when it can
 */
#include "checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "retire.h"

/* Writers wait when three times the bound of live bytes is not durable: one is being written out, one
 * is full, one is being filled. Or when the pages taken since the durable snapshot come to seven
 * quarters of the data: the file is then 2.75 times the data. It is what a slow disk runs into, and the
 * more may wait, the fewer pages are still live, and must be written, of a transaction (docs/design.md). */
#define OVERFULL_BYTES(bytes)  (3 * (bytes))
#define OVERFULL_TAKEN(growth) ((growth) / 2 * 7)

/* Creating the thread takes some ten microseconds: once a second is nothing. */
#define IDLE_NS UINT64_C(1000000000)

static uint64_t due(const struct pgw__checkpointer *c)
{
	return c->next.first + c->options.checkpoint_ms * UINT64_C(1000000);
}

static bool pending(struct pgw__checkpointer *c)
{
	return c->next.txnid != atomic_load(&c->durable) && !c->failed;
}

/* The lock is held. Sleep until there may be something to do. False: there was nothing for long. */
static bool rest(struct pgw__checkpointer *c)
{
	bool idle = c->busy || !pending(c);
	uint64_t at = idle ? pgw__clock_ns(CLOCK_MONOTONIC) + IDLE_NS : due(c);
	const struct timespec t = { .tv_sec = (time_t)(at / 1000000000u),
		.tv_nsec = (long)(at % 1000000000u) };

	return pthread_cond_timedwait(&c->work, &c->lock, &t) != ETIMEDOUT || c->busy || pending(c);
}

static void *run(void *arg)
{
	struct pgw__checkpointer *c = arg;
	bool wanted = true;

	pthread_mutex_lock(&c->lock);
	while (wanted && !c->stop) {
		if (!c->busy && pending(c) &&
		    (c->full || pgw__clock_ns(CLOCK_MONOTONIC) >= due(c))) {
			pgw__checkpoint_run(c);
			pgw__retire(c);
		} else {
			wanted = rest(c);
		}
	}
	c->thread_ended = c->thread_started; /* not if it was abandoned: then nobody joins it */
	c->thread_started = false;
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* It may be this thread: the last one of the process, in exit. */
static void join(struct pgw__checkpointer *c)
{
	if (!pthread_equal(c->thread, pthread_self()))
		(void)pthread_join(c->thread, NULL);
	c->thread_ended = false;
}

/* Its last step is behind it, but for a few instructions; so the lock may be held. */
void pgw__relaxed_reap(struct pgw__checkpointer *c)
{
	if (c->thread_ended)
		join(c);
}

void pgw__relaxed_abandon(struct pgw__checkpointer *c)
{
	pgw__relaxed_reap(c);
	c->stop = true;
	if (c->thread_started && !pthread_equal(c->thread, pthread_self())) {
		(void)pthread_detach(c->thread);
		c->thread_started = false;
		pthread_cond_signal(&c->work);
	}
}

static int start(struct pgw__checkpointer *c)
{
	sigset_t all, before;
	int rc;

	pgw__relaxed_reap(c);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&c->thread, NULL, run, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	c->thread_started = !rc;
	return -rc;
}

int pgw__relaxed_poke(struct pgw__checkpointer *c)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (!c->thread_started)
		rc = start(c);
	else if (c->next.commits == 1 || c->full)
		pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static bool overfull(const struct pgw__checkpointer *c, uint64_t bytes, uint64_t taken)
{
	return bytes >= OVERFULL_BYTES(c->options.checkpoint_bytes) ||
	       taken >= OVERFULL_TAKEN(c->growth);
}

/* A writer that waited for its own transaction would leave the disk idle while it works, and be idle
 * itself while the disk does: the checkpoint under way is enough, unless what follows it is already
 * too much alone. */
uint64_t pgw__relaxed_behind(struct pgw__checkpointer *c)
{
	const struct pgw__cut *next = &c->next;
	uint64_t txnid = 0;

	pthread_mutex_lock(&c->lock);
	if (overfull(c, next->bytes, next->taken))
		txnid = next->txnid;
	else if (overfull(c, c->running_bytes + next->bytes, c->running_taken + next->taken))
		txnid = c->running.txnid;
	pthread_mutex_unlock(&c->lock);
	return txnid;
}

void pgw__relaxed_stop(struct pgw__checkpointer *c)
{
	bool there;

	pthread_mutex_lock(&c->lock);
	there = c->thread_started || c->thread_ended;
	c->stop = true;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
	if (there)
		join(c);
}
