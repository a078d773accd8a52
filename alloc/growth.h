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
 * No lock; any thread.
 */
#ifndef PGW_ALLOC_GROWTH_H
#define PGW_ALLOC_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

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

/* This thread could not have size bytes behind a block. */
void pgw__growth_failed(uint64_t size);

/* Is a request of size bytes, by this thread, for a block that is to grow? Forgets what failed. */
bool pgw__growth_seen(uint64_t size);

/* An address for such a block, another one at each call; it may be in use. 0: there is none. */
uint64_t pgw__growth_place(uint64_t size, uint64_t align);

#endif
