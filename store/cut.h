/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cut.h - what has been committed since the last durable snapshot, and what of it must be written.
 *
 * A cut of (d, x] holds the meta image of snapshot x and the pages that the transactions d+1 to x
 * dirtied. As long as d is pinned, LMDB recycles no page that d or a later snapshot can reach. From
 * that follows all that this file relies on:
 *
 * - A page that was dirtied in (d, x] and is in use at x does not change any more, whatever later
 *   transactions do. Its digest, taken at any time, stays true.
 * - A page that was dirtied in (d, x] and is free at x is needed by nobody but readers in between:
 *   it need not be written for x, and may change at any time. A digest that covered one would be
 *   false later, and recovery would then discard a good snapshot. So leaving these out is not only
 *   cheaper, it is what makes the digest sound.
 *
 * Live pages are therefore: dirtied in (d, x], not free at x, not past the last page of x. What is
 * free at x and was dirtied in (d, x] is found in the free-list records that these transactions
 * wrote, whose keys are their txnids - unless a page was given back in the transaction that took it.
 * LMDB may put such a page among the older records. It happens without leaving a trace in what we
 * saw only if pages were written before the commit (spilled: only in huge transactions, or in nested
 * ones) or, with MDB_WRITEMAP, to overflow pages. Then the cut is marked `reused`, and all records
 * are read.
 */
#ifndef PGW_STORE_CUT_H
#define PGW_STORE_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include <lmdb.h>

#include "dirty.h"
#include "format.h"
#include "pin.h"

struct pgw__cut {
	uint64_t txnid; /* x */
	uint64_t after; /* free-list records up to this key have been taken out of dirty */
	uint64_t wall;	/* when x was committed, ns since 1970 */
	uint64_t
	    first; /* when the first transaction of the cut was committed, CLOCK_MONOTONIC ns */
	uint64_t commits;
	uint64_t bytes;	      /* of dirty, at most: pages may be counted twice */
	uint64_t taken;	      /* bytes of pages dirtied, also of those that are free again */
	struct pgw__pin *pin; /* of x */
	unsigned char meta[PGW__META_SIZE];
	struct pgw_ranges dirty;
	struct pgw_ranges retired; /* pages of d that are free at x, if they are wanted */
	bool note_retired;
	bool reused;
	bool incomplete; /* memory ran out: dirty proves nothing */
};

void pgw__cut_init(struct pgw__cut *c);
void pgw__cut_finish(struct pgw__cut *c);

/* Make it the empty cut (d, d]. */
void pgw__cut_restart(struct pgw__cut *c, uint64_t d);

/* The geometry of a file, as a cut needs it. */
struct pgw__map {
	const void *start;
	uint64_t len;
	uint32_t psize;
	bool writemap;
};

/* Add the pages that the transaction just committed has dirtied: the caller keeps other writers out.
 * spilled: pages were written before its commit. */
void pgw__cut_add(
    struct pgw__cut *c, struct pgw__dirty *dirty, const struct pgw__map *map, bool spilled);

/* Reduce c->dirty to the live pages, whole pages in normal form; and add to c->retired, if it is wanted,
 * what the transactions have freed of the pages of d. c->pin is active at c->txnid.
 * freed: scratch. 0; -ENOMEM or -EIO (the free list cannot be read), and then c->dirty still
 * holds at least the live pages. */
int pgw__cut_reduce(struct pgw__cut *c, const struct pgw__map *map, struct pgw_ranges *freed);

/* Pages in use at the snapshot of the pin, the two meta pages included. 0 or -EIO. */
int pgw__cut_used(const struct pgw__cut *c, uint64_t *pages);

#endif
