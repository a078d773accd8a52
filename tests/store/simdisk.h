/* SPDX-License-Identifier: BSD-2-Clause
 *
 * simdisk.h - a file whose durable state is known: the sync calls of pgw__sys, simulated.
 *
 * The file itself is real (put it on a tmpfs) and plays the page cache. The disk is an image in
 * memory. A page moves from the file to the drive's cache when a call has waited for its write-out,
 * and from there to the image by a barrier; both as the kernel promises it and not one page more:
 *
 *   sync_file_range(WRITE)                 nothing
 *   sync_file_range(... WAIT_AFTER)        range to the drive's cache
 *   msync(MS_SYNC)                         range to the cache, barrier
 *   fdatasync                              file to the cache, barrier
 *   pwritev on an O_DSYNC descriptor       write, range to the cache, barrier
 *
 * What the kernel may do besides is up to whoever builds a crash image: it may have written any
 * dirty page, or sectors of it, at any time.
 *
 * When a sync fails, the kernel takes the pages it could not write for clean: later syncs succeed
 * and leave them out, until they are written again.
 */
#ifndef PGW_TESTS_SIMDISK_H
#define PGW_TESTS_SIMDISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "workload.h"

/* Bugs to plant, to see that the judge finds them. */
enum sim_plant {
	SIM_SOUND,
	SIM_LOSE_A_PAGE, /* now and then the last page of a range is not synced */
	SIM_LOSE_META,	 /* meta pages are synced only alone: not among the ranges of a commit */
	SIM_LOSE_FULL,	 /* fdatasync does nothing */
};

enum sim_image {
	SIM_NOTHING_MORE, /* only what was promised */
	SIM_ANYTHING,	  /* a random half of the other dirty pages, and of their sectors */
	SIM_ALL,	  /* everything: the process was killed, the power stayed on */
};

struct sim_counts {
	uint64_t calls; /* of those that can be made to fail */
	uint64_t barriers, directory_syncs;
};

struct sim {
	struct sim_counts count;
	enum sim_plant plant;

	/* The n-th call fails (1: the next one), 0: none. A write is cut in half first if
	 * short_write. */
	uint64_t fail_at;
	int fail_with; /* -errno */
	bool fired;
	bool short_write;

	/* Called before a barrier takes effect; the file is in the middle of a commit. */
	void (*at_barrier)(void *arg);
	void *arg;

	struct rng rng;
};

extern struct sim sim;

/* Replace the calls in pgw__sys. path is the file whose fate matters, it may not exist yet; calls
 * on others pass through. max: bytes it can grow to. */
void sim_start(const char *path, size_t max, uint64_t seed);
void sim_stop(void);

/* Write the state after a crash to the file at path. */
void sim_write_image(const char *path, enum sim_image kind);

/* The machine boots: the file becomes what is in the image at path, and all of it is durable. */
void sim_reboot(const char *image);

#endif
