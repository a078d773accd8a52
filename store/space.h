/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.h - room on the disk for what a transaction stores through a writable map.
 *
 * A store into a page of a map for which the disk has no block is SIGBUS. So with MDB_WRITEMAP the
 * blocks are asked for before LMDB comes to them, and LMDB is kept from taking pages that have none.
 *
 * Everything here is the writer's: LMDB's writer lock is held. Without MDB_WRITEMAP none of it is
 * used: LMDB writes with pwrite, and a full disk is that call's result.
 */
#ifndef PGW_STORE_SPACE_H
#define PGW_STORE_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lmdb.h>

struct pgw__env;

/* How blocks are made sure of. */
enum pgw__space_way {
	PGW__SPACE_ALLOCATE, /* fallocate */
	PGW__SPACE_POPULATE, /* the file system cannot: fault the pages in, writable */
	PGW__SPACE_TRUST     /* not possible: a full disk is SIGBUS, and that has been noted */
};

struct pgw__space {
	enum pgw__space_way way;
	_Atomic uint64_t *limit; /* LMDB's: it takes no page at or behind this one */
	uint64_t end;		 /* pages before it can be in use; the transaction's included */
	uint64_t have;		 /* pages before it have blocks */
	uint64_t run;		 /* pages of the longest run that the present call can take */
	int why; /* errno: there is no more, and the transaction does not ask again */
};

/* What a call of LMDB is for. The later ones find room where the earlier ones do not, so that a full
 * environment can be emptied. */
enum pgw__space_for { PGW__SPACE_TO_TAKE, PGW__SPACE_TO_FREE, PGW__SPACE_TO_COMMIT };

/* The environment was opened, or its map has moved. */
void pgw__space_reset(struct pgw__env *e);

/* A write transaction begins; pages before end are in use. */
void pgw__space_begin(struct pgw__env *e, uint64_t end);

/* Before a call of LMDB that takes a run of up to `run` pages, and up to `more` single ones beside
 * those that any call may take. Where there is less, LMDB finds out. 0; or an errno: not even the
 * pages in use have blocks, and LMDB must not be called. */
int pgw__space_prepare(struct pgw__env *e, enum pgw__space_for what, uint64_t run, uint64_t more);

/* After it: LMDB's result, or ENOSPC (EDQUOT, ...) if it was the disk that LMDB took for the end of the
 * map. */
int pgw__space_result(struct pgw__env *e, int rc);

/* LMDB takes no more pages for this transaction, and still has its writer lock. */
void pgw__space_end(struct pgw__env *e);

/* A commit has ended with rc. After one that found the disk full, transactions of group and relaxed make
 * a checkpoint before they begin, for some time: what was freed before can be taken then. Any thread. */
void pgw__space_committed(struct pgw__env *e, int rc);

/* LMDB has taken this page, or the run of pages that starts with it. */
static inline void pgw__space_note(struct pgw__space *s, uint64_t pgno)
{
	if (pgno + s->run > s->end)
		s->end = pgno + s->run;
}

/* A commit found the disk full, and LMDB still has its writer lock. What it had written behind the last
 * page in use stays in the file; elsewhere smaller transactions find room in it, but where writing
 * takes new blocks it only takes up the disk. */
void pgw__space_give_back(struct pgw__env *e, MDB_env *lmdb);

/* Room for meta pages that are about to be written, where a page that has a block needs another one for that. LMDB
 * does not survive a meta page that finds none; so it is asked for while the transaction can still be given
 * up. It is kept until the page has been written out, so it must be asked for behind the last barrier. which: a
 * mask of pages 0 and 1. 0 or -errno. Without MDB_WRITEMAP only. */
int pgw__space_for_meta(struct pgw__env *e, unsigned which);

/* LMDB's lock file, before it has a size: it is stored into through a map as well. */
void pgw__space_lock_file(int fd);

#endif
