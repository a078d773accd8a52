/* SPDX-License-Identifier: BSD-2-Clause
 *
 * retire.c - see retire.h.
 *
 * To change a page LMDB reads it, writes a copy elsewhere, and frees it. To the kernel the old page is one
 * that was just used, or even one that had to be read again because it had been let go of too early: it
 * keeps that, and drops pages that will be needed instead. Under plain LMDB the next transaction but one
 * overwrites the old page; here it waits for a checkpoint, and there are more of them. Importing a chain of
 * 10 GB with 2 GiB of memory, most pages that were read from the disk were read for this reason
 * (docs/node.md).
 *
 * So the thread of relaxed, when it has made a checkpoint, drops what the cut's transactions have freed and
 * had not dirtied themselves: those pages are durable since d or before, thus clean, and only readers of
 * older snapshots may still want them. These read them from the disk. First they are unmapped, for
 * the page cache lets go of no page that somebody has mapped: that is where one call for many ranges counts,
 * as each call flushes the TLBs of all threads. The rest is a call for each range.
 *
 * It is done only while the process has to read: else there is room for all. And never with MDB_WRITEMAP:
 * there LMDB takes a page into use by storing into it, and would have to read it.
 */
#include "retire.h"

#include <pagewise/advise.h>

#include "sys.h"

/* Ranges between two looks at whether somebody waits for the thread. */
#define STEP 1024u

/* Memory is short if the process reads a page for so many that its transactions take, and for so many
 * checkpoints after. Dropping a page costs some 2 microseconds of another processor's time, reading one
 * 100 of the writer's. */
#define TAKEN_PER_FAULT 128
#define SHORT_FOR	64

/* Ranges that are looked at whether they have really gone. They stay if other processes have them mapped,
 * and then each costs a call that waits for all processors: not tried again for so many checkpoints. */
#define SAMPLE	64u
#define BACKOFF 64

void pgw__retire_take(struct pgw__checkpointer *c)
{
	const struct pgw_ranges before = c->retired;
	uint64_t faults = 0;

	c->retired = c->running.retired;
	c->running.retired = before;
	(void)pgw__sys.major_faults(&faults);
	if ((faults - c->faults) * TAKEN_PER_FAULT > c->running.taken / c->env->psize)
		c->short_of_memory = SHORT_FOR;
	else if (c->short_of_memory)
		c->short_of_memory--;
	if (c->retire_backoff)
		c->retire_backoff--;
	c->faults = faults;
	c->next.note_retired = c->short_of_memory && !c->retire_backoff && !c->env->writemap;
}

/* Of n ranges of the file, how many have their first page in memory. */
static size_t resident(uintptr_t map, const struct pgw_range *v, size_t n)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char there = 0;

		(void)pgw__sys.mincore((void *)(map + v[i].start), pgw_page_size(), &there);
		found += there & 1;
	}
	return found;
}

/* Of up to STEP ranges of the file. False: it is not worth it, or not possible. */
static bool drop(struct pgw__env *e, const struct pgw_range *v, size_t n)
{
	uintptr_t map = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	int fd = atomic_load_explicit(&e->fd, memory_order_relaxed);
	struct pgw_range mapped[STEP];

	for (size_t i = 0; i < n; i++)
		mapped[i] = (struct pgw_range){ map + v[i].start, v[i].len };
	if (pgw_advise(mapped, n, PGW_DONTNEED, NULL, NULL)) /* memory is locked, or so */
		return false;
	for (size_t i = 0; i < n; i++) {
		if (pgw__sys.drop_cached(fd, v[i].start, v[i].len))
			return false;
		PGW__ENV_COUNT(e, retired_bytes, v[i].len);
	}
	return n > SAMPLE || resident(map, v, n) <= n / 2;
}

/* Whoever waits goes on first; what is left is only dropped later, by the kernel. */
static bool wanted(const struct pgw__checkpointer *c)
{
	return !c->waiters && !c->stop && !c->failed;
}

void pgw__retire(struct pgw__checkpointer *c)
{
	struct pgw_ranges *set = &c->retired;
	bool worth_it = true;
	size_t step = SAMPLE;

	if (!set->n)
		return;
	if (c->busy) { /* who was woken by the checkpoint runs the next one already */
		pgw_ranges_clear(set);
		return;
	}
	pgw_ranges_align_in(set, pgw_page_size());
	c->busy = true; /* keeps the map where it is */
	c->runner = pthread_self();
	for (size_t i = 0; i < set->n && worth_it && wanted(c); i += step, step = STEP) {
		if (step > set->n - i)
			step = set->n - i;
		pthread_mutex_unlock(&c->lock);
		worth_it = drop(c->env, set->v + i, step);
		pthread_mutex_lock(&c->lock);
	}
	if (!worth_it) {
		c->retire_backoff = BACKOFF;
		c->next.note_retired = false;
		pgw_ranges_clear(&c->next.retired);
	}
	pgw_ranges_clear(set);
	c->busy = false;
	pgw__group_wake(c);
}
