/* SPDX-License-Identifier: BSD-2-Clause
 *
 * writer.h - a write transaction that appends blocks, or takes all of its own back.
 */
#ifndef CHAIN_WRITER_H
#define CHAIN_WRITER_H

#include "package.h"
#include "tables.h"
#include "weight.h"

/* What the next rows are numbered with. All follow from the tables, so that there is no separate
 * state a crash could leave behind. */
struct writer_counts {
	uint64_t height, tx_id, output_id;
	uint64_t rct_outputs;	 /* = rows under amount 0 */
	uint8_t hash[HASH_SIZE]; /* of the last block; 0 without one */
};

struct writer {
	struct chain_db *db;
	MDB_txn *txn;
	MDB_cursor *cur[CHAIN_TABLES];
	struct writer_counts at;
	uint32_t pruning_seed;	      /* see prune.h */
	bool pool;		      /* there are rows to be taken out of: pool.h */
	struct weight_window *window; /* kept from one transaction to the next */
	uint64_t *indices;	      /* of one transaction's outputs */
	size_t indices_cap;
};

/* Begins. w starts as all zero but for db and window (all zero, too). A window that does not fit
 * the store is read anew. On failure no transaction is left. */
int writer_begin(struct writer *w, struct chain_error *err);

/* Adds a block that package_check() has accepted against the writer's tip. If it fails, the
 * transaction is good for writer_abort() only: some of the rows are in. CHAIN_INPUT: a hash or a
 * key image is in the store already. */
int writer_append(struct writer *w, const struct package *p, struct chain_error *err);

/* Both end the transaction, whatever they return. */
int writer_commit(struct writer *w, struct chain_error *err);
void writer_abort(struct writer *w);

/* Frees what is kept between transactions, the window included. */
void writer_finish(struct writer *w);

#endif
