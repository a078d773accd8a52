/* SPDX-License-Identifier: BSD-2-Clause
 *
 * prefault.h - large memory that is reused gets its pages in one call instead of a fault for each
 * (PAGEWISE_ALLOC=prefault:bytes, off by default).
 *
 * Only the first three quarters of an extent: a block is larger than that (classes of sizes are a
 * fifth apart, at most), so a program that fills its blocks has no page by it that it would not have had.
 * And the page behind tells whether it does: it is there only if the program came that far. Each
 * large extent that is given up is asked for that one; as long as nearly all have it, reused ones are
 * prefaulted, and a few without end it.
 */
#ifndef PGW_ALLOC_PREFAULT_H
#define PGW_ALLOC_PREFAULT_H

#include <pagewise/range.h>

/* r, clean, is about to be handed out, and nobody asked for zeroes: who does may touch little of it.
 * Not under the lock. A kernel that cannot do it (before Linux 5.14) leaves r as it is. */
void pgw__prefault(struct pgw_range r);

/* jemalloc gives r up. Not under the lock. */
void pgw__prefault_learn(struct pgw_range r);

#endif
