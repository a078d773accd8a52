/* SPDX-License-Identifier: BSD-2-Clause
 *
 * front.c - the functions of LMDB that this library answers before LMDB does.
 *
 * They tell the seam which environment and transaction is at work, and turn down what must not
 * happen after a failed sync. LMDB's calls among its own functions do not come here.
 */
#include "seam.h"

#include <errno.h>

#include "commit.h"

#define PUBLIC __attribute__((visibility("default")))

/* Run LMDB's function with the call noted. */
#define WITHIN(call, expr)                           \
	({                                           \
		struct pgw__call *outer = pgw__call; \
		int result;                          \
		pgw__call = (call);                  \
		result = (expr);                     \
		pgw__call = outer;                   \
		result;                              \
	})

PUBLIC int mdb_env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
	struct pgw__call call = { .op = PGW__OP_OPEN, .lmdb = env };
	int rc;

	if (pgw__env_by_lmdb(env)) /* open already: LMDB says so */
		return pgw__lmdb_env_open(env, path, flags, mode);
	call.env = pgw__env_claim(env);
	if (!call.env)
		return ENOMEM;
	rc = WITHIN(&call, pgw__lmdb_env_open(env, path, flags, mode));
	if (rc) {
		pgw__env_detach(call.env);
		pgw__env_release(call.env);
		return rc;
	}
	pgw__env_opened(call.env, flags);
	return 0;
}

PUBLIC void mdb_env_close(MDB_env *env)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);

	/* First, because LMDB frees the handle and closes the descriptor, and another thread may be
	 * given the same ones at once. */
	if (e)
		pgw__env_detach(e);
	pgw__lmdb_env_close(env);
	if (e)
		pgw__env_release(e);
}

PUBLIC int mdb_env_set_mapsize(MDB_env *env, size_t size)
{
	struct pgw__call call = { .op = PGW__OP_RESIZE, .lmdb = env };
	unsigned before;
	int rc;

	call.env = pgw__env_by_lmdb(env);
	if (!call.env) /* not open yet */
		return pgw__lmdb_env_set_mapsize(env, size);
	before = atomic_load_explicit(&call.env->map_seq, memory_order_relaxed);
	rc = WITHIN(&call, pgw__lmdb_env_set_mapsize(env, size));
	/* LMDB refuses while a transaction runs; or it fails half-way, and the map is gone. */
	if (atomic_load_explicit(&call.env->map_seq, memory_order_relaxed) != before)
		pgw__commit_remapped(call.env);
	return rc;
}

PUBLIC int mdb_env_sync(MDB_env *env, int force)
{
	struct pgw__call call = { .op = PGW__OP_SYNC, .lmdb = env };
	int rc;

	call.env = pgw__env_by_lmdb(env);
	if (!call.env)
		return pgw__lmdb_env_sync(env, force);
	rc = -atomic_load(&call.env->failed);
	if (rc)
		return rc;
	return WITHIN(&call, pgw__lmdb_env_sync(env, force));
}

PUBLIC int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **txn)
{
	struct pgw__env *e;
	int rc;

	if (parent || (flags & MDB_RDONLY))
		return pgw__lmdb_txn_begin(env, parent, flags, txn);
	e = pgw__env_by_lmdb(env);
	if (e && atomic_load(&e->failed))
		return MDB_PANIC;
	rc = pgw__lmdb_txn_begin(env, parent, flags, txn);
	if (rc || !e)
		return rc;
	atomic_store_explicit(&e->writer, *txn, memory_order_relaxed);
	pgw__commit_begin(e);
	return 0;
}

/* A transaction that writes, at the outermost level; its environment's writer lock is held. */
static int commit_writer(struct pgw__env *e, MDB_env *env, MDB_txn *txn)
{
	struct pgw__call call = { .op = PGW__OP_COMMIT, .env = e, .lmdb = env };
	int rc = -atomic_load(&e->failed);
	unsigned flags = 0;

	if (rc) {
		mdb_txn_abort(txn);
		return rc;
	}
	call.txnid = mdb_txn_id(txn);
	call.wrote = e->dirty.ranges.n > 0;
	(void)mdb_env_get_flags(env, &flags);
	if (flags & (MDB_NOSYNC | MDB_MAPASYNC))
		e->nosync = call.txnid;
	rc = WITHIN(&call, pgw__lmdb_txn_commit(txn));
	if (!rc && call.wrote)
		PGW__ENV_COUNT(e, commits, 1);
	return rc;
}

PUBLIC int mdb_txn_commit(MDB_txn *txn)
{
	MDB_env *env = mdb_txn_env(txn);
	struct pgw__env *e = env ? pgw__env_by_lmdb(env) : NULL;

	if (!e || atomic_load_explicit(&e->writer, memory_order_relaxed) != txn)
		return pgw__lmdb_txn_commit(txn);
	return commit_writer(e, env, txn);
}
