/* SPDX-License-Identifier: BSD-2-Clause
 *
 * group.c - commits that wait for their barrier, and share it.
 *
 * There is no thread for this. A committer whose transaction is not durable yet and who finds no
 * checkpoint running runs one, for all transactions committed so far; the others wait. When it is
 * done, those whose transaction is durable return, and one of the rest runs the next one. So a
 * barrier serves everybody who committed while the one before it was under way, and a committer
 * that is alone makes exactly one barrier, without a switch of threads.
 *
 * Whoever ends a checkpoint, or leaves without running one it was woken for, wakes somebody as long
 * as anybody waits: nobody is forgotten.
 */
#include "checkpoint.h"

#include <errno.h>
#include <time.h>

static void enqueue(struct pgw__checkpointer *c, struct pgw__waiter *w)
{
	w->next = c->waiters;
	w->queued = true;
	c->waiters = w;
}

static void dequeue(struct pgw__checkpointer *c, struct pgw__waiter *w)
{
	struct pgw__waiter **at = &c->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->queued = false;
}

static void move(struct pgw__checkpointer *c, struct pgw__waiter *w, struct pgw__waiter **list)
{
	dequeue(c, w);
	w->next = *list;
	*list = w;
}

/* A waiter is gone as soon as it has been woken. */
static void wake_all(struct pgw__waiter *list)
{
	while (list) {
		struct pgw__waiter *w = list;

		list = w->next;
		atomic_store_explicit(&w->woken, true, memory_order_release);
		sem_post(&w->wake);
	}
}

void pgw__group_wake(struct pgw__checkpointer *c)
{
	uint64_t durable = atomic_load(&c->durable);
	struct pgw__waiter *w, *next, *list = NULL;

	for (w = c->waiters; w; w = next) {
		next = w->next;
		if (c->failed || w->txnid <= durable)
			move(c, w, &list);
	}
	if (!c->busy && c->waiters)
		move(c, c->waiters, &list);
	if (!c->busy && c->thread_started)
		pthread_cond_signal(&c->work); /* it rests while others run a checkpoint */
	if (!list)
		return;
	/* With the lock held, each of them and each writer would run into it. */
	pthread_mutex_unlock(&c->lock);
	wake_all(list);
	pthread_mutex_lock(&c->lock);
}

/* False: the deadline has passed. */
static bool sleep_until(struct pgw__waiter *w, uint64_t deadline)
{
	struct timespec t = { .tv_sec = (time_t)(deadline / 1000000000u),
		.tv_nsec = (long)(deadline % 1000000000u) };
	int rc;

	do
		rc = deadline ? sem_clockwait(&w->wake, CLOCK_MONOTONIC, &t) : sem_wait(&w->wake);
	while (rc && errno == EINTR);
	return !rc && atomic_load_explicit(&w->woken, memory_order_acquire);
}

/* The deadline of w has passed. True: it has been taken from the queue to be woken meanwhile. */
static bool give_up(struct pgw__checkpointer *c, struct pgw__waiter *w)
{
	bool queued;

	pthread_mutex_lock(&c->lock);
	queued = w->queued;
	if (queued)
		dequeue(c, w);
	pthread_mutex_unlock(&c->lock);
	if (!queued)
		(void)sleep_until(w, 0); /* who took it still refers to it, for a moment */
	return !queued;
}

/* Wait to be woken. The lock is held on entry, and not on return: most who are woken need nothing more
 * of it. False: the deadline has passed. */
static bool queue_up(struct pgw__checkpointer *c, uint64_t txnid, uint64_t deadline)
{
	struct pgw__waiter w = { .txnid = txnid };
	bool woken;

	sem_init(&w.wake, 0, 0);
	enqueue(c, &w);
	pthread_mutex_unlock(&c->lock);
	/* Woken at the last moment is woken: it may have been to run a checkpoint. */
	woken = sleep_until(&w, deadline) || give_up(c, &w);
	sem_destroy(&w.wake);
	return woken;
}

static int wait_or_run(struct pgw__checkpointer *c, uint64_t txnid, uint64_t deadline)
{
	bool in_time = true;
	int rc;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		rc = c->failed;
		if (rc || atomic_load(&c->durable) >= txnid)
			break;
		if (!in_time) {
			rc = -ETIMEDOUT;
			break;
		}
		if (!c->busy && c->next.txnid < txnid) {
			rc = -EINVAL; /* nobody has committed it */
			break;
		}
		if (!c->busy) {
			pgw__checkpoint_run(c);
			continue;
		}
		if (pthread_equal(c->runner, pthread_self())) {
			rc = -EDEADLK;
			break;
		}
		in_time = queue_up(c, txnid, deadline);
		if (atomic_load(&c->durable) >= txnid)
			return 0;
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Others wait for the checkpoint that this thread may come to run, and find its waiter in the queue: this is
 * no place to be cancelled. */
int pgw__group_wait(struct pgw__checkpointer *c, uint64_t txnid, uint64_t deadline)
{
	int cancel, rc;

	if (atomic_load(&c->durable) >= txnid)
		return 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rc = wait_or_run(c, txnid, deadline);
	pthread_setcancelstate(cancel, NULL);
	return rc;
}

void pgw__group_pause(struct pgw__checkpointer *c)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&c->lock);
	while (c->busy) {
		(void)queue_up(c, UINT64_MAX, 0);
		pthread_mutex_lock(&c->lock);
	}
	c->busy = true;
	c->runner = pthread_self();
	pthread_mutex_unlock(&c->lock);
	pthread_setcancelstate(cancel, NULL);
}

void pgw__group_resume(struct pgw__checkpointer *c)
{
	pthread_mutex_lock(&c->lock);
	c->busy = false;
	pgw__group_wake(c);
	pthread_mutex_unlock(&c->lock);
}
