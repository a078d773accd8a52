/* SPDX-License-Identifier: BSD-2-Clause
 *
 * engine.c - see engine.h.
 *
 * relaxed is group with MDB_NOSYNC set: the store then makes checkpoints by itself, and clearing
 * the flag makes the next commit, and with it all before, durable. So a node that clears
 * MDB_NOSYNC when it has caught up, as nodes do, needs no other code.
 */
#include "engine.h"

#include <string.h>

#ifdef CHAIN_ON_PAGEWISE
#include <pagewise/store.h>
#endif

static const char *const names[] = {
	[CHAIN_STRICT] = "strict",
	[CHAIN_GROUP] = "group",
	[CHAIN_RELAXED] = "relaxed",
	[CHAIN_NOSYNC] = "nosync",
};
#define NAMES (sizeof(names) / sizeof(*names))

const char *chain_durability_name(enum chain_durability d)
{
	return (size_t)d < NAMES ? names[d] : NULL;
}

bool chain_durability_parse(const char *name, enum chain_durability *d)
{
	for (size_t i = 0; i < NAMES; i++) {
		if (!names[i] || strcmp(name, names[i]) != 0)
			continue;
		*d = (enum chain_durability)i;
		return true;
	}
	return false;
}

int engine_go_live(struct chain_db *db, struct chain_error *err)
{
	int rc = mdb_env_set_flags(db->env, MDB_NOSYNC, 0);

	if (rc)
		return chain_fail_db(err, rc, "clearing MDB_NOSYNC");
	db->live = true;
	return 0;
}

int engine_sync(struct chain_db *db, struct chain_error *err)
{
	int rc = mdb_env_sync(db->env, 1);

	return rc ? chain_fail_db(err, rc, "sync") : 0;
}

#ifdef CHAIN_ON_PAGEWISE
/* A commit of several times the store's bound waits until it is durable, and then the disk rests
 * while the next batch is hashed. With a bound that a batch stays below, one batch is written out
 * while the next one is made; what is at risk is bounded by the time, and by two batches. The number
 * is about that of Monero's own default, a sync every 250,000,000 bytes. */
#define CHECKPOINT_BYTES (UINT64_C(256) << 20)

int engine_attach(struct chain_db *db, struct chain_error *err)
{
	struct pgw_env_options o;
	int rc;

	if (db->durability != CHAIN_GROUP && db->durability != CHAIN_RELAXED)
		return 0;
	pgw_env_options_init(&o);
	o.durability = PGW_DURABILITY_GROUP;
	o.checkpoint_bytes = CHECKPOINT_BYTES;
	rc = pgw_env_attach(db->env, &o);
	if (rc == PGW_BUSY)
		return chain_fail(err, CHAIN_REFUSED,
		    "--durability=%s: another process has the store open; it has to be opened for "
		    "writing first, then by readers",
		    names[db->durability]);
	return rc ? chain_fail_db(err, rc, names[db->durability]) : 0;
}

uint64_t engine_durable_txnid(struct chain_db *db)
{
	uint64_t txnid;

	if ((db->durability == CHAIN_NOSYNC && !db->live) || pgw_env_durable_txnid(db->env, &txnid))
		return 0;
	return txnid;
}

void engine_count(struct chain_db *db, struct engine_counters *c)
{
	struct pgw_env_stats s;

	*c = (struct engine_counters){ 0 };
	if (pgw_env_stats(db->env, &s))
		return;
	c->known = true;
	c->barriers = s.barriers;
	c->dirty_bytes = s.dirty_bytes + s.live_bytes;
	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		c->full_syncs += s.full_syncs[i];
}

void engine_print(struct out *o, struct chain_db *db)
{
	struct engine_counters c;
	struct pgw_env_stats s;

	engine_count(db, &c);
	if (!c.known || pgw_env_stats(db->env, &s))
		return;
	out_open(o, "synced", '{');
	out_u64(o, "barriers", s.barriers);
	out_u64(o, "dirty_ranges", s.dirty_ranges + s.live_ranges);
	out_u64(o, "dirty_bytes", c.dirty_bytes);
	out_u64(o, "synced_bytes", s.synced_bytes);
	out_u64(o, "msync_bytes", s.msync_bytes);
	out_u64(o, "full_syncs", c.full_syncs);
	out_u64(o, "checkpoints", s.checkpoints);
	out_u64(o, "retired_bytes", s.retired_bytes);
	out_text(o, "file_system", s.fs ? s.fs : "unknown");
	out_close(o, '}');
}
#else
int engine_attach(struct chain_db *db, struct chain_error *err)
{
	if (db->durability != CHAIN_GROUP && db->durability != CHAIN_RELAXED)
		return 0;
	return chain_fail(err, CHAIN_REFUSED,
	    "--durability=%s: this is plain LMDB, which has strict and nosync",
	    names[db->durability]);
}

uint64_t engine_durable_txnid(struct chain_db *db)
{
	MDB_envinfo info;

	if ((db->durability == CHAIN_NOSYNC && !db->live) || mdb_env_info(db->env, &info))
		return 0;
	return info.me_last_txnid;
}

void engine_count(struct chain_db *db, struct engine_counters *c)
{
	*c = (struct engine_counters){ 0 };
}

void engine_print(struct out *o, struct chain_db *db)
{
}
#endif
