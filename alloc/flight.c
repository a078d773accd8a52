/* SPDX-License-Identifier: BSD-2-Clause
 *
 * flight.c - ranges that are being purged: from pending (or straight from jemalloc) into flight, and
 * from there to what has become of them.
 *
 * A batch is an array in the order of addresses, since that is how the kernel likes it and how ranges
 * come most of the time: jemalloc lets its oldest extents go first, and programs free what they
 * have allocated in order. What comes out of order is moved into place.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <pagewise/probe.h>

#include "space_private.h"

void pgw__space_land(void)
{
	struct pgw__extent *e;

	while ((e = TAILQ_FIRST(&pgw__space.in_flight))) {
		TAILQ_REMOVE(&pgw__space.in_flight, e, queue);
		e->stamp = pgw__space_stamp();
		if (pgw__pool_add(&pgw__space.pool[PENDING], e))
			abort();
	}
	pgw__space.in_flight_bytes = 0;
}

/* Where e belongs: the number of those that start below it. */
static size_t place(const struct pgw__batch *b, const struct pgw__extent *e)
{
	size_t lo = 0, hi = b->n;

	if (!hi || b->extents[hi - 1]->start < e->start)
		return hi;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (b->extents[mid]->start < e->start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Into flight. The lock is held. */
static void launch(struct pgw__batch *b, struct pgw__extent *e)
{
	struct pgw__extent **at = &b->extents[place(b, e)], **end = &b->extents[b->n];

	if ((at > b->extents && pgw__extent_end(at[-1]) > e->start) ||
	    (at < end && pgw__extent_end(e) > at[0]->start))
		pgw__space_given_twice();
	memmove(at + 1, at, (size_t)((char *)end - (char *)at));
	*at = e;
	b->n++;
	TAILQ_INSERT_TAIL(&pgw__space.in_flight, e, queue);
	pgw__space.in_flight_bytes += e->len;
}

int pgw__space_give_to(struct pgw__batch *b, void *addr, size_t size)
{
	struct pgw__extent *e;

	pgw__space_lock();
	e = pgw__extent_new(&pgw__space.cache);
	if (e) {
		e->start = (uint64_t)addr;
		e->len = size;
		launch(b, e);
		pgw__space.n.given++;
		pgw__space.n.given_bytes += size;
		pgw__space_set_held(pgw__space_held() - size);
	}
	pgw__space_unlock();
	return e ? 0 : -ENOMEM;
}

void pgw__space_list(struct pgw__batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		b->ranges[i] = (struct pgw_range){ b->extents[i]->start, b->extents[i]->len };
}

size_t pgw__space_take(struct pgw__batch *b, uint64_t target, uint64_t cutoff)
{
	struct pgw__pool *from = &pgw__space.pool[b->from_lazy ? LAZY : PENDING];
	struct pgw__extent *e;

	b->n = 0;
	pgw__space_lock();
	while (b->n < b->cap && (e = pgw__pool_oldest(from)) &&
	       (from->bytes > target || e->stamp < cutoff)) {
		pgw__pool_remove(from, e);
		launch(b, e);
		(void)pgw__space_breathe(b->n);
	}
	pgw__space_unlock();
	pgw__space_list(b);
	return b->n;
}

/* What has become of a range of a batch. The lock is held. */
static enum pgw__state landed(const struct pgw__batch *b, int status, uint64_t len)
{
	enum pgw__state to = status ? STALE : b->to_lazy ? LAZY : CLEAN;

	if (b->to_lazy) {
		pgw__space.n.lazily_freed_bytes += len;
	} else {
		pgw__space.n.purged_ranges++;
		pgw__space.n.purged_bytes += len;
	}
	if (to == CLEAN && !pgw_dontneed_zeroes())
		to = STALE;
	pgw__space.n.kept_ranges += to == STALE;
	return to;
}

void pgw__space_put(struct pgw__batch *b)
{
	struct pgw__extent *near[POOLS] = { NULL };
	uint64_t now;

	pgw__space_lock();
	now = pgw__space_stamp();
	pgw__space.n.purges++;
	for (size_t i = 0; i < b->n; i++) {
		struct pgw__extent *e = b->extents[i];
		enum pgw__state to = landed(b, b->status[i], e->len);

		TAILQ_REMOVE(&pgw__space.in_flight, e, queue);
		pgw__space.in_flight_bytes -= e->len;
		e->stamp = now;
		if (pgw__pool_add_near(&pgw__space.pool[to], e, near[to]))
			pgw__space_given_twice();
		near[to] = e;
		if (pgw__space_breathe(i + 1)) {
			memset(near, 0, sizeof(near));
			now = pgw__space_stamp();
		}
	}
	pgw__space_note_clean();
	if (TAILQ_EMPTY(&pgw__space.in_flight))
		pthread_cond_broadcast(&pgw__space.idle);
	pgw__space_unlock();
	b->n = 0;
}

uint64_t pgw__space_in_flight(void)
{
	uint64_t bytes;

	pgw__space_lock();
	bytes = pgw__space.in_flight_bytes;
	pgw__space_unlock();
	return bytes;
}

void pgw__space_drain(void)
{
	int old;

	/* The wait is a cancellation point, and would end with the lock held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pgw__space_lock();
	while (!TAILQ_EMPTY(&pgw__space.in_flight)) {
		pgw__space.torn = false;
		pthread_cond_wait(&pgw__space.idle, &pgw__space.lock);
		pgw__space.torn = true;
	}
	pgw__space_unlock();
	pthread_setcancelstate(old, NULL);
}
