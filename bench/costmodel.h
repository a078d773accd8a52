/* SPDX-License-Identifier: BSD-2-Clause
 *
 * costmodel.h - two kernels that are not Linux, by what their calls look at, behind shim/sys.h.
 *
 * OpenBSD: msync costs what it covers. As it was, uvn_flush looks up every page of the extent in the
 * object's tree, twice, resident or not; changed, it walks the resident ones (C. Jeker, "improve UVM
 * performance on unmap", tech@openbsd.org, 27 March 2026, describes both). There is no barrier.
 *
 * FreeBSD: madvise costs locks. As it was, DONTNEED and FREE took the pmap's lock and walked its
 * tables once for each resident page; with pmap_advise, once for each call (A. Cox, the commit to
 * FreeBSD's sys/ that introduces pmap_advise, 2013).
 *
 * Neither has process_madvise or sync_file_range. The counts come from the calls that the shim
 * really makes; a time is a count times a constant that was fitted to a published figure.
 */
#ifndef PGW_BENCH_COSTMODEL_H
#define PGW_BENCH_COSTMODEL_H

#include <stdint.h>

#include <pagewise/advise.h>
#include <pagewise/range.h>
#include <pagewise/sync.h>

#define COSTMODEL_PAGE 4096u

/* Published: msync over a 32 GiB map on OpenBSD, as it was and changed; ms. docs/design.md has the
 * first pair. The second is published beside it, for what is taken here to be the same call. */
#define COSTMODEL_PUBLISHED_PAGES  (UINT64_C(32) << 30 >> 12)
#define COSTMODEL_PUBLISHED_STOCK  749.0
#define COSTMODEL_PUBLISHED_WALK   43.6
#define COSTMODEL_PUBLISHED2_STOCK 757.0 /* not used for the fit */
#define COSTMODEL_PUBLISHED2_WALK  46.9

struct costmodel_sync {
	uint64_t calls;
	uint64_t pages;	  /* covered by the calls */
	uint64_t lookups; /* in the object's tree, as it was: two a page covered */
	uint64_t visited; /* pages, with the resident-page walk */
	uint64_t others;  /* calls of which this kernel has none: should stay 0 */
};

struct costmodel_advise {
	uint64_t calls;
	uint64_t page_locks;  /* as it was: one a page */
	uint64_t range_locks; /* with pmap_advise: one a call */
};

/* What pgw_sync costs on OpenBSD: `dirty` (scratch afterwards) of a map of `extent` pages, with
 * `resident` pages spread evenly over it. 0 or -errno of pgw_sync. */
int costmodel_sync(uint64_t extent, uint64_t resident, struct pgw_ranges *dirty,
    enum pgw_sync_strategy strategy, struct costmodel_sync *out);

/* What pgw_advise costs on FreeBSD for n ranges, all resident. 0 or -errno of pgw_advise. */
int costmodel_advise(const struct pgw_range *v, size_t n, struct costmodel_advise *out);

/* Milliseconds: what the published figure leaves where no page is looked for (writing what is dirty,
 * mostly), plus a constant for each step. An upper bound for the walk. */
double costmodel_stock_ms(const struct costmodel_sync *c);
double costmodel_walk_ms(const struct costmodel_sync *c);
double costmodel_lookup_ns(void); /* the constant, from the first published pair alone */

#endif
