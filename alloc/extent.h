/* SPDX-License-Identifier: BSD-2-Clause
 *
 * extent.h - what describes one free range, and where such descriptions come from.
 *
 * They cannot come from malloc: this is inside it. A cache hands them out from a few built-in ones,
 * then from slabs of mmap that are never unmapped (the peak number of free ranges bounds them). A
 * process that frees little never maps a slab.
 *
 * The caller holds the lock under which the cache is used.
 */
#ifndef PGW_ALLOC_EXTENT_H
#define PGW_ALLOC_EXTENT_H

#include <bsd/sys/tree.h>
#include <stdint.h>
#include <sys/queue.h>

struct pgw__extent {
	uint64_t start, len; /* bytes, whole pages; not changed while the extent is in a pool */
	uint64_t stamp;	     /* ms: when memory last came to it */
	RB_ENTRY(pgw__extent) by_addr;
	RB_ENTRY(pgw__extent) by_size;
	TAILQ_ENTRY(pgw__extent) queue; /* oldest first; also links the cache's free ones */
};

TAILQ_HEAD(pgw__extent_queue, pgw__extent);
RB_HEAD(pgw__extent_addr_tree, pgw__extent);
RB_HEAD(pgw__extent_size_tree, pgw__extent);

#define PGW__EXTENT_BUILTIN 64

/* All zero but for the queue: pgw__extent_cache_init. */
struct pgw__extent_cache {
	struct pgw__extent_queue free;
	uint64_t slabs;
	struct pgw__extent builtin[PGW__EXTENT_BUILTIN];
};

/* Also forgets everything the cache had handed out. */
void pgw__extent_cache_init(struct pgw__extent_cache *c);

/* NULL if there is none and no memory for more. The contents are undefined. */
struct pgw__extent *pgw__extent_new(struct pgw__extent_cache *c);

void pgw__extent_free(struct pgw__extent_cache *c, struct pgw__extent *e);

static inline uint64_t pgw__extent_end(const struct pgw__extent *e)
{
	return e->start + e->len;
}

#endif
