/* SPDX-License-Identifier: BSD-2-Clause
 *
 * engine.h - what the commits cost, where the engine can tell.
 */
#ifndef CHAIN_ENGINE_H
#define CHAIN_ENGINE_H

#include "out.h"
#include "tables.h"

/* With libpagewise-store: what the open environment dirtied and synced, and with how many barriers.
 * With plain LMDB, which does not count: nothing. */
void engine_print(struct out *o, struct chain_db *db);

#endif
