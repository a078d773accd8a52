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
 * - The first durable commit or sync after opening also syncs the directory.
 * - A failed sync is final: the commit (or mdb_env_sync) returns the error, and from then on write
 *   transactions of the environment fail with MDB_PANIC and mdb_env_sync with the same error. A
 *   later sync could succeed although the kernel has dropped the data. Reading, and so
 *   mdb_env_copy, still works unless it was a meta page that failed (LMDB then turns down readers,
 *   too). What commits that sync had acknowledged is durable, and the environment can be opened
 *   again once the cause is gone. Not so if transactions were outstanding that had not been synced
 *   (MDB_NOSYNC): they may be lost for good, however intact they look; copy the environment then.
 * - A full disk is ENOSPC, from the commit (liblmdb: EIO) or with MDB_WRITEMAP from the call that
 *   needs the page (liblmdb: SIGBUS), and the environment stays usable: abort the transaction, as
 *   after any error. With MDB_WRITEMAP space is asked for before LMDB stores into it, up to 64 MiB
 *   ahead, and some is kept so that deleting works on a full disk. Not on file systems that copy
 *   on write (btrfs, ZFS): there SIGBUS is still possible with MDB_WRITEMAP (btrfs on Linux 6.18: not
 *   in a directory with chattr +C). Without it a meta page that finds no block ends an environment on
 *   ZFS, to be opened again when there is space; on btrfs room for it is reserved while the
 *   transaction can still be given up (in relaxed a checkpoint may find none for its record, and then it
 *   is as on ZFS). Opening returns ENOSPC where the lock file finds no room.
 * - A program that closes LMDB's descriptors (closefrom) and opens other files by their numbers gets
 *   EBADF, and MDB_PANIC from then on; liblmdb would write into those files. It is looked for when a
 *   write transaction begins and when it is committed, and before a checkpoint.
 *
 * - mdb_env_set_mapsize of an open environment does not end readers of the process: they keep the map
 *   that they are in. A write transaction of another thread is still an error of the caller's. And a
 *   smaller writable map cuts the file only where nobody else can have it open.
 *
 * Beyond that, an environment can be given another durability than LMDB's: see enum pgw_durability.
 *
 * The environment variable PAGEWISE_SYNC forces how ranges are synced; PAGEWISE_STORE sets the
 * durability of environments that are opened with mdb_env_open; PAGEWISE_STATS reports at exit what
 * was done.
 *
 * Results. mdb_* functions return what LMDB returns: 0, a positive errno, one of LMDB's negative
 * codes, or one of the codes PGW_* below, which mdb_strerror and pgw_strerror know. pgw_* functions
 * that take an MDB_env or a path do the same, unless they say otherwise.
 */
#ifndef PAGEWISE_STORE_H
#define PAGEWISE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
	PGW_FULL_ASKED,	       /* mdb_env_sync, and the start and end of group and relaxed */
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

	/* Durability group and relaxed. */
	uint64_t checkpoints;	     /* snapshots that were made durable */
	uint64_t checkpoint_commits; /* transactions in them: divided by checkpoints, the group */
	uint64_t live_ranges, live_bytes; /* what had to be written for them: see docs/design.md */
	uint64_t two_barrier_checkpoints; /* whose ranges did not fit a record */

	/* MDB_WRITEMAP: disk space that was asked for before LMDB stored into it (fallocate), in
	 * how many calls. Space that was there already counts as well. */
	uint64_t allocate_calls, allocated_bytes;

	uint64_t updates, update_batches; /* of pgw_update: closures, and batches of them */

	uint64_t warmed_bytes; /* mapped or read ahead by pgw_env_warm */
	uint64_t
	    retired_bytes; /* relaxed: free pages dropped from a page cache that was too small */
	uint64_t dead_readers; /* slots of processes that had ended, given back to LMDB */

	/* State of the environment; of a process: zero and NULL. */
	uint64_t
	    durable_txnid; /* newest transaction that this environment made durable, 0: none yet */
	int failed;	   /* errno of the sync that ended the environment, or 0 */
	enum pgw_sync_strategy strategy;
	const char *strategy_reason; /* static, one line */
	const char *fs;		     /* "ext4", ...; static */
};

/* Copy the counters of an open environment. Each is read atomically, not all at one instant.
 * 0; EINVAL, with *out untouched, if env is NULL, not open, or was not opened through this library. Any thread, also while others write; not during mdb_env_close of the same environment.
 */
int pgw_env_stats(MDB_env *env, struct pgw_env_stats *out);

/* The sum over all environments of this process, open or closed. Any thread. */
void pgw_store_stats(struct pgw_env_stats *out);

struct pgw_warm {
	uint64_t used_bytes;   /* of the data file, in use by LMDB */
	uint64_t cached_bytes; /* found in the page cache, as far as was looked */
	uint64_t mapped_bytes; /* of those, mapped */
	uint64_t read_bytes;   /* not in the cache, and read ahead */
};

#define PGW_WARM_READ 1u /* read ahead what is not in the page cache */

/* Map what the page cache has of the data file, in bulk: each such page is a page fault less for who
 * reads it. At most max_bytes are mapped and read, from the start of the file on. out: NULL, or
 * filled in, on failure too. It takes as long as it takes: call it in a thread of its own if need be;
 * the environment must not be resized or closed meanwhile.
 * 0; EINVAL; ENOMEM; EOPNOTSUPP (Linux before 5.14); EFAULT (a page could not be read). */
int pgw_env_warm(MDB_env *env, uint64_t max_bytes, unsigned flags, struct pgw_warm *out);

/* Readers that keep an old snapshot: LMDB recycles no page that is in it, and the file grows. */
struct pgw_readers {
	unsigned readers; /* in a transaction, of all processes; the library's own left out */
	pid_t oldest_pid;
	uint64_t oldest_txnid; /* its snapshot */
	uint64_t newest_txnid;
	uint64_t age;	     /* transactions that were committed since */
	uint64_t held_pages; /* that could be recycled if there were no reader */
};

/* Look at the table of readers, after giving back the slots of processes that have ended. Reads the free
 * list as far as the oldest reader holds it. Every 256th write transaction looks for ended processes
 * by itself. Any thread, also within a transaction.
 * 0, or with *out untouched: EINVAL; MDB_READERS_FULL (it needs a slot itself); an error of LMDB. */
int pgw_env_readers(MDB_env *env, struct pgw_readers *out);

/* "first", "other-writer", ...; NULL for a value that is none. Static storage. */
const char *pgw_full_sync_name(enum pgw_full_sync reason);

/* How durable a committed write transaction is when mdb_txn_commit returns.
 *
 * group and relaxed: LMDB writes its pages and makes no barrier. The library keeps the newest durable
 * snapshot from being recycled, and moves on to a newer one by one barrier over exactly the pages
 * that are needed, together with a record in the meta pages that proves them. Readers see a
 * transaction when it is committed, which is before it is durable.
 *
 * While an environment is attached (from the first write transaction, or from pgw_env_open or
 * pgw_env_attach, to mdb_env_close) its file is fenced: plain LMDB refuses to open it with
 * MDB_VERSION_MISMATCH, and one process writes. Processes that use this library may open and read it.
 * mdb_env_close makes it a plain LMDB file again. After a crash it stays fenced; the next mdb_env_open
 * through this library, or pgw_env_recover, brings it back to the newest durable snapshot (or to the
 * newest of all, if only the process died). mdb_env_copy gives plain files at any time; a raw copy of
 * the file of an attached environment is refused with PGW_COPIED.
 *
 * What attaching needs: a data file and a lock file (no MDB_RDONLY, no MDB_NOLOCK) that no other
 * process has open at that moment; pages of 4 to 64 KiB; three slots in the table of readers, which
 * is made larger by these where it is known in time (pgw_env_open, PAGEWISE_STORE). A process that
 * has the file open with MDB_NOLOCK is not seen: keeping it out is up to who chose that flag.
 *
 * What a program that misuses LMDB gets: a second write transaction in a thread that has one,
 * EDEADLK; after a thread has ended with a write transaction open, MDB_PANIC from the next one, as
 * LMDB has it, and the file stays fenced when it is closed. mdb_env_close aborts a write transaction
 * of its own thread; one of another thread leaves the file fenced, for the next open to bring back.
 * So does an exit(3) from a signal handler that has interrupted a commit. A child that goes on after
 * fork(2) with an environment of its parent does not write beside it: it gets PGW_BUSY from mdb_txn_begin,
 * from mdb_env_sync of what is not durable, and in every durability from the commit of a transaction that
 * was running. When the parent has closed the environment, or ended, as where a program becomes a daemon,
 * the child's transactions are as durable as LMDB makes them; it cannot attach. */
enum pgw_durability {
	/* Durable, in LMDB's own order: pages, barrier, meta page, barrier. */
	PGW_DURABILITY_STRICT,
	/* Durable, by one barrier, which commits of other threads share. A transaction that is
	 * committed while the environment has MDB_NOSYNC, or MDB_MAPASYNC and a writable map, is as in
	 * relaxed. */
	PGW_DURABILITY_GROUP,
	/* Not durable yet; within checkpoint_ms, or checkpoint_bytes of live pages, it will be. After
	 * a power cut the environment is exactly as some committed transaction left it, not older
	 * than that bound, and never corrupt. */
	PGW_DURABILITY_RELAXED
};

/* "strict", ...; NULL for a value that is none. Static storage. */
const char *pgw_durability_name(enum pgw_durability d);

struct pgw_env_options {
	size_t size; /* of this struct; set by pgw_env_options_init */
	enum pgw_durability durability;
	/* With strict: serve MDB_NOSYNC, and in a writable map MDB_MAPASYNC, as relaxed. Transactions
	 * without these flags then wait for their barrier, as in group. */
	bool nosync_relaxed;
	unsigned checkpoint_ms;	   /* 1 to a day; default 100 */
	uint64_t checkpoint_bytes; /* 4096 to 2^50; default 16 MiB */

	/* For pgw_env_open. */
	unsigned flags; /* of mdb_env_open */
	mode_t mode;	/* of the files; default 0664 */
	/* Bytes of address space to reserve, which is the most that the environment can hold. 0: 1
	 * TiB, or the largest power of two below it that fits; where the process is limited
	 * (RLIMIT_AS), half of that. It costs nothing before it is used. With MDB_WRITEMAP the file
	 * is as long, and sparse. LMDB notes the size in the file, and it becomes the choice of
	 * processes that make none. */
	size_t map_size;
	unsigned max_dbs;     /* 0: only the unnamed one */
	unsigned max_readers; /* 0: LMDB's 126 */

	uint64_t warm_bytes; /* when it is open: pgw_env_warm with this bound; 0: not */
};

/* Set *o to the defaults: strict. */
void pgw_env_options_init(struct pgw_env_options *o);

/* mdb_env_create, its settings, mdb_env_open, and pgw_env_attach unless durability is strict.
 * options: NULL for the defaults. *out is closed with mdb_env_close, and untouched on failure. */
int pgw_env_open(const char *path, const struct pgw_env_options *options, MDB_env **out);

/* Set the durability of an open environment, and attach it if that is needed. No transaction may be
 * running in the process, and none may start before it returns. It can be done once.
 * 0; EINVAL (not open through this library, attached already, or options that make no sense); EBUSY
 * (a write transaction is running); PGW_BUSY; PGW_NOT_POSSIBLE (read-only, MDB_NOLOCK, opened
 * before a fork, or pages below 4 or above 64 KiB); ENOMEM; MDB_READERS_FULL; or the error of a sync. */
int pgw_env_attach(MDB_env *env, const struct pgw_env_options *options);

/* mdb_txn_commit that does not wait: *ticket, a transaction id, can be waited for. With strict the
 * transaction is durable at once. In group and relaxed it will be durable within checkpoint_ms,
 * waited for or not. txn: of the outermost level; EINVAL for a nested or read-only one, which lives on.
 * ticket may be NULL. */
int pgw_txn_commit_async(MDB_txn *txn, uint64_t *ticket);

/* Wait until a transaction is durable, and all before it. timeout_ms: negative for no limit; it can
 * be overrun by one barrier. 0; ETIMEDOUT; EINVAL (no such transaction has been committed); PGW_BUSY
 * (another process has to make it durable); or the errno of the sync that ended the environment. Any thread, also within a transaction. */
int pgw_env_wait(MDB_env *env, uint64_t ticket, int timeout_ms);

/* Make everything durable that is committed, and wait for it. Makes no barrier if all is. With strict
 * that is mdb_env_sync(env, 1). */
int pgw_env_checkpoint(MDB_env *env);

/* The newest transaction known to be durable, in *txnid. 0 or EINVAL. */
int pgw_env_durable_txnid(MDB_env *env, uint64_t *txnid);

/* A change to the environment: 0, and it is to be committed; or a result of the caller's own, and it is to
 * leave no trace. txn: of the innermost level; fn neither commits nor aborts it, and begins no other
 * write transaction. It must return: no longjmp, exception or pthread_exit. */
typedef int pgw_update_fn(MDB_txn *txn, void *arg);

/* Run fn in a write transaction, once, and return its result, or the commit's; as durable then as after
 * mdb_txn_commit. Closures of several threads, up to 128, share one transaction and its barriers; each
 * has a nested transaction in it, so that one that fails takes nothing with it. If the commit of all
 * fails, all get its error. fn may run in another thread that is in pgw_update too: it must not use
 * thread-local state, or locks that its own thread holds.
 *
 * With MDB_WRITEMAP LMDB has no nested transactions. Each closure has one of its own then, and in group
 * durability they share a barrier. mdb_drop within fn returns PGW_NOT_POSSIBLE.
 *
 * EINVAL (env is not open through this library); EDEADLK (called by a closure); ENOMEM; what
 * mdb_txn_begin and mdb_txn_commit return. Any thread that is in no write transaction itself. */
int pgw_update(MDB_env *env, pgw_update_fn *fn, void *arg);

/* Codes of this library, beside errno and LMDB's. */
#define PGW_BUSY	 (-30700) /* another process writes the environment, or has it open */
#define PGW_FENCED	 (-30701) /* a fenced file, and no locks to find out whether it is in use */
#define PGW_COPIED	 (-30702) /* a raw copy of a fenced file */
#define PGW_UNPROVEN	 (-30703) /* a fenced file none of whose records proves a snapshot */
#define PGW_NOT_POSSIBLE (-30704) /* see pgw_env_attach and pgw_update */

/* The text for any result of this library. Static storage, or strerror's. */
const char *pgw_strerror(int code);

enum pgw_record_state {
	PGW_RECORD_NONE,
	PGW_RECORD_TORN,	    /* being written when the power went, or damaged */
	PGW_RECORD_UNKNOWN,	    /* of another version of this library */
	PGW_RECORD_OF_ANOTHER_FILE, /* came along in a raw copy */
	PGW_RECORD_WHOLE,	    /* not needed, so not proven */
	PGW_RECORD_UNPROVEN,	    /* its pages did not all reach the disk */
	PGW_RECORD_PROVEN
};

/* "none", ...; NULL for a value that is none. Static storage. */
const char *pgw_record_state_name(enum pgw_record_state s);

enum pgw_recover_action {
	PGW_RECOVER_NOTHING,  /* not fenced */
	PGW_RECOVER_IN_USE,   /* fenced, and other processes have it open: nothing to recover */
	PGW_RECOVER_KEPT,     /* the newest snapshot: nothing was lost */
	PGW_RECOVER_RESTORED, /* the snapshot of a record */
	PGW_RECOVER_REFUSED   /* nothing could be proven; reason says why */
};

/* "nothing", ...; NULL for a value that is none. Static storage. */
const char *pgw_recover_action_name(enum pgw_recover_action a);

struct pgw_record_report {
	enum pgw_record_state state;
	uint64_t seq;
	uint64_t txnid;
	uint64_t wall_ns; /* when that snapshot was committed, since 1970 */
};

struct pgw_recover_report {
	int fenced;	/* the file was not closed, or is in use */
	int failed;	/* because a sync had failed */
	int same_cache; /* the page cache is proven to have lived on */
	struct pgw_record_report record[2];
	uint64_t newest_txnid; /* in the meta pages: the newest that is known of */
	enum pgw_recover_action action;
	uint64_t txnid;	      /* kept or restored */
	uint64_t wall_ns;     /* when it was committed, since 1970; 0: not known */
	uint64_t lost_txnids; /* newest_txnid - txnid: at least so many are lost */
	const char *reason;   /* static, or NULL */
};

#define PGW_RECOVER_CHECK    1u /* say what would be done, and change nothing in the data file */
#define PGW_RECOVER_NOSUBDIR 2u /* path is the data file, as with MDB_NOSUBDIR */
/* Believe records that belong to another file (else PGW_COPIED): the caller knows that this one was moved or
 * copied while no process had the original open, also after a crash. A copy made while one wrote may be
 * damaged beyond what the records show. */
#define PGW_RECOVER_COPY 4u

/* Do what the next mdb_env_open would do with a file that was not closed. It needs the environment
 * for itself; one that is in use, or needs nothing, is left alone. It can be interrupted at any point
 * and repeated. report: NULL, or filled in, on failure too.
 * 0; ENOENT; MDB_INVALID (no file of LMDB's); PGW_BUSY, PGW_COPIED, PGW_UNPROVEN, an errno: nothing
 * was restored. */
int pgw_env_recover(const char *path, unsigned flags, struct pgw_recover_report *report);

#ifdef __cplusplus
}
#endif
#endif
