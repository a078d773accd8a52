/* SPDX-License-Identifier: BSD-2-Clause
 *
 * engine.c - see engine.h.
 */
#include "engine.h"

#ifdef CHAIN_ON_PAGEWISE
#include <pagewise/store.h>

void engine_print(struct out *o, struct chain_db *db)
{
	struct pgw_env_stats s;
	uint64_t full = 0;

	if (pgw_env_stats(db->env, &s))
		return;
	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		full += s.full_syncs[i];
	out_open(o, "synced", '{');
	out_u64(o, "barriers", s.barriers);
	out_u64(o, "dirty_ranges", s.dirty_ranges);
	out_u64(o, "dirty_bytes", s.dirty_bytes);
	out_u64(o, "synced_bytes", s.synced_bytes);
	out_u64(o, "msync_bytes", s.msync_bytes);
	out_u64(o, "full_syncs", full);
	out_text(o, "file_system", s.fs ? s.fs : "unknown");
	out_close(o, '}');
}
#else
void engine_print(struct out *o, struct chain_db *db)
{
}
#endif
