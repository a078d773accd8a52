/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purge.h - purging pending memory, by whichever thread does it.
 */
#ifndef PGW_ALLOC_PURGE_H
#define PGW_ALLOC_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How pending memory is purged is an option: for good, or lazily first (space.h).
 *
 * Purge on the caller's time: what was pending longest, until at most target bytes are pending, and
 * what is older than cutoff (pgw__now_ms; UINT64_MAX: all). At most max ranges. Uses about 4 KiB of
 * stack. Returns the number of ranges that were handed to the kernel. */
size_t pgw__purge_inline(uint64_t target, uint64_t cutoff, size_t max);

/* The same by a thread with nothing else to do, 1024 ranges a call. */
size_t pgw__purge_all(uint64_t target, uint64_t cutoff);

/* Purge for good what was freed lazily before cutoff. */
size_t pgw__purge_lazy(uint64_t cutoff);

/* Purge all that is pending or lazy, for good. */
size_t pgw__purge_now(void);

/* The same, and what other threads have in flight: wait for it, and purge for good what of it was only freed
 * lazily. */
void pgw__purge_everything(void);

/* Memory from jemalloc that somebody waits to see purged: it is not pending on its way. begin: false
 * if another thread has the large batch; then it goes to pgw__space_give as ever. end, by the same
 * thread, purges what is left. add: 0 or -ENOMEM (it stays the caller's). */
bool pgw__purge_direct_begin(void);
int pgw__purge_direct_add(void *addr, size_t size);
void pgw__purge_direct_end(void);

#endif
