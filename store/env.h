/* SPDX-License-Identifier: BSD-2-Clause
 *
 * env.h - what this library knows of each open LMDB environment, and how it is found.
 *
 * LMDB's handle has no room for us, so there is a list beside it. Three things lead to an entry:
 * the handle (front.c), the descriptor of the data file and an address in its map (seam.c).
 *
 * Entries are type-stable: they are used again but never freed, and the list only grows, to as many
 * as were ever open at once. So it is read without a lock, in any thread, and after fork. What is
 * found is checked by comparing the key: descriptors and maps of open environments are disjoint, so
 * an entry that matches is the right one, however the caller came by the pointer; and LMDB's rule
 * that nobody uses an environment while it is opened, closed or resized keeps it right.
 */
#ifndef PGW_STORE_ENV_H
#define PGW_STORE_ENV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <pagewise/store.h>

#include "dirty.h"
#include "space.h"

/* Counters of one environment; env.c keeps a second set for those that are closed. */
struct pgw__env_counters {
	_Atomic uint64_t commits, dirty_ranges, dirty_bytes, synced_bytes, failed_syncs;
	_Atomic uint64_t full_syncs[PGW_FULL_SYNC_COUNT];
	_Atomic uint64_t sync_file_range_calls, sync_file_range_bytes, msync_calls, msync_bytes;
	_Atomic uint64_t fdatasync_calls, directory_syncs, osync_writes, osync_bytes, barriers;
	_Atomic uint64_t checkpoints, checkpoint_commits, live_ranges, live_bytes;
	_Atomic uint64_t two_barrier_checkpoints;
	_Atomic uint64_t allocate_calls, allocated_bytes;
	_Atomic uint64_t updates, update_batches;
	_Atomic uint64_t dead_readers, warmed_bytes, retired_bytes;
};

struct pgw__checkpointer;
struct pgw__left_map;
struct pgw__queue;

struct pgw__env {
	struct pgw__env *next; /* constant once published */
	_Atomic bool used;

	/* Keys. NULL or -1: none. The map is a pair of words that must be read together: map_seq is
	 * odd while they change. */
	_Atomic(MDB_env *) lmdb;
	_Atomic int fd;
	_Atomic unsigned map_seq;
	_Atomic uintptr_t map_start, map_end;
	_Atomic uint64_t dev, ino; /* of the data file, while fd is not -1; 0: not known */

	/* Constant while open. */
	bool writemap;
	uint32_t psize;	     /* of LMDB, bytes */
	int lock_fd;	     /* of LMDB's lock file, or -1 */
	unsigned pin_slots;  /* of its table, which the program has not asked for */
	unsigned open_flags; /* given to mdb_env_open */

	/* Durability other than LMDB's (gate.c). options is set before there is a transaction. */
	struct pgw_env_options options;
	pthread_mutex_t gate; /* one write transaction, attached */
	bool gated;	      /* the writer holds the gate */
	bool gate_lost;	      /* another thread had it when the environment was closed */
	bool attach_failed;   /* not tried again; under the gate */
	bool inherited;	      /* in a child after fork: it was the parent that opened it */
	_Atomic(struct pgw__checkpointer *) checkpointer; /* NULL: not attached */
	_Atomic(struct pgw__queue *) updates;		  /* of pgw_update, once it was used */

	struct pgw__left_map *left; /* maps that were moved away from (map.c) */

	/* In a child after fork: was running in the parent, and is not the child's to commit (attach.c). */
	_Atomic(MDB_txn *) parents_txn;

	/* What it was attached by: the parent's, or given up in exit. Not to be looked into. */
	struct pgw__checkpointer *given_up;

	/* Whose handle is the write transaction's: LMDB uses one object for all of an environment.
	 */
	_Atomic(MDB_txn *) writer;
	_Atomic bool writing; /* it is running */

	/* Owned by the writer: LMDB's writer lock is held (commit.c). */
	struct pgw__dirty dirty;
	struct pgw_ranges scratch;
	struct pgw__space space; /* with MDB_WRITEMAP */
	off_t pos;		 /* of the next writev */
	uint64_t base;		 /* I1 in commit.c */
	uint64_t nosync;   /* last transaction that was committed without a sync, for the reason */
	bool spilled;	   /* pages were written before the commit */
	bool dirty_synced; /* dirty is of a transaction that was made durable */
	bool strays;	   /* pages of one that was not may be dirty still */
	bool trusted;	   /* base is known */
	bool meta_pending; /* the meta page of base may not be durable */
	enum pgw_full_sync distrust; /* why not trusted */
	int meta_fd;		     /* LMDB's O_DSYNC descriptor once seen, else -1 */

	/* One sync at a time through fd: the kernel tells an error of write-out to one caller only.
	 */
	pthread_mutex_t sync_lock;
	struct pgw_sync_file file;
	dev_t dir_dev; /* the directory to sync with the first durable commit */
	ino_t dir_ino;
	int dir_fd; /* its descriptor, or -1: it needs no sync */

	_Atomic int failed;		 /* -errno of a failed sync; never cleared */
	_Atomic unsigned begun;		 /* write transactions, for what is not done for each */
	_Atomic unsigned short_of_space; /* the disk was full, for so many commits (space.h) */
	_Atomic uint64_t durable_txnid;

	struct pgw__env_counters count;
};

#define PGW__ENV_COUNT(env, field, n) \
	atomic_fetch_add_explicit(&(env)->count.field, (uint64_t)(n), memory_order_relaxed)

/* What LMDB is being asked to do by the thread, for the functions of the seam below it. */
enum pgw__op {
	PGW__OP_OPEN,
	PGW__OP_RESIZE,
	PGW__OP_COMMIT,
	PGW__OP_SYNC,
	PGW__OP_COPY,
	PGW__OP_CLOSE
};

struct pgw__call {
	enum pgw__op op;
	struct pgw__env *env;
	MDB_env *lmdb;
	uint64_t txnid;	  /* COMMIT */
	bool data_synced; /* COMMIT: the first of its two barriers is done */
	bool synced;	  /* SYNC: the whole file is durable */
	bool wrote;	  /* COMMIT: a data page was written */
	bool disk_full;	  /* COMMIT: or could not be */
	void *old_map;	  /* RESIZE: what LMDB has given up, and is still there */
	size_t old_len;
	int lock_fd;	  /* OPEN: LMDB's lock file once seen, else -1 */
	const char *path; /* OPEN: of mdb_env_open, and its flags */
	unsigned open_flags;
	bool exclusive;				   /* OPEN: nobody else has it, as yet */
	unsigned recover_flags;			   /* OPEN */
	struct pgw_recover_report *recover_report; /* OPEN: filled in */
};

/* The innermost call of the thread, or NULL. */
extern __thread struct pgw__call *pgw__call;

/* An unused entry with no key but the handle, or NULL (out of memory). */
struct pgw__env *pgw__env_claim(MDB_env *lmdb);

/* Complete the entry of an environment that LMDB has opened. flags: of mdb_env_open. Cannot fail:
 * where the file cannot be examined, it is synced whole. */
void pgw__env_opened(struct pgw__env *e, unsigned flags);

/* Make the entry unfindable; before LMDB lets go of the descriptor and the handle. */
void pgw__env_detach(struct pgw__env *e);

/* Give the entry back. Its counters go to the process's sum. */
void pgw__env_release(struct pgw__env *e);

/* Any thread; NULL if there is none. */
struct pgw__env *pgw__env_by_lmdb(const MDB_env *lmdb);
struct pgw__env *pgw__env_by_fd(int fd);
struct pgw__env *pgw__env_by_address(const void *p);

/* Another open entry that has this file, or NULL. except: NULL, or one that does not count. In a child
 * after fork, those of the parent are found too. */
struct pgw__env *pgw__env_by_file(const struct pgw__env *except, dev_t dev, ino_t ino);

/* Device, inode and size of an open file; nothing else of *st is set. For each commit: fstat also asks for
 * times, and since Linux 6.13 the write after that is given one of its own, and dirties the inode.
 * 0 or -errno. */
int pgw__env_examine(int fd, struct stat *st);

/* Is the descriptor, which LMDB keeps, still of the data file? A program that closes what it does not know
 * (closefrom, daemon) and opens something else gets the same number for that, and we must not write there.
 * 0, or -EBADF. */
int pgw__env_check_fd(const struct pgw__env *e, int fd);
int pgw__env_check_file(const struct pgw__env *e); /* its descriptor of the data file */

/* Is there a directory to be synced, and does its descriptor lead to it still? */
bool pgw__env_has_directory(const struct pgw__env *e);

/* It was synced, or is given up. */
void pgw__env_forget_directory(struct pgw__env *e);

/* The name of the data file of the environment at path, to be freed; or NULL. flags: of mdb_env_open. */
char *pgw__env_data_name(const char *path, unsigned flags);

/* Examine the data file of the environment at path. flags: of mdb_env_open. 0 or errno. */
int pgw__env_stat(const char *path, unsigned flags, struct stat *st);

/* The map is [start, start + len), or there is none (NULL). Only in open and resize. */
void pgw__env_set_map(struct pgw__env *e, const void *start, size_t len);

/* Was any environment ever opened? */
bool pgw__env_any(void);

/* Call fn for each entry that is open. */
void pgw__env_each(void (*fn)(struct pgw__env *e));

/* Start counting anew; in a child after fork. */
void pgw__env_reset_counters(void);

/* Add up all entries and what was closed. */
void pgw__env_total(struct pgw_env_stats *out);

/* Add the counters to *out. */
void pgw__env_counters_read(const struct pgw__env_counters *c, struct pgw_env_stats *out);

#endif
