/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats.c - the shim's counters, and its part of the report.
 */
#include "stats.h"

#include <string.h>

#include "report.h"

struct pgw__counters pgw__count;

/* The fallbacks, without a lock: a slot is taken by setting what, and is complete once reason is
 * set. Two threads that note the same pair at the same time may take two slots; readers add those
 * up. Slots are never freed. */
static struct slot {
	const char *_Atomic what;
	const char *_Atomic reason;
	_Atomic uint64_t count;
} slots[PGW_STATS_FALLBACKS];

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

void pgw__note_fallback(const char *what, const char *reason)
{
	size_t i;

	for (i = 0; i < PGW_STATS_FALLBACKS - 1; i++) {
		const char *expected = NULL;

		if (same(atomic_load(&slots[i].what), what) &&
		    same(atomic_load(&slots[i].reason), reason))
			break;
		if (atomic_compare_exchange_strong(&slots[i].what, &expected, what)) {
			atomic_store(&slots[i].reason, reason);
			break;
		}
	}
	if (i == PGW_STATS_FALLBACKS - 1) {
		const char *expected = NULL;

		if (atomic_compare_exchange_strong(&slots[i].what, &expected, what))
			atomic_store(&slots[i].reason, reason);
	}
	atomic_fetch_add_explicit(&slots[i].count, 1, memory_order_relaxed);
}

static void add_fallback(
    struct pgw_stats *out, const char *what, const char *reason, uint64_t count)
{
	size_t i = 0;

	while (out->fallback[i].reason &&
	       !(same(out->fallback[i].what, what) && same(out->fallback[i].reason, reason)))
		i++;
	out->fallback[i].what = what;
	out->fallback[i].reason = reason;
	out->fallback[i].count += count;
}

static uint64_t get(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void pgw_stats_get(struct pgw_stats *out)
{
	struct pgw__counters *c = &pgw__count;

	memset(out, 0, sizeof(*out));
	for (size_t a = 0; a < PGW_ADVICE_COUNT; a++) {
		out->advice[a].vectored_calls = get(&c->advice[a].vectored_calls);
		out->advice[a].vectored_ranges = get(&c->advice[a].vectored_ranges);
		out->advice[a].single_calls = get(&c->advice[a].single_calls);
		out->advice[a].bytes = get(&c->advice[a].bytes);
		out->advice[a].failed_ranges = get(&c->advice[a].failed_ranges);
	}
	out->short_returns = get(&c->short_returns);
	out->probe_calls = get(&c->probe_calls);
	out->sync.sync_file_range_calls = get(&c->sync_file_range_calls);
	out->sync.sync_file_range_bytes = get(&c->sync_file_range_bytes);
	out->sync.msync_calls = get(&c->msync_calls);
	out->sync.msync_bytes = get(&c->msync_bytes);
	out->sync.fdatasync_calls = get(&c->fdatasync_calls);
	out->sync.fsync_calls = get(&c->fsync_calls);
	out->sync.barriers = get(&c->barriers);
	out->sync.failed = get(&c->sync_failed);
	for (size_t i = 0; i < PGW_STATS_FALLBACKS; i++) {
		const char *reason = atomic_load(&slots[i].reason);

		if (reason)
			add_fallback(
			    out, atomic_load(&slots[i].what), reason, get(&slots[i].count));
	}
}

void pgw__stats_reset(void)
{
	memset(&pgw__count, 0, sizeof(pgw__count));
	memset(slots, 0, sizeof(slots));
}

static void report_advice(struct pgw__json *j, const struct pgw_stats *s)
{
	pgw__json_open(j, "advice", '{');
	for (size_t a = 0; a < PGW_ADVICE_COUNT; a++) {
		if (!s->advice[a].vectored_calls && !s->advice[a].single_calls &&
		    !s->advice[a].failed_ranges)
			continue;
		pgw__json_open(j, pgw_advice_name((enum pgw_advice)a), '{');
		pgw__json_u64(j, "vectored_calls", s->advice[a].vectored_calls);
		pgw__json_u64(j, "vectored_ranges", s->advice[a].vectored_ranges);
		pgw__json_ratio(j, "ranges_per_call", s->advice[a].vectored_ranges,
		    s->advice[a].vectored_calls);
		pgw__json_u64(j, "single_calls", s->advice[a].single_calls);
		pgw__json_u64(j, "bytes", s->advice[a].bytes);
		pgw__json_u64(j, "failed_ranges", s->advice[a].failed_ranges);
		pgw__json_close(j, '}');
	}
	pgw__json_close(j, '}');
}

static void report_sync(struct pgw__json *j, const struct pgw_stats *s)
{
	pgw__json_open(j, "sync", '{');
	pgw__json_u64(j, "sync_file_range_calls", s->sync.sync_file_range_calls);
	pgw__json_u64(j, "sync_file_range_bytes", s->sync.sync_file_range_bytes);
	pgw__json_u64(j, "msync_calls", s->sync.msync_calls);
	pgw__json_u64(j, "msync_bytes", s->sync.msync_bytes);
	pgw__json_u64(j, "fdatasync_calls", s->sync.fdatasync_calls);
	pgw__json_u64(j, "fsync_calls", s->sync.fsync_calls);
	pgw__json_u64(j, "barriers", s->sync.barriers);
	pgw__json_u64(j, "failed", s->sync.failed);
	pgw__json_close(j, '}');
}

void pgw__report_shim(struct pgw__json *j)
{
	struct pgw_stats s;

	pgw_stats_get(&s);
	pgw__json_str(j, "kernel_mode", pgw_kernel_mode_name(pgw_kernel_mode()));
	report_advice(j, &s);
	pgw__json_u64(j, "short_returns", s.short_returns);
	pgw__json_u64(j, "probe_calls", s.probe_calls);
	report_sync(j, &s);
	pgw__json_open(j, "fallbacks", '[');
	for (size_t i = 0; i < PGW_STATS_FALLBACKS && s.fallback[i].reason; i++) {
		pgw__json_open(j, NULL, '{');
		pgw__json_str(j, "what", s.fallback[i].what);
		pgw__json_str(j, "reason", s.fallback[i].reason);
		pgw__json_u64(j, "count", s.fallback[i].count);
		pgw__json_close(j, '}');
	}
	pgw__json_close(j, ']');
}

#ifdef PGW_LIBPAGEWISE
/* Only in libpagewise itself: the copies inside libpagewise-alloc and libpagewise-store are
 * reported by those. Here and not in a file of its own, so that it is part of a program that links
 * libpagewise.a. */
static bool in_use(void)
{
	struct pgw_stats s;
	uint64_t calls;

	pgw_stats_get(&s);
	calls = s.probe_calls + s.sync.sync_file_range_calls + s.sync.msync_calls +
		s.sync.fdatasync_calls + s.sync.fsync_calls;
	for (size_t a = 0; a < PGW_ADVICE_COUNT; a++)
		calls += s.advice[a].vectored_calls + s.advice[a].single_calls +
			 s.advice[a].failed_ranges;
	return calls != 0;
}

static void report_part(struct pgw__json *j)
{
	if (in_use())
		pgw__report_shim(j);
}

__attribute__((constructor)) static void register_part(void)
{
	pgw__report_register("shim", report_part);
}
#endif
