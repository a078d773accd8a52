/* SPDX-License-Identifier: BSD-2-Clause
 *
 * checkpoint.c - move the durable horizon from d to x (checkpoint.h).
 *
 * What holds, always, from attach to detach. The numbers I1 to I5 are those of recover.c.
 *
 * C1  Snapshot d is durable: all its pages, and a record of it. It is pinned (I2).
 * C2  The slot of d's record is not written before another record is durable: the sequence number
 *     chooses the slot, and grows by one for each.
 * C3  A record of x is written only when every page of x is durable, or is in the same barrier and
 *     in the record's digest. Pages of x that were not dirtied in (d, x] are pages of d, by C1.
 * C4  The pages in a digest do not change while x or an older snapshot is pinned (cut.h).
 * C5  d is let go of only when the record of x is durable, and x is pinned by then.
 * C6  A failure is final (I4). The record of x is wiped, and the file marked, so that nobody takes
 *     the page cache for the disk; d stays pinned.
 *
 * One barrier makes pages and record durable together. It is the digest that allows this: whatever
 * part of the barrier's writes reached the disk before the power went, the record either proves
 * itself or the one of d does. A record whose ranges do not fit its 3.5 KiB comes after a barrier of
 * its own, without digest.
 *
 * One checkpoint at a time: `busy`. The one who runs it owns `running`, `seq`, `freed` and `set`. Until it
 * has taken the cut, what it makes durable grows with each commit, and `running` is empty.
 *
 *   idle --run: busy, write-out--> running = next, next = empty --barrier--> idle, d = x
 *                    \                                           \--an error--> failed
 *                     \--an error--> failed
 */
#include "checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "commit.h"
#include "fence.h"
#include "record.h"
#include "retire.h"
#include "sys.h"

/* In group, write-out of more than this is started before the cut is taken, and what has been committed
 * by then, if it is as much again, once more: twice as often gained nothing. */
#define START_EARLY  (UINT64_C(1) << 20)
#define START_PASSES 2

uint64_t pgw__clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct pgw__map geometry(const struct pgw__env *e)
{
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	uintptr_t end = atomic_load_explicit(&e->map_end, memory_order_relaxed);

	return (struct pgw__map){ .start = (const void *)start,
		.len = end - start,
		.psize = e->psize,
		.writemap = e->writemap };
}

static int init_locks(struct pgw__checkpointer *c)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc)
		return rc;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(&c->work, &attr);
	pthread_condattr_destroy(&attr);
	if (rc)
		return rc;
	rc = pthread_mutex_init(&c->lock, NULL);
	if (rc)
		pthread_cond_destroy(&c->work);
	return rc;
}

struct pgw__checkpointer *pgw__checkpoint_create(
    struct pgw__env *e, MDB_env *lmdb, const struct pgw_env_options *options)
{
	struct pgw__checkpointer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (init_locks(c)) {
		free(c);
		return NULL;
	}
	c->env = e;
	c->lmdb = lmdb;
	c->pid = getpid();
	c->owner_fd = -1;
	c->options = *options;
	c->growth = options->checkpoint_bytes;
	c->start_early = START_EARLY;
	c->record_ranges = SIZE_MAX; /* what has room */
	(void)pgw__sys.major_faults(&c->faults);
	pgw__cut_init(&c->next);
	pgw__cut_init(&c->running);
	pgw_ranges_init(&c->freed);
	pgw_ranges_init(&c->set);
	pgw_ranges_init(&c->retired);
	pgw_ranges_init(&c->weighed);
	return c;
}

void pgw__checkpoint_destroy(struct pgw__checkpointer *c)
{
	if (!c)
		return;
	if (c->owner_fd >= 0)
		pgw__sys.close(c->owner_fd);
	pgw__cut_finish(&c->next);
	pgw__cut_finish(&c->running);
	pgw_ranges_finish(&c->freed);
	pgw_ranges_finish(&c->set);
	pgw_ranges_finish(&c->retired);
	pgw_ranges_finish(&c->weighed);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->work);
	free(c);
}

/* The meta image of snapshot txnid, from the map. Other writers are kept out, so its slot still
 * holds it. */
static int copy_meta(struct pgw__checkpointer *c, uint64_t txnid, unsigned char *out)
{
	const struct pgw__map map = geometry(c->env);
	const char *page = (const char *)map.start + (txnid & 1) * map.psize;

	memcpy(out, page + PGW__META_OFFSET, PGW__META_SIZE);
	return pgw__get64(out, PGW__META_TXNID) == txnid ? 0 : -EIO;
}

/* One that is neither of d nor of the checkpoint under way. */
static struct pgw__pin *spare_pin(struct pgw__checkpointer *c)
{
	for (unsigned i = 0; i < 3; i++)
		if (&c->pins[i] != c->durable_pin && &c->pins[i] != c->running.pin)
			return &c->pins[i];
	abort(); /* three pins, two in use */
}

int pgw__checkpoint_start(struct pgw__checkpointer *c, struct pgw__record *record)
{
	uint64_t txnid;
	int rc = 0;

	/* Backwards, so that all three have their slot, and the first one is left active. */
	for (unsigned i = 3; i-- && !rc;) {
		rc = pgw__pin_take(&c->pins[i], c->lmdb, &txnid);
		if (!rc && i)
			pgw__pin_drop(&c->pins[i]);
	}
	if (!rc)
		rc = -copy_meta(c, txnid, record->meta);
	if (rc) {
		pgw__checkpoint_finish(c);
		return rc;
	}
	c->durable_pin = &c->pins[0];
	atomic_store(&c->durable, txnid);
	pgw__cut_restart(&c->next, txnid);
	record->seq = ++c->seq;
	record->txnid = txnid;
	record->wall = pgw__clock_ns(CLOCK_REALTIME);
	record->has_digest = false;
	record->id = c->id;
	return 0;
}

void pgw__checkpoint_finish(struct pgw__checkpointer *c)
{
	for (unsigned i = 0; i < 3; i++)
		pgw__pin_finish(&c->pins[i]);
}

/* Most pages that many small transactions dirty are free again soon. Find out how much really waits:
 * at the earliest after half of the bound has been dirtied anew. */
static void weigh(struct pgw__checkpointer *c, const struct pgw__map *map)
{
	if (!c->next.incomplete)
		(void)pgw__cut_reduce(&c->next, map, &c->weighed);
	c->full = c->next.incomplete || c->next.bytes >= c->options.checkpoint_bytes / 2;
}

int pgw__checkpoint_note(struct pgw__checkpointer *c, bool spilled)
{
	struct pgw__env *e = c->env;
	const struct pgw__map map = geometry(e);
	struct pgw__cut *next = &c->next;
	struct pgw__pin *pin;
	uint64_t txnid;
	int rc;

	pthread_mutex_lock(&c->lock);
	pin = next->pin ? next->pin : spare_pin(c);
	rc = pgw__pin_take(pin, c->lmdb, &txnid) ? -EIO : 0;
	if (!rc && txnid == next->txnid) { /* LMDB found nothing to commit */
		if (!next->pin)
			pgw__pin_drop(pin);
		goto out;
	}
	if (!rc)
		rc = copy_meta(c, txnid, next->meta);
	if (rc) {
		c->failed = pgw__env_fail(e, rc);
		pgw__group_wake(c);
		goto out;
	}
	next->pin = pin;
	next->txnid = txnid;
	next->wall = pgw__clock_ns(CLOCK_REALTIME);
	if (!next->commits++)
		next->first = pgw__clock_ns(CLOCK_MONOTONIC);
	pgw__cut_add(next, &e->dirty, &map, spilled);
	/* While a checkpoint runs there is no other to be started, and the next one will look itself. */
	if (next->bytes >= (c->busy ? 2 : 1) * c->options.checkpoint_bytes)
		weigh(c, &map);
	if (next->taken >= c->growth)
		c->full = true;
out:
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Bytes that the cut's transactions dirtied and that are free by its end. */
static uint64_t dead(const struct pgw__cut *cut)
{
	return cut->taken > cut->bytes ? cut->taken - cut->bytes : 0;
}

/* Naming a range costs a request to the device of its own; it spares the pages in between, which are
 * dirty because they were left out before, are free, or belong to later transactions. Where they are few,
 * as after commits of one thread in group durability, one call over all is cheaper. What naming has
 * cost is added up, so that pages once left out are not shunned for ever. With MDB_WRITEMAP a transaction
 * that is running has dirty pages that nobody has counted.
 * behind: dirtied after the cut. */
static bool alone(const struct pgw__checkpointer *c, const struct pgw__cut *cut, uint64_t behind)
{
	uint64_t others = c->left + dead(cut) + behind;

	return !c->env->writemap && others <= c->spared + cut->bytes / 16;
}

/* The cut is durable, by its ranges. */
static void note_written(struct pgw__checkpointer *c, const struct pgw__cut *cut, bool was_alone)
{
	c->left = was_alone ? 0 : c->left + dead(cut);
	c->spared = was_alone ? 0 : c->spared + cut->dirty.n * c->env->psize / 4;
}

static int sync_cut(struct pgw__checkpointer *c)
{
	uint64_t behind;
	bool one_call;
	int rc;

	pthread_mutex_lock(&c->lock);
	behind = c->next.taken;
	pthread_mutex_unlock(&c->lock);
	one_call = alone(c, &c->running, behind);
	rc = pgw__sync_ranges(c->env, &c->set, one_call);
	if (!rc)
		note_written(c, &c->running, one_call);
	return rc;
}

static int write_slot(struct pgw__checkpointer *c, uint64_t seq, const unsigned char *slot)
{
	const struct iovec v = { .iov_base = (void *)slot, .iov_len = PGW__RECORD_SIZE };
	off_t off = (off_t)(seq & 1) * c->env->psize + PGW__RECORD_OFFSET;
	int fd = atomic_load_explicit(&c->env->fd, memory_order_relaxed);
	ssize_t r = pgw__write_all(fd, &v, 1, off);

	return r < 0 ? (int)r : 0;
}

static int add_slot(struct pgw__checkpointer *c, uint64_t seq)
{
	return pgw_ranges_add(
	    &c->set, (seq & 1) * (uint64_t)c->env->psize, PGW__RECORD_OFFSET + PGW__RECORD_SIZE);
}

/* The set is the live pages of the cut. -E2BIG: they do not fit a record. */
static int sync_with_digest(struct pgw__checkpointer *c, struct pgw__record *r)
{
	struct pgw__cut *cut = &c->running;
	const struct pgw__map map = geometry(c->env);
	unsigned char slot[PGW__RECORD_SIZE];
	int rc;

	if (cut->dirty.n > c->record_ranges)
		return -E2BIG;
	r->has_digest = true;
	rc = pgw__record_encode(r, &cut->dirty, map.psize, slot); /* does it fit? */
	if (rc)
		return rc;
	rc = pgw__record_digest(map.start, -1, &cut->dirty, r->digest);
	if (!rc)
		rc = pgw__record_encode(r, &cut->dirty, map.psize, slot);
	if (!rc)
		rc = add_slot(c, r->seq);
	if (!rc)
		rc = write_slot(c, r->seq, slot);
	return rc ? rc : sync_cut(c);
}

/* Pages first, then the record. everything: the cut does not know its pages. */
static int sync_in_two(struct pgw__checkpointer *c, struct pgw__record *r, bool everything)
{
	unsigned char slot[PGW__RECORD_SIZE];
	int rc;

	if (everything)
		rc = pgw__sync_all(c->env);
	else
		rc = sync_cut(c);
	if (rc)
		return rc;
	r->has_digest = false;
	pgw_ranges_clear(&c->set);
	rc = pgw__record_encode(r, &c->set, c->env->psize, slot);
	if (!rc)
		rc = add_slot(c, r->seq);
	if (!rc)
		rc = write_slot(c, r->seq, slot);
	PGW__ENV_COUNT(c->env, two_barrier_checkpoints, 1);
	return rc ? rc : pgw__sync_ranges(c->env, &c->set, false);
}

static int make_durable(struct pgw__checkpointer *c, bool reduced)
{
	struct pgw__cut *cut = &c->running;
	struct pgw__record r = {
		.seq = c->seq + 1, .txnid = cut->txnid, .wall = cut->wall, .id = c->id
	};
	bool everything = cut->incomplete;
	int rc = -E2BIG;

	memcpy(r.meta, cut->meta, PGW__META_SIZE);
	pgw_ranges_clear(&c->set);
	if (!everything && pgw_ranges_add_all(&c->set, &cut->dirty))
		everything = true;
	if (!everything && reduced)
		rc = sync_with_digest(c, &r);
	if (rc == -E2BIG)
		rc = sync_in_two(c, &r, everything);
	if (rc)
		return rc;
	PGW__ENV_COUNT(c->env, checkpoints, 1);
	PGW__ENV_COUNT(c->env, checkpoint_commits, cut->commits);
	PGW__ENV_COUNT(c->env, live_ranges, cut->dirty.n);
	PGW__ENV_COUNT(c->env, live_bytes, cut->bytes);
	return 0;
}

/* C6. Best effort: the disk is failing. In the page cache at least it is seen by whoever opens the
 * file next. */
static void mark_failed(struct pgw__checkpointer *c)
{
	static const unsigned char nothing[PGW__RECORD_SIZE];
	int fd = atomic_load_explicit(&c->env->fd, memory_order_relaxed);

	if (pgw__env_check_file(c->env))
		return;
	(void)write_slot(c, c->seq + 1, nothing);
	(void)pgw__fence_set(fd, c->env->psize, PGW__FENCE_FAILED);
}

/* C5 */
static void publish(struct pgw__checkpointer *c)
{
	struct pgw__cut *cut = &c->running;

	c->seq++;
	pgw__pin_drop(c->durable_pin);
	c->durable_pin = cut->pin;
	atomic_store(&c->durable, cut->txnid);
	atomic_store_explicit(&c->env->durable_txnid, cut->txnid, memory_order_relaxed);
}

static void take_cut(struct pgw__checkpointer *c)
{
	struct pgw__cut empty = c->running;

	c->running = c->next;
	c->next = empty;
	pgw__cut_restart(&c->next, c->running.txnid);
	c->full = false;
	c->running_bytes = c->running.bytes;
	c->running_taken = c->running.taken;
}

/* What transactions take while d is pinned cannot be recycled, and the file grows by it. A half of
 * the data that is in use may be taken, or checkpoint_bytes if that is more; counting what is in use
 * reads the free list, so it is done again when the file has grown by an eighth. */
static uint64_t measure(struct pgw__checkpointer *c)
{
	uint64_t last = pgw__get64(c->running.meta, PGW__META_LAST_PG), pages, bytes;

	if (last < c->measured + c->measured / 8 || pgw__cut_used(&c->running, &pages))
		return c->growth;
	c->measured = last;
	bytes = pages * c->env->psize / 2;
	return bytes > c->options.checkpoint_bytes ? bytes : c->options.checkpoint_bytes;
}

/* The live pages of next that are not in c->set, into `fresh`, and those into c->set as well. False:
 * too few, or no memory. The lock is held. */
static bool collect_fresh(struct pgw__checkpointer *c, struct pgw_ranges *fresh)
{
	const struct pgw__map map = geometry(c->env);
	struct pgw__cut *next = &c->next;

	if (next->incomplete || next->bytes < c->start_early ||
	    pgw__cut_reduce(next, &map, &c->weighed))
		return false;
	pgw_ranges_clear(fresh);
	return next->bytes >= c->start_early && !pgw_ranges_add_all(fresh, &next->dirty) &&
	       !pgw_ranges_subtract(fresh, &c->set) && pgw_ranges_bytes(fresh) >= c->start_early &&
	       !pgw_ranges_add_all(&c->set, fresh);
}

/* Is this the thread of relaxed? */
static bool by_thread(const struct pgw__checkpointer *c)
{
	return c->thread_started && pthread_equal(c->thread, pthread_self());
}

/* Write-out takes most of the time of a large checkpoint, and the cut need not wait for its end to be
 * made: started before, what is committed meanwhile belongs to the same barrier, and less is held back
 * by the one after. Nothing rests on it: the checkpoint itself starts all ranges, and waits for them.
 * Not where nobody waits for the barrier, which is when the thread of relaxed runs it: the file's
 * growth bounds what is taken from d to the end of the cut that fills up meanwhile. Of a late cut that
 * is three portions, of an early one two, and in larger portions more pages are dead when it is their
 * turn.
 * The lock is held, and let go of meanwhile. */
static int start_early(struct pgw__checkpointer *c)
{
	struct pgw_ranges *fresh = &c->freed;
	int rc = 0;

	if (by_thread(c))
		return 0;
	pgw_ranges_clear(&c->set);
	for (int pass = 0; pass < START_PASSES && !rc && collect_fresh(c, fresh); pass++) {
		bool one_call = alone(c, &c->next, 0);

		pthread_mutex_unlock(&c->lock);
		rc = pgw__start_ranges(c->env, fresh, one_call);
		pthread_mutex_lock(&c->lock);
	}
	return rc;
}

/* From the cut on; the lock is held, and let go of meanwhile. */
static int run_cut(struct pgw__checkpointer *c)
{
	const struct pgw__map map = geometry(c->env);
	uint64_t growth;
	bool reduced;
	int rc;

	take_cut(c);
	pthread_mutex_unlock(&c->lock);
	reduced = !c->running.incomplete && !pgw__cut_reduce(&c->running, &map, &c->freed);
	growth = measure(c);
	pthread_mutex_lock(&c->lock);
	c->running_bytes = c->running.bytes; /* writers wait for what is live only */
	pthread_mutex_unlock(&c->lock);
	rc = make_durable(c, reduced);
	pthread_mutex_lock(&c->lock);
	c->growth = growth;
	return rc;
}

void pgw__checkpoint_run(struct pgw__checkpointer *c)
{
	int rc;

	if (c->failed || c->next.txnid == atomic_load(&c->durable))
		return;
	c->busy = true;
	c->runner = pthread_self();
	rc = pgw__env_check_file(c->env);
	if (!rc)
		rc = start_early(c);
	if (!rc)
		rc = run_cut(c);
	if (rc) {
		c->failed = pgw__env_fail(c->env, rc);
		mark_failed(c);
	} else {
		publish(c);
		if (by_thread(c))
			pgw__retire_take(c);
	}
	pgw__cut_restart(&c->running, 0);
	c->running_bytes = 0;
	c->running_taken = 0;
	c->busy = false;
	pgw__group_wake(c);
}
