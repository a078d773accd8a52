/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/store.h - libpagewise-store: LMDB whose commits sync exactly what they dirtied.
 *
 * The library is LMDB: it exports all of <lmdb.h>, with LMDB's file format and meaning, and needs
 * no call of this header. A program links it instead of liblmdb, or runs with it in LD_PRELOAD.
 * What differs from liblmdb:
 *
 * - A durable commit syncs the ranges it dirtied (pagewise/sync.h) and not the whole file or map,
 *   in LMDB's order: data, barrier, meta page, barrier. Where the ranges alone would not do, it
 *   syncs the whole file and counts why (enum pgw_full_sync).
 * - The first durable commit of a new file also syncs the directory.
 * - A failed sync is final: the commit (or mdb_env_sync) returns the error, and from then on write
 *   transactions of the environment fail with MDB_PANIC and mdb_env_sync with the same error. A
 * later sync could succeed although the kernel has dropped the data. Reading, and so mdb_env_copy,
 * still works. What was acknowledged before, by commits that sync, is durable; the environment can
 * be opened again once the cause is gone.
 * - A commit that finds the disk full returns ENOSPC (liblmdb: EIO) and the environment stays
 * usable (without MDB_WRITEMAP; with it the kernel sends SIGBUS, as ever).
 *
 * The environment variable PAGEWISE_SYNC forces how ranges are synced; PAGEWISE_STATS reports at
 * exit what was done.
 */
#ifndef PAGEWISE_STORE_H
#define PAGEWISE_STORE_H

#include <stdint.h>

#include <lmdb.h>

#include <pagewise/sync.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a sync was of the whole file (one fdatasync of the data file). */
enum pgw_full_sync {
	PGW_FULL_FIRST, /* first durable commit since mdb_env_open: what came before is unknown */
	PGW_FULL_OTHER_WRITER, /* the last transaction was made by another environment or process */
	PGW_FULL_NOSYNC,       /* the last transaction was not synced: MDB_NOSYNC or MDB_MAPASYNC */
	PGW_FULL_REMAPPED,     /* mdb_env_set_mapsize since the last durable commit */
	PGW_FULL_NO_MEMORY,    /* the dirty ranges could not be kept */
	PGW_FULL_UNTRACKED,    /* a commit without a dirty page: not believed */
	PGW_FULL_ASKED,	       /* mdb_env_sync */
	PGW_FULL_SYNC_COUNT
};

/* Counters of one environment, or of a process. Every number is a real call or what it was given;
 * a call that failed counts too. */
struct pgw_env_stats {
	uint64_t commits; /* write transactions that wrote something and were committed */

	/* Of those whose data was synced: what the transaction dirtied, in whole pages of LMDB,
	 * each once, the meta page left out; and how many separate ranges that was. */
	uint64_t dirty_ranges, dirty_bytes;

	uint64_t
	    synced_bytes; /* made durable as ranges, whole pages of the system, each once a sync */
	uint64_t full_syncs[PGW_FULL_SYNC_COUNT];
	uint64_t failed_syncs;

	/* The calls. Bytes are summed over the calls: a range that is started and then waited for
	 * counts twice. */
	uint64_t sync_file_range_calls, sync_file_range_bytes;
	uint64_t msync_calls, msync_bytes;
	uint64_t fdatasync_calls;
	uint64_t directory_syncs;
	uint64_t osync_writes, osync_bytes; /* meta pages written through an O_DSYNC descriptor */
	uint64_t barriers; /* calls after which the device was told to flush, of all kinds above */

	/* State of the environment; of a process: zero and NULL. */
	uint64_t
	    durable_txnid; /* newest transaction that this environment made durable, 0: none yet */
	int failed;	   /* errno of the sync that ended the environment, or 0 */
	enum pgw_sync_strategy strategy;
	const char *strategy_reason; /* static, one line */
	const char *fs;		     /* "ext4", ...; static */
};

/* Copy the counters of an open environment. Each is read atomically, not all at one instant.
 * 0; -EINVAL, with *out untouched, if env is NULL, not open, or was not opened through this
 * library. Any thread, also while others write; not during mdb_env_close of the same environment.
 */
int pgw_env_stats(MDB_env *env, struct pgw_env_stats *out);

/* The sum over all environments of this process, open or closed. Any thread. */
void pgw_store_stats(struct pgw_env_stats *out);

/* "first", "other-writer", ...; NULL for a value that is none. Static storage. */
const char *pgw_full_sync_name(enum pgw_full_sync reason);

#ifdef __cplusplus
}
#endif
#endif
