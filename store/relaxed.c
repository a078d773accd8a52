/* SPDX-License-Identifier: BSD-2-Clause
 *
 * relaxed.c - the thread that bounds how much can be lost.
 *
 * It makes a checkpoint when the oldest transaction that is not durable has waited for
 * checkpoint_ms, when the live pages of all of them come to checkpoint_bytes, or when the file has
 * grown by half of the data in it (checkpoint.c).
 *
 * The thread is created with the first transaction that is committed and need not be durable at
 * once; a process that only reads has none. All signals are blocked in it.
 */
#include "checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

/* Writers wait when this many times the bound of live bytes, or of growth, is not durable: one is
 * being written out, one is full, one is being filled. */
#define OVERFULL 3

static uint64_t due(const struct pgw__checkpointer *c)
{
	return c->next.first + c->options.checkpoint_ms * UINT64_C(1000000);
}

static bool pending(struct pgw__checkpointer *c)
{
	return c->next.txnid != atomic_load(&c->durable) && !c->failed;
}

/* The lock is held. Sleep until there is something to do. */
static void rest(struct pgw__checkpointer *c)
{
	uint64_t at = due(c);
	const struct timespec t = { .tv_sec = (time_t)(at / 1000000000u),
		.tv_nsec = (long)(at % 1000000000u) };

	if (c->busy || !pending(c))
		pthread_cond_wait(&c->work, &c->lock);
	else
		pthread_cond_timedwait(&c->work, &c->lock, &t);
}

static void *run(void *arg)
{
	struct pgw__checkpointer *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		if (c->busy || !pending(c))
			rest(c);
		else if (c->full || pgw__clock_ns(CLOCK_MONOTONIC) >= due(c))
			pgw__checkpoint_run(c);
		else
			rest(c);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int start(struct pgw__checkpointer *c)
{
	sigset_t all, before;
	int rc;

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
	return bytes >= OVERFULL * c->options.checkpoint_bytes || taken >= OVERFULL * c->growth;
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
	if (!c->thread_started)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->thread_started = false;
}
