/* SPDX-License-Identifier: BSD-2-Clause
 *
 * crash.h - random histories on a simulated disk, and the judge of what a power cut leaves.
 */
#ifndef PGW_TESTS_CRASH_H
#define PGW_TESTS_CRASH_H

#include "simdisk.h"
#include "workload.h"

struct history {
	uint64_t seed;
	unsigned transactions;
	bool writemap;
	unsigned flags; /* of LMDB, to begin with */
	enum sim_plant plant;
	uint64_t fail_at; /* a call of the store that fails, see simdisk.h; 0: none */
	int fail_with;
	bool short_write;
	bool blind_trust; /* plant: the store believes that all before a commit is durable */
};

struct verdict {
	unsigned images, violations;
	unsigned commits, foreign, reboots;
	bool fired;		   /* the call of fail_at was made */
	unsigned ended, continued; /* failures that ended the environment, and that did not */
	char first[512];	   /* the first violation */
};

/* Run one history in dir (a tmpfs, if there is one). Images are opened by the system's own liblmdb.
 * 0, or an error that stopped it, with why in v->first. */
int history_run(
    const struct history *h, const char *dir, const struct lmdb_api *stock, struct verdict *v);

#endif
