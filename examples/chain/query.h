/* SPDX-License-Identifier: BSD-2-Clause
 *
 * query.h - looking things up, and printing them.
 */
#ifndef CHAIN_QUERY_H
#define CHAIN_QUERY_H

#include "out.h"
#include "tables.h"

int query_info(struct chain_db *db, struct out *o, struct chain_error *err);
/* which: a height, or the hash of a block. */
int query_block(struct chain_db *db, const char *which, struct out *o, struct chain_error *err);
/* text: the hash of a transaction. */
int query_tx(struct chain_db *db, const char *text, struct out *o, struct chain_error *err);
/* Transactions that wait, and blocks of other branches. */
int query_pool(struct chain_db *db, struct out *o, struct chain_error *err);

#endif
