/* SPDX-License-Identifier: BSD-2-Clause
 *
 * switching.c - see switching.h.
 */
#include "switching.h"

#include <pagewise/store.h>

/* The store's own, for a planted bug. */
#include "commit.h"
#include "env.h"

static unsigned a_flag(const struct switching *s, struct rng *r)
{
	return s->writemap && rng_below(r, 2) ? MDB_MAPASYNC : MDB_NOSYNC;
}

unsigned switching_open(struct switching *s, struct rng *r)
{
	s->flags = rng_below(r, 2) ? a_flag(s, r) : 0;
	return s->flags;
}

static int clear(struct switching *s, MDB_env *env)
{
	s->flags = 0;
	return s->keep_nosync ? 0 : mdb_env_set_flags(env, MDB_NOSYNC | MDB_MAPASYNC, 0);
}

static int set(struct switching *s, MDB_env *env, struct rng *r)
{
	unsigned flag = a_flag(s, r);

	s->flags |= flag;
	return mdb_env_set_flags(env, flag, 1);
}

static void all_durable(struct switching *s)
{
	s->times += s->pending;
	s->pending = s->at_risk = false;
}

static int wait_for_newest(MDB_env *env)
{
	MDB_envinfo info;
	int rc = mdb_env_info(env, &info);

	return rc ? rc : pgw_env_wait(env, info.me_last_txnid, -1);
}

int switching_sync(struct switching *s, MDB_env *env, struct rng *r)
{
	int rc;

	switch (rng_below(r, 4)) {
	case 0:
		rc = mdb_env_sync(env, 1);
		break;
	case 1:
		rc = pgw_env_checkpoint(env);
		break;
	case 2:
		rc = wait_for_newest(env);
		break;
	default: /* not forced, it depends on the flags */
		rc = clear(s, env);
		if (!rc)
			rc = mdb_env_sync(env, 0);
	}
	if (!rc)
		all_durable(s);
	return rc;
}

int switching_step(struct switching *s, MDB_env *env, struct rng *r, bool *synced)
{
	*synced = false;
	switch (rng_below(r, 8)) {
	case 0:
		return set(s, env, r);
	case 1:
		return clear(s, env);
	case 2:
		*synced = true;
		return switching_sync(s, env, r);
	default:
		return 0;
	}
}

void switching_committed(struct switching *s, MDB_env *env, uint64_t txnid)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);

	if (!s->flags) {
		all_durable(s);
		return;
	}
	s->pending = true;
	if (atomic_load(&e->checkpointer)) /* served as relaxed */
		return;
	s->at_risk = true;
	if (!s->trust_nosync)
		return;
	e->trusted = true;
	e->base = txnid;
	e->meta_pending = true;
	pgw__commit_durable(e, txnid);
}
