/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.h - what the store does to one file, recorded from the table of system calls (shim/sys.h).
 *
 * The calls are made on a real file, which is in memory (tmpfs), and a struct disk is told of them:
 * writes as they come; stores through a mapping by comparing the whole file at each call; write-out
 * when sync_file_range has waited, or msync covers it; a flush with msync, fdatasync and an O_DSYNC
 * write. An O_DSYNC write makes only itself durable (a disk with FUA does no more): stricter than
 * most file systems.
 *
 * One recording per process; any thread may make the calls.
 */
#ifndef PGW_TESTS_RECORD_H
#define PGW_TESTS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "disk.h"

/* A bug to plant in the kernel's place: what the store asks for is not done. */
enum plant {
	PLANT_NONE,
	PLANT_NO_DATA_BARRIER, /* the barrier between data and meta page */
	PLANT_NO_META_BARRIER, /* the one after the meta page */
	PLANT_NO_WAIT,	       /* write-out is started, and not waited for */
	PLANT_LOST_RANGE,      /* one of several ranges is left out */
	PLANT_LOST_META,       /* an unsynced meta page is left out of the next commit's ranges */
	PLANT_RECORD_FIRST,    /* a meta page or record overtakes the barrier that it comes after */
	PLANT_COUNT
};

const char *plant_name(enum plant p);

struct record_options {
	const char *path;  /* of the data file */
	uint64_t fs_magic; /* the file system to be taken for */
	bool writemap;	   /* stores through a mapping are expected; else they are a failure */
	enum plant plant;
	/* Called before each barrier takes effect, and with the lock held: as much as can be lost
	 * is not durable then. */
	void (*before_barrier)(void *arg);
	void *arg;
};

struct record_counts {
	uint64_t writes, mapped_pages, write_outs, barriers;
};

/* Replace the table. d holds what is on the disk at the start (an empty one: no file yet). */
void record_start(const struct record_options *o, struct disk *d);

/* Put the real calls back. */
void record_stop(void);

/* What was counted since record_start. */
struct record_counts record_counts(void);

/* Look for stores through the mapping now. */
void record_look(void);

/* The first write that reached the file past the table, without MDB_WRITEMAP; NULL if none. */
const char *record_failure(void);

/* Calls of this thread are to be made by t, and not recorded; NULL: as before. */
struct pgw__sys;
void record_bypass(const struct pgw__sys *t);

/* Hold off all calls while images are made from the disk. Barriers asked for are complete then. */
void record_lock(void);
void record_unlock(void);

#endif
