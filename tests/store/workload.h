/* SPDX-License-Identifier: BSD-2-Clause
 *
 * workload.h - random transactions on an LMDB environment, and the model that says what must be in
 * it afterwards.
 *
 * Three databases: small values, values up to 40 KiB (overflow pages), and duplicates. A value
 * follows from its database, key, generation and length, so the model is a table of numbers that
 * can be copied for each transaction.
 */
#ifndef PGW_TESTS_WORKLOAD_H
#define PGW_TESTS_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lmdb_api.h"

#define WORK_KEYS 96
#define WORK_DUPS 64

struct model {
	struct {
		uint32_t gen; /* 0: no such key */
		uint32_t len;
	} value[2][WORK_KEYS];
	uint8_t dup[WORK_KEYS / 8][WORK_DUPS]; /* present or not */
};

struct rng {
	uint64_t state;
};

uint32_t rng_next(struct rng *r);
/* 0 .. n - 1 */
uint32_t rng_below(struct rng *r, uint32_t n);
/* true in percent of 100 cases */
bool rng_chance(struct rng *r, unsigned percent);

struct work {
	const struct lmdb_api *api;
	MDB_env *env;
	MDB_dbi dbi[3];
	struct rng *rng;
	bool nested; /* nested transactions may be used */
};

/* Open the three databases (in a write transaction of its own, if create). 0 or LMDB's error. */
int work_open_dbis(struct work *w, bool create);

/* A few random changes in txn and in *m alike. An error leaves *m unusable. */
int work_step(struct work *w, MDB_txn *txn, struct model *m);

/* Does the environment hold exactly what m says, by a full scan and by look-ups? why: what differs,
 * at most size bytes. */
bool work_verify(struct work *w, const struct model *m, char *why, size_t size);

#endif
