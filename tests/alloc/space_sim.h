/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space_sim.h - free space without jemalloc, for space.c and flight.c: real memory, and system calls
 * that can be made to fail.
 */
#ifndef PGW_TEST_SPACE_SIM_H
#define PGW_TEST_SPACE_SIM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options.h"
#include "purge.h"
#include "space.h"

#define PAGE ((size_t)4096)
#define MIB  ((size_t)1 << 20)

/* How system calls fail; and how many there were. */
struct sim {
	int madvise_err;    /* every DONTNEED gives this, if it is not 0 */
	uint64_t bad_start; /* only if the range covers this, if it is not 0 */
	size_t map_limit;   /* mapping more than this in one call gives ENOMEM, if it is not 0 */
	size_t space_limit; /* as RLIMIT_AS: mapped bytes, if it is not 0 */
	size_t mapped;
	int unmap_err;
	int maps, unmaps;
};

extern struct sim sim;

/* Of every test: nothing is free, and nothing fails. */
int set_up(void **state);

struct pgw_alloc_stats stats(void);

bool reads_zero(const unsigned char *p, size_t n);

/* From pgw__space_alloc; *zero is what that says, and has been checked. NULL: there is none. */
unsigned char *get(size_t size, size_t align, bool want_zero, bool *zero);

/* A dirty range of our own. */
unsigned char *dirty(size_t size);

struct pgw__space_view give(void *p, size_t size);

/* All that is pending. */
void purge(void);

#endif
