/* SPDX-License-Identifier: BSD-2-Clause
 *
 * engine.h - what LMDB's API does not have: how durable commits are, and what they cost.
 *
 * With plain LMDB there are two choices, strict and nosync, and no counters.
 */
#ifndef CHAIN_ENGINE_H
#define CHAIN_ENGINE_H

#include "out.h"
#include "tables.h"

/* NULL for no value; false for a name that is none. */
const char *chain_durability_name(enum chain_durability d);
bool chain_durability_parse(const char *name, enum chain_durability *d);

/* Attaches the environment (open, without a transaction) if db->durability needs it. */
int engine_attach(struct chain_db *db, struct chain_error *err);

/* From the next commit on, each is durable when it returns: the end of an initial download. Can be
 * called again. */
int engine_go_live(struct chain_db *db, struct chain_error *err);

/* Makes everything durable that is committed. */
int engine_sync(struct chain_db *db, struct chain_error *err);

/* The newest transaction that is durable, as far as the engine says: 0 with nosync. */
uint64_t engine_durable_txnid(struct chain_db *db);

struct engine_counters {
	bool known; /* else all are 0 */
	uint64_t barriers;
	uint64_t dirty_bytes; /* of durable commits and checkpoints: what had to be written */
	uint64_t full_syncs;  /* of the whole file */
};
void engine_count(struct chain_db *db, struct engine_counters *c);

/* The counters, as an object "synced". Nothing where they are not known. */
void engine_print(struct out *o, struct chain_db *db);

#endif
