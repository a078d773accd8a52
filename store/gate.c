/* SPDX-License-Identifier: BSD-2-Clause
 *
 * gate.c - see gate.h.
 */
#include "gate.h"

#include "attach.h"
#include "options.h"
#include "stats.h"

/* A map with less than this part free, or a disk that is full, makes a checkpoint before each
 * transaction, so that pages that were freed before can be recycled. */
#define NEARLY_FULL 16

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

static bool nearly_full(MDB_env *lmdb, uint32_t psize)
{
	MDB_envinfo info;
	size_t pages;

	if (mdb_env_info(lmdb, &info))
		return false;
	pages = info.me_mapsize / psize;
	return info.me_last_pgno >= pages - pages / NEARLY_FULL;
}

/* Durability that was asked for by the environment variable, or by flags at run time, must not break
 * a program: where it is not possible the environment stays as LMDB has it, which is more. */
static void attach_if_wanted(struct pgw__env *e, MDB_env *lmdb)
{
	unsigned flags = 0;

	(void)mdb_env_get_flags(lmdb, &flags);
	if (e->attach_failed || !pgw__options_checkpointed(&e->options, flags))
		return;
	if (pgw__attach(e, lmdb, &e->options)) {
		e->attach_failed = true;
		pgw__note_fallback("durability group or relaxed",
		    "the environment could not be attached: others have it open, or it cannot be "
		    "fenced");
	}
}

int pgw__gate_enter(struct pgw__env *e, MDB_env *lmdb, bool *gated)
{
	struct pgw__checkpointer *c;
	int rc = 0;

	*gated = false;
	if (e->options.durability == PGW_DURABILITY_STRICT && !e->options.nosync_relaxed)
		return 0;
	pthread_mutex_lock(&e->gate);
	if (!pgw__checkpointer_of(e))
		attach_if_wanted(e, lmdb);
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

int pgw__gate_committed(struct pgw__env *e, uint64_t txnid, unsigned flags, bool wait)
{
	struct pgw__checkpointer *c = pgw__checkpointer_of(e);
	int rc = pgw__checkpoint_note(c, e->spilled);

	pgw__gate_leave(e);
	if (rc)
		return -rc;
	if (e->options.durability == PGW_DURABILITY_RELAXED ||
	    (flags & (MDB_NOSYNC | MDB_MAPASYNC)))
		wait = false;
	if (!wait && !pgw__relaxed_poke(c)) {
		txnid = pgw__relaxed_behind(c);
		if (!txnid)
			return 0;
	}
	return -pgw__group_wait(c, txnid, 0);
}
