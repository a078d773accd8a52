/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recover.h - open a fenced file whose last writer did not close it.
 */
#ifndef PGW_STORE_RECOVER_H
#define PGW_STORE_RECOVER_H

#include <stdbool.h>

#include <pagewise/store.h>

struct pgw__recovery {
	int fd;	     /* of the data file, LMDB's; need not be writable */
	int lock_fd; /* of LMDB's lock file, or -1: no locks */
	bool
	    no_locks; /* by the program's wish; else it is the file system that may not be written */
	bool exclusive; /* LMDB's lock says that nobody else has the file open */
	unsigned flags; /* PGW_RECOVER_* */
	struct pgw_recover_report *report;
};

/* LMDB is about to read the header of the file. If the file is fenced, do what is needed for LMDB to
 * go on, and fill in *report.
 * 0: nothing to do, or done. A code of this library, or errno: the file must not be opened, and
 * nothing was changed, or what was changed is complete as far as it goes and can be repeated. */
int pgw__recover(struct pgw__recovery *rv);

#endif
