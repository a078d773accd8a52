/* SPDX-License-Identifier: BSD-2-Clause
 *
 * horizon.h - how far what is durable lags behind what is committed: what a power cut would cost.
 * One thread.
 */
#ifndef CHAIN_HORIZON_H
#define CHAIN_HORIZON_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct horizon_commit {
	uint64_t txnid, height, ns;
};

/* Commits that are not known to be durable, oldest first, in a ring. */
struct horizon {
	struct horizon_commit *ring;
	size_t first, n;
	uint64_t
	    durable_height; /* of the newest that is; before the first: of the store as it was */
	uint64_t height;    /* of the newest */
};

/* The worst that was seen. */
struct horizon_loss {
	uint64_t blocks;
	uint64_t ns; /* age of the oldest commit that was not durable */
};

int horizon_init(struct horizon *h, struct chain_error *err);
void horizon_finish(struct horizon *h);

/* A transaction that left the chain with `height` blocks was committed at ns. */
void horizon_commit(struct horizon *h, uint64_t txnid, uint64_t height, uint64_t ns);

/* At ns all transactions up to txnid are durable. */
void horizon_durable(struct horizon *h, uint64_t txnid, uint64_t ns, struct horizon_loss *worst);

#endif
