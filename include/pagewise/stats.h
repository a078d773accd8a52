/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/stats.h - counters of the shim: every number is a real call or what it was given.
 *
 * libpagewise, libpagewise-alloc and libpagewise-store each carry their own shim, and so their own
 * counters; PAGEWISE_STATS=1 (standard error) or =FILE (%p is the process id; the line is appended)
 * makes a process write one JSON object at exit, with a part for each library that was in use. With
 * it, a forked child starts at zero; without, its counters go on from its parent's.
 */
#ifndef PAGEWISE_STATS_H
#define PAGEWISE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include <pagewise/probe.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PGW_STATS_FALLBACKS 16

struct pgw_stats {
	struct {
		uint64_t vectored_calls;
		uint64_t vectored_ranges;
		uint64_t single_calls;
		uint64_t bytes; /* that the kernel reported done */
		uint64_t failed_ranges;
	} advice[PGW_ADVICE_COUNT];
	uint64_t short_returns;
	uint64_t probe_calls; /* system calls made to probe */
	struct {
		uint64_t sync_file_range_calls, sync_file_range_bytes;
		uint64_t msync_calls, msync_bytes;
		uint64_t fdatasync_calls, fsync_calls;
		uint64_t barriers;
		uint64_t failed;
	} sync;
	/* Decisions for the worse: what, why (static text), and how often. Entries after the last
	 * used one have reason NULL. More than PGW_STATS_FALLBACKS different ones count in the
	 * last. */
	struct {
		const char *what;
		const char *reason;
		uint64_t count;
	} fallback[PGW_STATS_FALLBACKS];
};

/* A copy of the counters, each read atomically (not all at one instant). Any thread, any context.
 */
void pgw_stats_get(struct pgw_stats *out);

#ifdef __cplusplus
}
#endif
#endif
