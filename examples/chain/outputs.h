/* SPDX-License-Identifier: BSD-2-Clause
 *
 * outputs.h - the outputs by amount: how many there are, and which.
 */
#ifndef CHAIN_OUTPUTS_H
#define CHAIN_OUTPUTS_H

#include "out.h"
#include "tables.h"

struct outputs_query {
	bool all; /* a count for each amount; else the outputs of one */
	uint64_t amount;
	uint64_t from, count; /* indices within the amount; 0 of them: DEFAULT_OUTPUTS */
};
#define DEFAULT_OUTPUTS 100

int query_outputs(
    struct chain_db *db, const struct outputs_query *q, struct out *o, struct chain_error *err);

#endif
