/* SPDX-License-Identifier: BSD-2-Clause
 *
 * growth.h - places for large blocks that grow.
 *
 * realloc of a large block asks for the space right behind it, and if that is taken copies the
 * block elsewhere, again and again, since the kernel maps everything close together. A block that
 * was seen to grow gets a place of its own: far below where the kernel maps, with nothing behind it
 * for 16 times its size. That head-room is neither mapped nor reserved, and costs no memory, no
 * mapping and no limit; whoever takes it first has it.
 *
 * How it is seen: the thread that asks for a block has, just before, failed to grow one in place.
 * Smaller blocks than PGW__GROWTH_MIN are cheap to copy, and a mapping of their own would cost more.
 *
 * Such a block may move again although nobody else is in its way: jemalloc 5.3.1 asks for more than
 * the block needs, keeps the rest, and does not grow over a rest that is smaller than the step. Then
 * it moves on within the place that it has, to the end of what is mapped there: what it leaves is
 * next to it, and all of the place is one mapping still.
 *
 * No lock; any thread.
 */
#ifndef PGW_ALLOC_GROWTH_H
#define PGW_ALLOC_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#include <pagewise/range.h>

#define PGW__GROWTH_MIN (UINT64_C(4) << 20)

/* The thread sanitizer lets nobody map there: it ends the program. */
#if defined(__SANITIZE_THREAD__)
#define PGW__GROWTH_PLACES 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PGW__GROWTH_PLACES 0
#endif
#endif
#ifndef PGW__GROWTH_PLACES
#define PGW__GROWTH_PLACES 1
#endif

/* This thread could not have r, behind a block. */
void pgw__growth_failed(struct pgw_range r);

/* Is a request of size bytes, by this thread, for a block that is to grow? Then *failed is what it
 * could not have. Forgets it. */
bool pgw__growth_seen(uint64_t size, struct pgw_range *failed);

/* An address for such a block within the place of the block that failed to grow; it may be in use.
 * 0: there is none. */
uint64_t pgw__growth_behind(struct pgw_range failed, uint64_t size, uint64_t align);

/* An address for such a block, another one at each call; it may be in use. 0: there is none. */
uint64_t pgw__growth_place(uint64_t size, uint64_t align);

#endif
