/* SPDX-License-Identifier: BSD-2-Clause
 *
 * horizon.c - see horizon.h.
 */
#include "horizon.h"

#include <stdlib.h>
#include <string.h>

/* Far more than are made within a bound of milliseconds. Where there is no bound, the ring fills
 * up, and it is the oldest that count. */
#define RING 4096

int horizon_init(struct horizon *h, struct chain_error *err)
{
	*h = (struct horizon){ .ring = calloc(RING, sizeof(*h->ring)) };
	return h->ring ? 0 : chain_fail(err, CHAIN_SYSTEM, "no memory for the list of commits");
}

void horizon_finish(struct horizon *h)
{
	free(h->ring);
	memset(h, 0, sizeof(*h));
}

void horizon_commit(struct horizon *h, uint64_t txnid, uint64_t height, uint64_t ns)
{
	h->height = height;
	/* The newest gives way: a later one stands for it, too. */
	if (h->n == RING)
		h->n--;
	h->ring[(h->first + h->n) % RING] = (struct horizon_commit){ txnid, height, ns };
	h->n++;
}

void horizon_durable(struct horizon *h, uint64_t txnid, uint64_t ns, struct horizon_loss *worst)
{
	while (h->n > 0 && h->ring[h->first].txnid <= txnid) {
		h->durable_height = h->ring[h->first].height;
		h->first = (h->first + 1) % RING;
		h->n--;
	}
	if (h->n == 0)
		return;
	if (h->height - h->durable_height > worst->blocks)
		worst->blocks = h->height - h->durable_height;
	if (ns - h->ring[h->first].ns > worst->ns)
		worst->ns = ns - h->ring[h->first].ns;
}
