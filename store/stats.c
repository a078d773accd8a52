/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats.c - counters for programs (pagewise/store.h) and for the report at exit.
 */
#include <errno.h>
#include <string.h>

#include "env.h"
#include "report.h"

#define PUBLIC __attribute__((visibility("default")))

static const char *const reason_names[PGW_FULL_SYNC_COUNT] = {
	[PGW_FULL_FIRST] = "first",
	[PGW_FULL_OTHER_WRITER] = "other-writer",
	[PGW_FULL_NOSYNC] = "nosync",
	[PGW_FULL_REMAPPED] = "remapped",
	[PGW_FULL_NO_MEMORY] = "no-memory",
	[PGW_FULL_UNTRACKED] = "untracked",
	[PGW_FULL_ASKED] = "asked",
};

PUBLIC const char *pgw_full_sync_name(enum pgw_full_sync reason)
{
	return (unsigned)reason < PGW_FULL_SYNC_COUNT ? reason_names[reason] : NULL;
}

PUBLIC int pgw_env_stats(MDB_env *env, struct pgw_env_stats *out)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);

	if (!e)
		return EINVAL;
	memset(out, 0, sizeof(*out));
	pgw__env_counters_read(&e->count, out);
	out->durable_txnid = atomic_load_explicit(&e->durable_txnid, memory_order_relaxed);
	out->failed = -atomic_load_explicit(&e->failed, memory_order_relaxed);
	out->strategy = e->file.strategy;
	out->strategy_reason = e->file.reason;
	out->fs = e->file.fs;
	return 0;
}

PUBLIC void pgw_store_stats(struct pgw_env_stats *out)
{
	memset(out, 0, sizeof(*out));
	pgw__env_total(out);
}

static void report(struct pgw__json *j)
{
	struct pgw_env_stats s;

	if (!pgw__env_any())
		return; /* linked or preloaded, but not used */
	pgw_store_stats(&s);
	pgw__json_u64(j, "commits", s.commits);
	pgw__json_u64(j, "dirty_ranges", s.dirty_ranges);
	pgw__json_u64(j, "dirty_bytes", s.dirty_bytes);
	pgw__json_u64(j, "synced_bytes", s.synced_bytes);
	pgw__json_u64(j, "barriers", s.barriers);
	pgw__json_u64(j, "sync_file_range_calls", s.sync_file_range_calls);
	pgw__json_u64(j, "sync_file_range_bytes", s.sync_file_range_bytes);
	pgw__json_u64(j, "msync_calls", s.msync_calls);
	pgw__json_u64(j, "msync_bytes", s.msync_bytes);
	pgw__json_u64(j, "fdatasync_calls", s.fdatasync_calls);
	pgw__json_u64(j, "directory_syncs", s.directory_syncs);
	pgw__json_u64(j, "osync_writes", s.osync_writes);
	pgw__json_u64(j, "osync_bytes", s.osync_bytes);
	pgw__json_u64(j, "failed_syncs", s.failed_syncs);
	pgw__json_u64(j, "checkpoints", s.checkpoints);
	pgw__json_u64(j, "checkpoint_commits", s.checkpoint_commits);
	pgw__json_u64(j, "live_ranges", s.live_ranges);
	pgw__json_u64(j, "live_bytes", s.live_bytes);
	pgw__json_u64(j, "two_barrier_checkpoints", s.two_barrier_checkpoints);
	pgw__json_u64(j, "updates", s.updates);
	pgw__json_u64(j, "update_batches", s.update_batches);
	pgw__json_u64(j, "dead_readers", s.dead_readers);
	pgw__json_u64(j, "warmed_bytes", s.warmed_bytes);
	pgw__json_u64(j, "retired_bytes", s.retired_bytes);
	pgw__json_u64(j, "allocate_calls", s.allocate_calls);
	pgw__json_u64(j, "allocated_bytes", s.allocated_bytes);
	pgw__json_open(j, "full_syncs", '{');
	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		pgw__json_u64(j, reason_names[i], s.full_syncs[i]);
	pgw__json_close(j, '}');
	pgw__report_shim(j);
}

__attribute__((constructor)) static void register_report(void)
{
	pgw__report_register("store", report);
	pgw__report_reset_in_child(pgw__env_reset_counters);
}
