/* SPDX-License-Identifier: BSD-2-Clause
 *
 * gate.c - see gate.h.
 */
#include "gate.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "attach.h"
#include "options.h"
#include "report.h"
#include "stats.h"

/* A map with less than this part free, or so few pages, or a disk that is full, makes a checkpoint before
 * each transaction, so that pages that were freed before can be recycled. */
#define NEARLY_FULL	  16
#define NEARLY_FULL_PAGES 16

uint64_t pgw__gate_newest(struct pgw__checkpointer *c)
{
	uint64_t txnid;

	pthread_mutex_lock(&c->lock);
	txnid = c->next.txnid;
	pthread_mutex_unlock(&c->lock);
	return txnid;
}

int pgw__gate_sync(struct pgw__checkpointer *c)
{
	return -pgw__group_wait(c, pgw__gate_newest(c), 0);
}

int pgw__gate_init(struct pgw__env *e)
{
	pthread_mutexattr_t attr;
	int rc = pthread_mutexattr_init(&attr);

	if (rc)
		return rc;
	(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	(void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	rc = pthread_mutex_init(&e->gate, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc;
}

/* A thread has ended with the gate. If it was in a transaction, LMDB answers with MDB_PANIC from now on. If
 * it had committed one, that may be missing in the cut, and only a sync of everything is sure to
 * cover it. */
static int take_from_dead(struct pgw__env *e)
{
	struct pgw__checkpointer *c = pgw__checkpointer_of(e);

	if (c) {
		pthread_mutex_lock(&c->lock);
		c->next.incomplete = true;
		pthread_mutex_unlock(&c->lock);
	}
	return pthread_mutex_consistent(&e->gate);
}

int pgw__gate_lock(struct pgw__env *e)
{
	int rc = pthread_mutex_lock(&e->gate);

	return rc == EOWNERDEAD ? take_from_dead(e) : rc;
}

int pgw__gate_trylock(struct pgw__env *e)
{
	static const struct timespec past;
	int rc = pthread_mutex_trylock(&e->gate);

	if (rc == EBUSY) /* that does not tell whose it is */
		rc = pthread_mutex_timedlock(&e->gate, &past);
	if (rc == EOWNERDEAD)
		rc = take_from_dead(e);
	return rc == ETIMEDOUT ? EBUSY : rc;
}

static bool nearly_full(MDB_env *lmdb, uint32_t psize)
{
	MDB_envinfo info;
	size_t pages, spare;

	if (mdb_env_info(lmdb, &info))
		return false;
	pages = info.me_mapsize / psize;
	spare = pages / NEARLY_FULL > NEARLY_FULL_PAGES ? pages / NEARLY_FULL : NEARLY_FULL_PAGES;
	return info.me_last_pgno + spare >= pages;
}

/* A program may open the same environment again and again. */
static bool said_before(const struct pgw__env *e, const char *why)
{
	static _Atomic uint64_t last_dev, last_ino;
	static _Atomic(const char *) last_why;
	uint64_t dev = atomic_load_explicit(&e->dev, memory_order_relaxed);
	uint64_t ino = atomic_load_explicit(&e->ino, memory_order_relaxed);
	bool same_dev = atomic_exchange(&last_dev, dev) == dev;
	bool same_ino = atomic_exchange(&last_ino, ino) == ino;
	bool same_why = atomic_exchange(&last_why, why) == why;

	return same_dev && same_ino && same_why;
}

static void say_not_attached(const struct pgw__env *e, MDB_env *lmdb, const char *why)
{
	const char *path = NULL, *wanted = pgw_durability_name(e->options.durability);
	char text[256];

	pgw__note_fallback("durability group or relaxed", why);
	if (said_before(e, why))
		return;
	if (e->options.durability == PGW_DURABILITY_STRICT)
		wanted = "nosync:relaxed";
	(void)mdb_env_get_path(lmdb, &path);
	snprintf(text, sizeof(text),
	    ": durability %s was asked for and is not possible: %s; commits are as durable as LMDB "
	    "makes them",
	    wanted, why);
	pgw__warn_later(path, text);
}

/* Durability that was asked for by the environment variable, or by flags at run time, must not break
 * a program: where it is not possible the environment stays as LMDB has it, which is more, unless the
 * program has asked for less. */
static void attach_if_wanted(struct pgw__env *e, MDB_env *lmdb)
{
	unsigned flags = 0;
	const char *why;

	(void)mdb_env_get_flags(lmdb, &flags);
	if (e->attach_failed || !pgw__options_checkpointed(&e->options, flags))
		return;
	if (!pgw__attach(e, lmdb, &e->options, &why))
		return;
	e->attach_failed = true;
	say_not_attached(e, lmdb, why);
}

int pgw__gate_enter(struct pgw__env *e, MDB_env *lmdb, bool *gated)
{
	struct pgw__checkpointer *c;
	int rc, cancel;

	*gated = false;
	if (e->options.durability == PGW_DURABILITY_STRICT && !e->options.nosync_relaxed)
		return 0;
	c = pgw__checkpointer_of(e);
	if (c && c->pid != getpid()) /* a child that was made without the handlers of fork */
		return PGW_BUSY;
	rc = pgw__gate_lock(e);
	if (rc)
		return rc;
	if (!pgw__checkpointer_of(e)) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		attach_if_wanted(e, lmdb);
		pthread_setcancelstate(cancel, NULL);
	}
	c = pgw__checkpointer_of(e);
	if (c && (atomic_load_explicit(&e->short_of_space, memory_order_relaxed) ||
		     nearly_full(lmdb, e->psize)))
		rc = pgw__gate_sync(c);
	if (rc) {
		pgw__gate_leave(e);
		return rc;
	}
	*gated = true;
	return 0;
}

void pgw__gate_leave(struct pgw__env *e)
{
	pthread_mutex_unlock(&e->gate);
}

static int settle(struct pgw__env *e, uint64_t txnid, unsigned flags, bool wait)
{
	struct pgw__checkpointer *c = pgw__checkpointer_of(e);
	int rc = pgw__checkpoint_note(c, e->spilled);

	pgw__gate_leave(e);
	if (rc)
		return -rc;
	if (e->options.durability == PGW_DURABILITY_RELAXED || pgw__options_unsynced(flags))
		wait = false;
	if (!wait && !pgw__relaxed_poke(c)) {
		txnid = pgw__relaxed_behind(c);
		if (!txnid)
			return 0;
	}
	return -pgw__group_wait(c, txnid, 0);
}

/* LMDB's commit is a point where threads are cancelled, and so it is here; but not before others can go
 * on. */
int pgw__gate_committed(struct pgw__env *e, uint64_t txnid, unsigned flags, bool wait)
{
	int rc = settle(e, txnid, flags, wait);

	pthread_testcancel();
	return rc;
}
