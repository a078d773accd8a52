/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model.h - what the databases of the crash workload should contain, kept without LMDB.
 *
 * A fixed universe of keys in five databases of different kinds. The model knows of each key
 * whether it is there and which value it has; values are made from a number, so that a state is
 * small and can be copied (for nested and aborted transactions). Its digest is the auditor's.
 */
#ifndef PGW_TESTS_MODEL_H
#define PGW_TESTS_MODEL_H

#include <lmdb.h>
#include <stdint.h>

#include "audit.h"
#include "disk.h"

/* Databases: strings with values of up to three pages; integers; sorted values of varying size;
 * sorted values of fixed size; and one that is dropped and made again. */
enum { MODEL_DBS = 5 };
enum { MODEL_KEYS = 256 };    /* a key with one value: the number of its value, 0: not there */
enum { MODEL_DUP_KEYS = 12 }; /* a key with sorted values: a bit for each */
enum { MODEL_DUP_VALUES = 512 };

struct model {
	uint32_t value[3][MODEL_KEYS];				 /* of the databases 0, 1, 4 */
	uint64_t dups[2][MODEL_DUP_KEYS][MODEL_DUP_VALUES / 64]; /* of 2, 3 */
	bool exists[MODEL_DBS];
	struct audit_digest digest;
};

void model_init(struct model *m);

/* Make one random change in txn, and the same in the model. 0 or an LMDB code: the transaction must
 * then be aborted, and the model be replaced by a copy from before it. drops: also drop or empty
 * whole databases. Not where nested transactions are about: stock LMDB 0.9.24 itself then lists
 * pages free twice or loses them. */
int model_change(struct model *m, MDB_txn *txn, struct rng *r, bool drops);

/* What went wrong when model and LMDB disagree about what is there: text for the failure. */
extern const char *model_disagreement;

#endif
