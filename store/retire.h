/* SPDX-License-Identifier: BSD-2-Clause
 *
 * retire.h - where memory is short, pages that are free leave the page cache before others do.
 */
#ifndef PGW_STORE_RETIRE_H
#define PGW_STORE_RETIRE_H

#include "checkpoint.h"

/* c->running has become durable, by the thread of relaxed. Decide whether the next cuts are to note what
 * they retire; pgw__retire is to follow. The lock is held. */
void pgw__retire_take(struct pgw__checkpointer *c);

/* Take these pages out of memory, unless a checkpoint runs. The lock is held, and let go of meanwhile. */
void pgw__retire(struct pgw__checkpointer *c);

#endif
