/* SPDX-License-Identifier: BSD-2-Clause
 *
 * front.c - the functions of LMDB that this library answers before LMDB does.
 *
 * They tell the seam which environment and transaction is at work, and turn down what must not
 * happen after a failed sync. LMDB's calls among its own functions do not come here.
 */
#include "seam.h"

#include <errno.h>

#include "attach.h"
#include "commit.h"
#include "front.h"
#include "gate.h"
#include "map.h"
#include "options.h"
#include "pin.h"
#include "warm.h"

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

/* A process that opens the environment, and fails after it had set up the lock file, leaves there the
 * number 0 for the newest transaction; and who waited meanwhile to open it as well would begin
 * there. It happens where plain LMDB meets a fence. */
static int check_lock_file(MDB_env *env)
{
	MDB_envinfo info;
	MDB_txn *txn;
	int rc = mdb_env_info(env, &info);
	size_t txnid;

	if (!rc)
		rc = pgw__lmdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (rc)
		return rc;
	txnid = mdb_txn_id(txn);
	pgw__lmdb_txn_abort(txn);
	return !txnid && info.me_last_txnid ? EAGAIN : 0;
}

int pgw__open_env(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode,
    unsigned recover_flags, struct pgw_recover_report *report)
{
	struct pgw__call call = { .op = PGW__OP_OPEN,
		.lmdb = env,
		.lock_fd = -1,
		.path = path,
		.open_flags = flags,
		.recover_flags = recover_flags,
		.recover_report = report };
	int rc;

	if (pgw__env_by_lmdb(env)) /* open already: LMDB says so */
		return pgw__lmdb_env_open(env, path, flags, mode);
	if (path && pgw__attached_here(path, flags))
		return PGW_BUSY;
	pgw__attach_watch_forks();
	call.env = pgw__env_claim(env);
	if (!call.env)
		return ENOMEM;
	rc = WITHIN(&call, pgw__lmdb_env_open(env, path, flags, mode));
	if (!rc && report->action == PGW_RECOVER_IN_USE)
		rc = check_lock_file(env);
	if (rc) {
		pgw__env_detach(call.env);
		pgw__env_release(call.env);
		return rc;
	}
	pgw__env_opened(call.env, flags);
	call.env->lock_fd = call.lock_fd;
	return 0;
}

PUBLIC int mdb_env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
	struct pgw_recover_report report = { 0 };
	const struct pgw_env_options *o = pgw__options_default();
	bool pins = pgw__options_checkpointed(o, MDB_NOSYNC);
	int rc;

	if (pgw__env_by_lmdb(env)) /* open already: LMDB says so */
		return pgw__lmdb_env_open(env, path, flags, mode);
	rc = pgw__map_reserve(env, flags);
	if (!rc && pins)
		rc = pgw__pin_make_room(env);
	if (!rc)
		rc = pgw__open_env(env, path, flags, mode, 0, &report);
	if (!rc && pins)
		pgw__env_by_lmdb(env)->pin_slots += PGW__PINS;
	if (!rc)
		pgw__warm_at_open(pgw__env_by_lmdb(env), env, o);
	return rc;
}

/* What the program has asked for, and not the slots that are there for pins. */
static unsigned without_pins(const MDB_env *env, unsigned readers)
{
	const struct pgw__env *e = pgw__env_by_lmdb(env);

	return e && readers > e->pin_slots ? readers - e->pin_slots : readers;
}

PUBLIC int mdb_env_get_maxreaders(MDB_env *env, unsigned *readers)
{
	int rc = pgw__lmdb_env_get_maxreaders(env, readers);

	if (!rc)
		*readers = without_pins(env, *readers);
	return rc;
}

PUBLIC int mdb_env_info(MDB_env *env, MDB_envinfo *stat)
{
	int rc = pgw__lmdb_env_info(env, stat);

	if (!rc)
		stat->me_maxreaders = without_pins(env, stat->me_maxreaders);
	return rc;
}

PUBLIC void mdb_env_close(MDB_env *env)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);

	if (e)
		pgw__detach(e);
	pgw__map_forget(env);
	/* Before LMDB frees the handle and closes the descriptor: another thread may be given the
	 * same ones at once. */
	if (e)
		pgw__env_detach(e);
	pgw__lmdb_env_close(env);
	if (e) {
		pgw__map_drop_left(e);
		pgw__env_release(e);
	}
}

/* The descriptor leads to another file by now. That is final: what LMDB had written may be lost. */
static int check_file(struct pgw__env *e)
{
	int rc = pgw__env_check_file(e);

	return rc ? -pgw__env_fail(e, rc) : 0;
}

PUBLIC int mdb_env_set_mapsize(MDB_env *env, size_t size)
{
	struct pgw__call call = { .op = PGW__OP_RESIZE, .lmdb = env };
	struct pgw__checkpointer *c;
	unsigned before;
	int rc;

	call.env = pgw__env_by_lmdb(env);
	if (!call.env) { /* not open yet */
		rc = size ? pgw__map_choose(env) : 0;
		return rc ? rc : pgw__lmdb_env_set_mapsize(env, size);
	}
	rc = check_file(call.env);
	if (rc)
		return rc;
	c = pgw__checkpointer_of(call.env);
	if (c)
		pgw__group_pause(c);
	before = atomic_load_explicit(&call.env->map_seq, memory_order_relaxed);
	rc = WITHIN(&call, pgw__lmdb_env_set_mapsize(env, size));
	pgw__map_left(&call);
	/* LMDB refuses while a transaction runs; or it fails half-way, and the map is gone. */
	if (atomic_load_explicit(&call.env->map_seq, memory_order_relaxed) != before)
		pgw__commit_remapped(call.env);
	if (c)
		pgw__group_resume(c);
	return rc;
}

/* The newest committed transaction, or 0. */
static uint64_t newest_of(MDB_env *env)
{
	MDB_envinfo info;

	return mdb_env_info(env, &info) ? 0 : info.me_last_txnid;
}

PUBLIC int mdb_env_sync(MDB_env *env, int force)
{
	struct pgw__call call = { .op = PGW__OP_SYNC, .lmdb = env };
	struct pgw__checkpointer *c;
	uint64_t newest;
	unsigned flags = 0;
	int rc;

	call.env = pgw__env_by_lmdb(env);
	if (!call.env)
		return pgw__lmdb_env_sync(env, force);
	rc = -atomic_load(&call.env->failed);
	if (rc)
		return rc;
	c = pgw__checkpointer_of(call.env);
	(void)mdb_env_get_flags(env, &flags);
	if (c)
		return force || !(flags & MDB_NOSYNC) ? pgw__gate_sync(c) : 0;
	newest = newest_of(env);
	if (newest && newest == atomic_load(&call.env->durable_txnid))
		return 0;
	rc = check_file(call.env);
	if (!rc && (force || !(flags & MDB_NOSYNC)))
		rc = pgw__attach_check_sync(call.env, env);
	if (rc)
		return rc;
	rc = WITHIN(&call, pgw__lmdb_env_sync(env, force));
	if (!rc && call.synced)
		pgw__commit_durable(call.env, newest);
	return rc;
}

/* LMDB's writer lock is held, so the newest meta page stands still. */
static void begin_space(struct pgw__env *e, MDB_env *env)
{
	MDB_envinfo info;

	if (e->writemap && !mdb_env_info(env, &info))
		pgw__space_begin(e, info.me_last_pgno + 1);
}

/* A reader that was killed keeps its slot, and with it a snapshot, until somebody looks. LMDB does so only
 * when it finds its table of readers, or a lock, in disorder. */
static void check_readers(struct pgw__env *e, MDB_env *env)
{
	int dead = 0;

	if (atomic_fetch_add_explicit(&e->begun, 1, memory_order_relaxed) % 256 != 255)
		return;
	(void)mdb_reader_check(env, &dead);
	PGW__ENV_COUNT(e, dead_readers, dead);
}

/* LMDB's begin of a write transaction; the gate, if any, is held. */
static int begin_writer(struct pgw__env *e, MDB_env *env, unsigned flags, MDB_txn **txn)
{
	MDB_txn *new;
	int rc = pgw__lmdb_txn_begin(env, NULL, flags, &new);

	if (rc)
		return rc;
	rc = pgw__checkpointer_of(e) ? 0 : pgw__attach_check_plain(e);
	if (rc) {
		pgw__lmdb_txn_abort(new);
		return rc;
	}
	/* LMDB uses one object for all. */
	atomic_store_explicit(&e->parents_txn, NULL, memory_order_relaxed);
	atomic_store_explicit(&e->writer, new, memory_order_relaxed);
	atomic_store_explicit(&e->writing, true, memory_order_relaxed);
	pgw__commit_begin(e);
	begin_space(e, env);
	*txn = new;
	return 0;
}

PUBLIC int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **txn)
{
	struct pgw__env *e;
	bool gated;
	int rc;

	if (parent || (flags & MDB_RDONLY))
		return pgw__lmdb_txn_begin(env, parent, flags, txn);
	e = pgw__env_by_lmdb(env);
	if (!e)
		return pgw__lmdb_txn_begin(env, parent, flags, txn);
	if (atomic_load(&e->failed))
		return MDB_PANIC;
	check_readers(e, env);
	/* A map is stored into, and its file allocated, before the commit looks. */
	rc = e->writemap || !pgw__checkpointer_of(e) ? check_file(e) : 0;
	if (!rc)
		rc = pgw__gate_enter(e, env, &gated);
	if (rc)
		return rc;
	rc = begin_writer(e, env, flags, txn);
	if (!rc)
		e->gated = gated;
	else if (gated)
		pgw__gate_leave(e);
	return rc;
}

/* The gate is the writer's: look before LMDB lets the next one in. */
static bool take_gated(struct pgw__env *e)
{
	bool gated = e->gated;

	e->gated = false;
	atomic_store_explicit(&e->writing, false, memory_order_relaxed);
	return gated;
}

PUBLIC void mdb_txn_abort(MDB_txn *txn)
{
	MDB_env *env = mdb_txn_env(txn);
	struct pgw__env *e = env ? pgw__env_by_lmdb(env) : NULL;
	bool gated = false;

	if (e && atomic_load_explicit(&e->writer, memory_order_relaxed) == txn) {
		gated = take_gated(e);
		pgw__space_end(e);
	}
	pgw__lmdb_txn_abort(txn);
	if (gated)
		pgw__gate_leave(e);
}

/* Room for the meta page is asked for when LMDB comes to its sync (seam.c, commit.c). Where it makes none it is asked
 * for now; attached, for the record as well, which goes to the other page every second time. */
static int prepare_meta(struct pgw__env *e, MDB_txn *txn, unsigned flags)
{
	int rc;

	if (!pgw__options_unsynced(flags))
		return 0;
	rc = -pgw__space_for_meta(e, pgw__checkpointer_of(e) ? 3 : 1u << (mdb_txn_id(txn) & 1));
	if (rc)
		pgw__space_committed(e, rc);
	return rc;
}

/* A commit writes the list of free pages, and that takes some itself. A run of them at worst. */
static int prepare_space(struct pgw__env *e, MDB_txn *txn, unsigned flags)
{
	if (!e->writemap)
		return prepare_meta(e, txn, flags);
	if (!e->dirty.ranges.n && !e->dirty.incomplete)
		return 0;
	return pgw__space_prepare(
	    e, PGW__SPACE_TO_COMMIT, 2 + e->space.end * sizeof(uint64_t) / e->psize, 0);
}

int pgw__commit_writer(struct pgw__env *e, MDB_env *env, MDB_txn *txn, bool wait)
{
	struct pgw__call call = { .op = PGW__OP_COMMIT, .env = e, .lmdb = env };
	int rc = -atomic_load(&e->failed), full;
	unsigned flags = 0;
	bool gated;

	(void)mdb_env_get_flags(env, &flags);
	if (!rc)
		rc = check_file(e);
	if (!rc)
		rc = prepare_space(e, txn, flags);
	if (rc) {
		mdb_txn_abort(txn);
		return rc;
	}
	gated = take_gated(e);
	call.txnid = mdb_txn_id(txn);
	call.wrote = e->dirty.ranges.n > 0 || e->dirty.incomplete;
	if (pgw__options_unsynced(flags))
		e->nosync = call.txnid;
	full = e->space.why;
	rc = WITHIN(
	    &call, pgw__lmdb_txn_commit(txn)); /* LMDB's lock is gone, and e->space with it */
	if (rc == MDB_MAP_FULL && full)
		rc = full;
	if (e->open_flags & MDB_NOLOCK) /* no lock of LMDB's, so nothing was put back with it */
		pgw__space_end(e);
	pgw__space_committed(e, rc);
	/* A database emptied, or flags of the main one set: LMDB dirties the first page in its commit, if any. */
	if (!rc && !call.wrote && pgw__checkpointer_of(e))
		call.wrote = newest_of(env) == call.txnid; /* the gate is held */
	if (!rc && call.wrote)
		PGW__ENV_COUNT(e, commits, 1);
	if (!rc && call.wrote && pgw__checkpointer_of(e))
		return pgw__gate_committed(e, call.txnid, flags, wait);
	if (gated)
		pgw__gate_leave(e);
	return rc;
}

PUBLIC int mdb_txn_commit(MDB_txn *txn)
{
	MDB_env *env = mdb_txn_env(txn);
	struct pgw__env *e = env ? pgw__env_by_lmdb(env) : NULL;

	if (e && atomic_load_explicit(&e->parents_txn, memory_order_relaxed) == txn) {
		pgw__lmdb_txn_abort(txn);
		return PGW_BUSY;
	}
	if (!e || atomic_load_explicit(&e->writer, memory_order_relaxed) != txn)
		return pgw__lmdb_txn_commit(txn);
	return pgw__commit_writer(e, env, txn, true);
}

/* A copy is made by LMDB; the seam leaves out of it what only belongs to this file. */
#define COPY(env, expr)                                                        \
	({                                                                     \
		struct pgw__call call = { .op = PGW__OP_COPY, .lmdb = (env) }; \
		call.env = pgw__env_by_lmdb(env);                              \
		call.env ? WITHIN(&call, (expr)) : (expr);                     \
	})

PUBLIC int mdb_env_copy(MDB_env *env, const char *path)
{
	return COPY(env, pgw__lmdb_env_copy(env, path));
}

PUBLIC int mdb_env_copy2(MDB_env *env, const char *path, unsigned flags)
{
	return COPY(env, pgw__lmdb_env_copy2(env, path, flags));
}

PUBLIC int mdb_env_copyfd(MDB_env *env, mdb_filehandle_t fd)
{
	return COPY(env, pgw__lmdb_env_copyfd(env, fd));
}

PUBLIC int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned flags)
{
	return COPY(env, pgw__lmdb_env_copyfd2(env, fd, flags));
}
