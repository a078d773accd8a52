/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pop.h - a reorganisation: the last blocks are taken off again.
 */
#ifndef CHAIN_POP_H
#define CHAIN_POP_H

#include "writer.h"

/* What was taken off. */
struct pop_result {
	uint64_t blocks, txs, outputs, key_images; /* txs with the miners' */
	uint64_t height;			   /* of the chain now */
};

/* Takes the last block off, within w's transaction: every table is afterwards as if it had never been
 * appended. The rows are held against the block as they go. If it fails, the transaction is good for
 * writer_abort() only. w may append afterwards. */
int writer_pop(struct writer *w, struct pop_result *sum, struct chain_error *err);

/* n blocks in one transaction, so that nobody sees the chain in between. n: at most the height. */
int chain_pop(struct chain_db *db, uint64_t n, struct pop_result *sum, struct chain_error *err);

#endif
