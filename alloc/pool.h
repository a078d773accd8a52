/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pool.h - a set of free ranges in one state, found by address and by size.
 *
 * Invariants, between calls:
 *   P1  the ranges are disjoint and no two touch (neighbours are joined as they arrive);
 *   P2  every range is in the address tree, the size tree and the queue, and nowhere else;
 *   P3  the queue is ascending by stamp: its head is the range that was left alone longest;
 *   P4  bytes and count say what the trees hold.
 *
 * A pool does not know what its ranges mean and touches no memory of theirs. It takes no lock and
 * makes no system call of its own (splitting may need an extent, and the cache may map a slab).
 */
#ifndef PGW_ALLOC_POOL_H
#define PGW_ALLOC_POOL_H

#include <stdbool.h>

#include <pagewise/range.h>

#include "extent.h"

struct pgw__pool {
	struct pgw__extent_cache *cache;
	struct pgw__extent_addr_tree by_addr;
	struct pgw__extent_size_tree by_size;
	struct pgw__extent_queue queue;
	uint64_t bytes, count, bytes_peak;
};

void pgw__pool_init(struct pgw__pool *p, struct pgw__extent_cache *cache);

/* Put e's range in, joined with its neighbours, and at the end of the queue: e->stamp must not be
 * less than any before. e belongs to the pool afterwards.
 * 0, or -EEXIST if part of the range is in the pool already (e stays the caller's): somebody gave
 * the same memory twice. */
int pgw__pool_add(struct pgw__pool *p, struct pgw__extent *e);

/* The same for one of many that come in the order of addresses, from one hold of the lock: near is the
 * one that was added before it (in this way), or NULL. Finds the place without a walk down the tree. */
int pgw__pool_add_near(struct pgw__pool *p, struct pgw__extent *e, struct pgw__extent *near);

/* Take e out; it is the caller's then. */
void pgw__pool_remove(struct pgw__pool *p, struct pgw__extent *e);

/* Take size bytes aligned to align (a power of two) from the smallest range that has them, at its
 * lowest address; of equal ranges the lowest. A range of which more than rest bytes would be left
 * over does not count (UINT64_MAX: all do). false if there is none (or no extent to split with). */
bool pgw__pool_fit(
    struct pgw__pool *p, uint64_t size, uint64_t align, uint64_t rest, uint64_t *start);

/* How many bytes from addr on are in the pool without a gap. */
uint64_t pgw__pool_run(struct pgw__pool *p, uint64_t addr);

/* Take exactly r, which pgw__pool_run has found. 0 or -ENOMEM (no extent to split with). */
int pgw__pool_cut(struct pgw__pool *p, struct pgw_range r);

/* The range that was left alone longest, or the largest one; NULL in an empty pool. Stays in. */
struct pgw__extent *pgw__pool_oldest(struct pgw__pool *p);
struct pgw__extent *pgw__pool_largest(struct pgw__pool *p);

#endif
