/* SPDX-License-Identifier: BSD-2-Clause
 *
 * switching.h - durability that is switched off and on again while an environment is used.
 *
 * What a program does that loads with MDB_NOSYNC, or MDB_MAPASYNC in a writable map, and then wants to be
 * safe. Served as LMDB has it (plain), nothing is promised from the first commit without a barrier on, not
 * even what was durable before: the file may be a ruin. It ends with a commit without these flags, or when
 * the program asks for a sync. From then on everything that was committed must be there.
 */
#ifndef PGW_TESTS_SWITCHING_H
#define PGW_TESTS_SWITCHING_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

#include "disk.h"

struct switching {
	bool writemap;
	/* Planted bugs: a flag that was cleared is still in effect; what was committed without a barrier is
	 * taken to be durable. */
	bool keep_nosync, trust_nosync;
	unsigned flags; /* of the two, that the program has set */
	bool pending;	/* something was committed with one of them, and is not yet to be durable */
	bool at_risk;	/* and nothing is promised */
	uint64_t times; /* that what was pending became durable */
};

/* Flags to open an environment with, perhaps one of the two. */
unsigned switching_open(struct switching *s, struct rng *r);

/* Between two transactions: set a flag, clear both, ask for a sync, or most often nothing. *synced: everything
 * committed is durable now. 0 or LMDB's code. */
int switching_step(struct switching *s, MDB_env *env, struct rng *r, bool *synced);

/* Ask for a sync, in one of the ways there are. */
int switching_sync(struct switching *s, MDB_env *env, struct rng *r);

/* Transaction txnid was committed, and is not promised to be durable if one of the flags is set. */
void switching_committed(struct switching *s, MDB_env *env, uint64_t txnid);

#endif
