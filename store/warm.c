/* SPDX-License-Identifier: BSD-2-Clause
 *
 * warm.c - after a restart, map at once what the page cache still has.
 *
 * A process that ended has left its pages in the page cache, and the next one takes a fault for each, or
 * for each few. Which pages are there is asked for in bulk (mincore), and they are mapped by ranges
 * (MADV_POPULATE_READ). So nothing has to be noted when an environment is closed, and a process that
 * was killed leaves as much behind. Pages that are not there are read ahead only if asked for.
 */
#include "warm.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <pagewise/advise.h>

#include "stats.h"
#include "sys.h"

#define PUBLIC __attribute__((visibility("default")))

/* Pages that are asked about in one call: 64 MiB of 4 KiB pages, and 16 KiB of answers. */
#define STEP_PAGES 16384u

struct warming {
	uintptr_t map;
	uint64_t page;
	uint64_t left; /* bytes that may be mapped or read still */
	unsigned flags;
	unsigned char *resident;
	struct pgw_ranges cached, missing;
	struct pgw_warm out;
};

/* Of n pages from off on, those that are in the cache, and those that are not; as many as are allowed. */
static int sort_out(struct warming *w, uint64_t off, uint64_t n)
{
	pgw_ranges_clear(&w->cached);
	pgw_ranges_clear(&w->missing);
	for (uint64_t i = 0; i < n; i++) {
		bool cached = w->resident[i] & 1;
		struct pgw_ranges *set = cached ? &w->cached : &w->missing;

		w->out.cached_bytes += cached ? w->page : 0;
		if (w->left < w->page || (!cached && !(w->flags & PGW_WARM_READ)))
			continue;
		if (pgw_ranges_add(set, w->map + off + i * w->page, w->page))
			return -ENOMEM;
		w->left -= w->page;
	}
	return 0;
}

static int advise(struct pgw_ranges *set, enum pgw_advice advice, uint64_t *bytes)
{
	struct pgw_advise_report report = { 0 };
	int rc;

	if (!set->n)
		return 0;
	rc = pgw_advise(set->v, set->n, advice, NULL, &report);
	*bytes += report.done_bytes;
	return rc;
}

static int step(struct warming *w, uint64_t off, uint64_t n)
{
	int rc = pgw__sys.mincore((void *)(w->map + off), n * w->page, w->resident);

	if (!rc)
		rc = sort_out(w, off, n);
	if (!rc)
		rc = advise(&w->cached, PGW_POPULATE_READ, &w->out.mapped_bytes);
	if (!rc)
		rc = advise(&w->missing, PGW_WILLNEED, &w->out.read_bytes);
	return rc;
}

static int warm(struct warming *w)
{
	uint64_t pages = (w->out.used_bytes + w->page - 1) / w->page;
	int rc = 0;

	for (uint64_t at = 0; at < pages && w->left >= w->page && !rc; at += STEP_PAGES) {
		uint64_t n = pages - at < STEP_PAGES ? pages - at : STEP_PAGES;

		rc = step(w, at * w->page, n);
	}
	return rc;
}

PUBLIC int pgw_env_warm(MDB_env *env, uint64_t max_bytes, unsigned flags, struct pgw_warm *out)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);
	struct warming w = {
		.page = (uint64_t)sysconf(_SC_PAGESIZE), .left = max_bytes, .flags = flags
	};
	MDB_envinfo info;
	int rc;

	if (!e || (flags & ~PGW_WARM_READ))
		return EINVAL;
	rc = mdb_env_info(env, &info);
	if (rc)
		return rc;
	w.map = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	w.out.used_bytes = (info.me_last_pgno + 1) * e->psize;
	w.resident = malloc(STEP_PAGES);
	if (!w.resident)
		return ENOMEM;
	pgw_ranges_init(&w.cached);
	pgw_ranges_init(&w.missing);
	rc = -warm(&w);
	pgw_ranges_finish(&w.cached);
	pgw_ranges_finish(&w.missing);
	free(w.resident);
	if (out)
		*out = w.out;
	PGW__ENV_COUNT(e, warmed_bytes, w.out.mapped_bytes + w.out.read_bytes);
	return rc;
}

void pgw__warm_at_open(struct pgw__env *e, MDB_env *env, const struct pgw_env_options *options)
{
	if (options->warm_bytes && pgw_env_warm(env, options->warm_bytes, 0, NULL))
		pgw__note_fallback(
		    "warm start", "the pages in the cache could not be mapped ahead");
}
