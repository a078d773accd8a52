/* SPDX-License-Identifier: BSD-2-Clause
 *
 * import.h - a bootstrap file into the store.
 */
#ifndef CHAIN_IMPORT_H
#define CHAIN_IMPORT_H

#include "bootstrap.h"
#include "engine.h"
#include "horizon.h"
#include "writer.h"

struct import_commits {
	uint64_t n;
	uint64_t ns, max_ns, last_ns;
};

/* What an import did so far. Times in nanoseconds. */
struct import_result {
	uint64_t start_height, height;	  /* of the store, before and now */
	uint64_t blocks, txs, outputs;	  /* stored; txs without the miners' */
	uint64_t bytes;			  /* of chunks stored */
	struct import_commits bulk, live; /* live: durable ones of a block each */
	struct horizon_loss loss;	  /* the most that a power cut could have cost */
	struct engine_counters cost;	  /* of all commits so far */
	uint64_t elapsed_ns;
	uint64_t file_offset, file_size;
	/* The header speaks of more blocks than the file has. It may: see bootstrap.h. */
	uint64_t missing;
	bool interrupted;
};

struct import_options {
	uint64_t batch; /* blocks a transaction, > 0 */
	/* The last blocks of the file, as a node does when it has caught up: a durable commit for
	 * each, whatever the durability of the store was. */
	uint64_t live;
	/* At the end of the file: wait for more, which is live, until progress returns false. */
	bool follow;
	/* Called between blocks, and now and then while waiting, if not NULL; false ends the import
	 * after a commit. */
	bool (*progress)(void *ctx, const struct import_result *so_far);
	void *ctx;
};

/* Appends the blocks of b (just opened) that db does not hold yet; a block is stored only if the
 * file ends after it or the next block names it as the one before, for a block's own bytes are in
 * no other hash. Blocks that both hold must be the same. All good blocks before an error are
 * stored, unless it is the database's. *result is set in every case. */
int chain_import(struct chain_db *db, struct bootstrap *b, const struct import_options *opt,
    struct import_result *result, struct chain_error *err);

#endif
