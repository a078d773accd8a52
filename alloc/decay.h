/* SPDX-License-Identifier: BSD-2-Clause
 *
 * decay.h - jemalloc's decay, driven from outside of malloc and free.
 *
 * jemalloc decays unused pages on the way of malloc and free only: a process that frees and then
 * does nothing keeps all of them, and an arena keeps its own when its threads are idle. The purger
 * makes up for that. It sees the arenas that have our hooks, from when they are made until they are
 * destroyed.
 *
 * One lock keeps an arena from being destroyed while it is looked at. jemalloc takes its own locks
 * under it, and it is taken under none of jemalloc's but that of mallctl.
 */
#ifndef PGW_ALLOC_DECAY_H
#define PGW_ALLOC_DECAY_H

#include <stdbool.h>
#include <stdint.h>

#include "purger.h"

/* An arena has been made, or is about to be destroyed. */
void pgw__decay_add(unsigned ind, void *arena);
void pgw__decay_remove(void *arena);

/* Keep the purger out of the arenas. jemalloc purges an arena in one thread at a time, and a second one
 * that asks for all of it returns at once. */
void pgw__decay_hold(void);
void pgw__decay_release(void);

/* struct pgw__upstream, for the purger. */
extern const struct pgw__upstream pgw__decay_upstream;

/* In a forked child, while it has one thread. */
void pgw__decay_in_child(void);

#endif
