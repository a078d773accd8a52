/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats.h - where the shim counts (pagewise/stats.h reads it). Relaxed atomics; any context.
 */
#ifndef PGW_SHIM_STATS_H
#define PGW_SHIM_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include <pagewise/stats.h>

struct pgw__advice_counters {
	_Atomic uint64_t vectored_calls, vectored_ranges, single_calls, bytes, failed_ranges;
};

struct pgw__counters {
	struct pgw__advice_counters advice[PGW_ADVICE_COUNT];
	_Atomic uint64_t short_returns, probe_calls;
	_Atomic uint64_t sync_file_range_calls, sync_file_range_bytes;
	_Atomic uint64_t msync_calls, msync_bytes;
	_Atomic uint64_t fdatasync_calls, fsync_calls, barriers, sync_failed;
};

extern struct pgw__counters pgw__count;

#define PGW__COUNT(field, n) \
	atomic_fetch_add_explicit(&pgw__count.field, (uint64_t)(n), memory_order_relaxed)

/* Note a decision for the worse. Both texts static; what names the thing ("process_madvise
 * DONTNEED", "sync"), reason says why. The same pair twice is counted, not repeated. */
void pgw__note_fallback(const char *what, const char *reason);

/* All counters to zero. For the child after fork, and for tests: not while others count. */
void pgw__stats_reset(void);

#endif
