/* SPDX-License-Identifier: BSD-2-Clause
 *
 * forkmark.h - a word that the kernel clears in a forked child (MADV_WIPEONFORK), however the child
 * was made. In a vfork child, which runs in its parent's memory, it stays.
 *
 * Where the kernel cannot do that (before 4.14) only fork handlers tell of a fork.
 */
#ifndef PGW_ALLOC_FORKMARK_H
#define PGW_ALLOC_FORKMARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pgw__forkmark_state { PGW__MARK_WIPED, PGW__MARK_CLAIMED, PGW__MARK_SET };

extern _Atomic(_Atomic uint32_t *) pgw__forkmark;

/* Has this process been set up? False at first, and once more in each forked child. */
static inline bool pgw__forkmark_is_set(void)
{
	_Atomic uint32_t *m = atomic_load_explicit(&pgw__forkmark, memory_order_acquire);

	return m && atomic_load_explicit(m, memory_order_acquire) == PGW__MARK_SET;
}

/* True for the one thread that has to set the process up, and must call pgw__forkmark_set then;
 * false for all others, once it is set up. */
bool pgw__forkmark_claim(void);
void pgw__forkmark_set(void);

/* Does the kernel wipe it? */
bool pgw__forkmark_by_kernel(void);

/* In the fork handler of a child: as the kernel's wipe, for kernels without it. */
void pgw__forkmark_wipe(void);

#endif
