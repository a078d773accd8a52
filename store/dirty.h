/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dirty.h - the ranges of the data file that the running write transaction has changed.
 *
 * Without MDB_WRITEMAP these are the writes themselves. With it they are pages that LMDB noted, by
 * their first page only: a run of overflow pages tells its length in its header, which is written
 * after the page was noted. So the length is read when the set is collected.
 *
 * A set belongs to the writer: whoever uses it holds LMDB's writer lock.
 */
#ifndef PGW_STORE_DIRTY_H
#define PGW_STORE_DIRTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagewise/range.h>

struct pgw__dirty {
	struct pgw_ranges ranges; /* file offsets */
	bool incomplete;	  /* memory ran out: the set proves nothing */
};

void pgw__dirty_init(struct pgw__dirty *d);
void pgw__dirty_finish(struct pgw__dirty *d);

/* Start anew. Storage is kept, unless one large transaction made it grow beyond reason. */
void pgw__dirty_clear(struct pgw__dirty *d);

/* Out of memory is remembered in incomplete. */
void pgw__dirty_add(struct pgw__dirty *d, uint64_t start, uint64_t len);

/* Set *out to the ranges, whole pages of psize bytes. map: the writable map, map_len bytes, whose
 * page headers tell how long overflow runs are; NULL without MDB_WRITEMAP. The result covers at
 * least what the transaction changed. 0, or -ENOMEM (also if the set is incomplete). */
int pgw__dirty_collect(const struct pgw__dirty *d, const void *map, uint64_t map_len,
    uint32_t psize, struct pgw_ranges *out);

#endif
