/* SPDX-License-Identifier: BSD-2-Clause
 *
 * prefault.c - see prefault.h.
 */
#include "prefault.h"

#include <stdatomic.h>
#include <stdbool.h>

#include <pagewise/advise.h>
#include <pagewise/alloc.h>
#include <pagewise/probe.h>

#include "options.h"
#include "space.h"
#include "sys.h"

/* What is larger is filled slowly, if at all: its pages are not all wanted now. */
#define BYTES_MAX (UINT64_C(64) << 20)

/* How sure it is that blocks are filled, up to SURE: one more for each that was, MISS less for one that
 * was not. Below ENOUGH nothing is prefaulted, so that in the long run no more than one block in
 * MISS + 1 is without need. */
#define SURE   16
#define ENOUGH 8
#define MISS   4

static atomic_int sure;

static bool counts(struct pgw_range r)
{
	uint64_t least = pgw__option(PGW_ALLOC_PREFAULT);

	return least && r.len >= least && r.len <= BYTES_MAX;
}

static uint64_t part(struct pgw_range r)
{
	return (r.len / 4 * 3) & ~(uint64_t)(pgw_page_size() - 1);
}

void pgw__prefault(struct pgw_range r)
{
	struct pgw_range first = { r.start, part(r) };

	if (!counts(r) || !first.len || atomic_load_explicit(&sure, memory_order_relaxed) < ENOUGH)
		return;
	if (pgw_advise(&first, 1, PGW_POPULATE_WRITE, NULL, NULL))
		return; /* without them it faults, as ever */
	PGW__ALLOC_COUNT(prefaults, 1);
	PGW__ALLOC_COUNT(prefaulted_bytes, first.len);
}

/* Two threads that learn at once may lose one of their steps, which does not matter. */
void pgw__prefault_learn(struct pgw_range r)
{
	unsigned char resident;
	int now;

	if (!counts(r) || pgw__sys.mincore((void *)(r.start + part(r)), pgw_page_size(), &resident))
		return;
	now = atomic_load_explicit(&sure, memory_order_relaxed);
	if (resident & 1)
		now = now < SURE ? now + 1 : SURE;
	else
		now = now > MISS ? now - MISS : 0;
	atomic_store_explicit(&sure, now, memory_order_relaxed);
}
