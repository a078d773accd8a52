/* SPDX-License-Identifier: BSD-2-Clause
 *
 * weight.h - the long-term weight of a block: its weight, held within bounds around the median of
 * the last 100000 blocks' long-term weights. The chain file does not hold it; it follows from the
 * blocks before. One thread.
 */
#ifndef CHAIN_WEIGHT_H
#define CHAIN_WEIGHT_H

#include <stddef.h>
#include <stdint.h>

/* Blocks, and bytes: Monero's consensus constants (cryptonote_config.h). */
#define WEIGHT_WINDOW 100000
#define WEIGHT_FLOOR  300000

struct weight_window {
	uint64_t *ring;	  /* of block h at h % size */
	uint64_t *sorted; /* the same, ascending */
	size_t size, n;	  /* room, and blocks in it */
	uint64_t end;	  /* height of the next block */
};

/* An empty window before block `end`; size: WEIGHT_WINDOW, but in tests. 0, or -1 if there is no
 * memory. */
int weight_window_init(struct weight_window *w, size_t size, uint64_t end);
void weight_window_finish(struct weight_window *w);

/* The long-term weight of block w->end, in hard fork `fork`. */
uint64_t weight_long_term(const struct weight_window *w, uint64_t fork, uint64_t weight);

/* Takes the long-term weight of block w->end in, and drops the one that leaves the window. */
void weight_window_push(struct weight_window *w, uint64_t long_term);

#endif
