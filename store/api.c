/* SPDX-License-Identifier: BSD-2-Clause
 *
 * api.c - the functions of pagewise/store.h that act on environments.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach.h"
#include "fence.h"
#include "front.h"
#include "gate.h"
#include "map.h"
#include "options.h"
#include "pin.h"
#include "warm.h"

#define PUBLIC __attribute__((visibility("default")))

static int configure(MDB_env *env, const struct pgw_env_options *o)
{
	size_t map_size = o->map_size ? o->map_size : pgw__map_fitting(PGW__MAP_DEFAULT, o->flags);
	int rc = mdb_env_set_mapsize(env, map_size);

	if (!rc && o->max_dbs)
		rc = mdb_env_set_maxdbs(env, o->max_dbs);
	if (!rc && o->max_readers)
		rc = mdb_env_set_maxreaders(env, o->max_readers);
	if (!rc && pgw__options_checkpointed(o, MDB_NOSYNC))
		rc = pgw__pin_make_room(env);
	return rc;
}

PUBLIC int pgw_env_open(const char *path, const struct pgw_env_options *options, MDB_env **out)
{
	struct pgw_env_options o;
	MDB_env *env;
	int rc;

	if (options)
		o = *options;
	else
		pgw_env_options_init(&o);
	if (!path || !out || pgw__options_check(&o))
		return EINVAL;
	rc = mdb_env_create(&env);
	if (rc)
		return rc;
	rc = configure(env, &o);
	if (!rc)
		rc = mdb_env_open(env, path, o.flags, o.mode);
	if (!rc)
		rc = pgw_env_attach(env, &o);
	if (rc) {
		mdb_env_close(env);
		return rc;
	}
	if (pgw__options_checkpointed(&o, MDB_NOSYNC))
		pgw__env_by_lmdb(env)->pin_slots += PGW__PINS;
	pgw__warm_at_open(pgw__env_by_lmdb(env), env, &o);
	*out = env;
	return 0;
}

PUBLIC int pgw_env_attach(MDB_env *env, const struct pgw_env_options *options)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);
	unsigned flags = 0;
	const char *why;
	int rc = 0;

	if (!e || pgw__options_check(options))
		return EINVAL;
	(void)mdb_env_get_flags(env, &flags);
	if (atomic_load_explicit(&e->writing, memory_order_relaxed) || pgw__gate_trylock(e))
		return EBUSY;
	if (pgw__checkpointer_of(e))
		rc = EINVAL;
	else if (pgw__options_checkpointed(options, flags))
		rc = pgw__attach(e, env, options, &why);
	if (!rc)
		e->options = *options;
	pgw__gate_leave(e);
	return rc;
}

PUBLIC int pgw_txn_commit_async(MDB_txn *txn, uint64_t *ticket)
{
	MDB_env *env = mdb_txn_env(txn);
	struct pgw__env *e = env ? pgw__env_by_lmdb(env) : NULL;
	uint64_t txnid;
	int rc;

	if (!e || atomic_load_explicit(&e->writer, memory_order_relaxed) != txn)
		return EINVAL;
	txnid = mdb_txn_id(txn);
	rc = pgw__commit_writer(e, env, txn, false);
	if (!rc && ticket)
		*ticket = txnid;
	return rc;
}

PUBLIC int pgw_env_wait(MDB_env *env, uint64_t ticket, int timeout_ms)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);
	struct pgw__checkpointer *c = e ? pgw__checkpointer_of(e) : NULL;
	uint64_t deadline = 0;
	MDB_envinfo info;

	if (!e)
		return EINVAL;
	if (!c) { /* strict: committed is durable, unless MDB_NOSYNC was on, or the parent's in a child */
		int rc = mdb_env_info(env, &info);

		if (rc || ticket > info.me_last_txnid)
			return rc ? rc : EINVAL;
		if (ticket <= atomic_load_explicit(&e->durable_txnid, memory_order_relaxed))
			return 0;
		return mdb_env_sync(env, 1);
	}
	if (timeout_ms >= 0)
		deadline = pgw__clock_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000u;
	return -pgw__group_wait(c, ticket, deadline);
}

PUBLIC int pgw_env_checkpoint(MDB_env *env)
{
	return pgw__env_by_lmdb(env) ? mdb_env_sync(env, 1) : EINVAL;
}

PUBLIC int pgw_env_durable_txnid(MDB_env *env, uint64_t *txnid)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);

	if (!e)
		return EINVAL;
	*txnid = atomic_load_explicit(&e->durable_txnid, memory_order_relaxed);
	return 0;
}

static const char *const record_state_names[] = {
	[PGW_RECORD_NONE] = "none",
	[PGW_RECORD_TORN] = "torn",
	[PGW_RECORD_UNKNOWN] = "unknown",
	[PGW_RECORD_OF_ANOTHER_FILE] = "of-another-file",
	[PGW_RECORD_WHOLE] = "whole",
	[PGW_RECORD_UNPROVEN] = "unproven",
	[PGW_RECORD_PROVEN] = "proven",
};

PUBLIC const char *pgw_record_state_name(enum pgw_record_state s)
{
	const unsigned n = sizeof(record_state_names) / sizeof(*record_state_names);

	return (unsigned)s < n ? record_state_names[s] : NULL;
}

static const char *const recover_action_names[] = {
	[PGW_RECOVER_NOTHING] = "nothing",
	[PGW_RECOVER_IN_USE] = "in-use",
	[PGW_RECOVER_KEPT] = "kept",
	[PGW_RECOVER_RESTORED] = "restored",
	[PGW_RECOVER_REFUSED] = "refused",
};

PUBLIC const char *pgw_recover_action_name(enum pgw_recover_action a)
{
	const unsigned n = sizeof(recover_action_names) / sizeof(*recover_action_names);

	return (unsigned)a < n ? recover_action_names[a] : NULL;
}

/* Look at the file without LMDB, which would make a lock file beside anything, and an environment of an empty
 * file. 0 and whether it is plain and whole, and if it is fenced so much in the report; MDB_INVALID; or errno. */
static int look(
    const char *path, unsigned open_flags, bool *plain, struct pgw_recover_report *report)
{
	char *name = pgw__env_data_name(path, open_flags);
	struct pgw__heads *heads = malloc(sizeof(*heads));
	unsigned char magic[4];
	int fd = -1, rc = 0;

	if (!name || !heads)
		rc = ENOMEM;
	if (!rc) {
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		rc = fd < 0 ? errno : 0;
	}
	*plain = false;
	if (!rc && !pgw__heads_read(fd, heads)) {
		*plain = heads->fence == PGW__FENCE_DOWN;
		report->fenced = !*plain;
		report->failed = heads->fence == PGW__FENCE_FAILED;
		report->newest_txnid = pgw__get64(pgw__heads_newest(heads), PGW__META_TXNID);
	} else if (!rc && (pread(fd, magic, sizeof(magic), PGW__META_OFFSET) != sizeof(magic) ||
			      pgw__get32(magic, 0) != PGW__LMDB_MAGIC))
		rc = MDB_INVALID;
	if (fd >= 0)
		close(fd);
	free(heads);
	free(name);
	return rc;
}

PUBLIC int pgw_env_recover(const char *path, unsigned flags, struct pgw_recover_report *report)
{
	unsigned open_flags = flags & PGW_RECOVER_NOSUBDIR ? MDB_NOSUBDIR : 0;
	struct pgw_recover_report own;
	bool plain = false;
	struct stat st;
	MDB_env *env;
	int rc;

	if (!report)
		report = &own;
	memset(report, 0, sizeof(*report));
	if (!path || (flags & ~(PGW_RECOVER_CHECK | PGW_RECOVER_NOSUBDIR | PGW_RECOVER_COPY)))
		return EINVAL;
	rc = pgw__env_stat(path, open_flags, &st); /* LMDB would make a file where there is none */
	if (!rc && !S_ISREG(st.st_mode))
		rc = MDB_INVALID;
	if (!rc && pgw__env_by_file(NULL, st.st_dev, st.st_ino))
		rc = PGW_BUSY;
	if (!rc)
		rc = look(path, open_flags, &plain, report);
	if (!rc && plain) { /* nothing to do */
		memset(report, 0, sizeof(*report));
		return 0;
	}
	if (!rc)
		rc = mdb_env_create(&env);
	if (rc)
		return rc;
	if (flags & PGW_RECOVER_CHECK)
		open_flags |= MDB_RDONLY;
	rc = pgw__open_env(env, path, open_flags, 0664, flags, report);
	mdb_env_close(env);
	if (rc == ECANCELED) /* that is how a check ends */
		return 0;
	if (rc && report->fenced &&
	    report->action == PGW_RECOVER_NOTHING) { /* LMDB did not come to the file */
		report->action = PGW_RECOVER_REFUSED;
		report->reason =
		    "the data file or its lock file cannot be opened for writing, or not "
		    "be made";
	}
	return rc;
}
