/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dump.c - clean space that is kept out of core dumps.
 *
 * The kernel looks for a page at every address of a mapping that it dumps, whether there is one or
 * not: 16 to 38 ms for each GiB, and as much zeroes where the dump goes into a pipe. A process that
 * has given back most of its memory would be dumped in the time of what it once had.
 *
 * A clean range that is large is told to be left out (MADV_DONTDUMP), and is hidden from then on. A
 * range that is told so is a mapping of its own, and may split one in two: so only large ranges are,
 * larger than what the next request for space would take out of them at once, and only so many.
 *
 * It is put back (MADV_DODUMP) before any of it is handed out, in chunks, as if it came from mmap.
 */
#include <pagewise/advise.h>

#include "options.h"
#include "space_private.h"

/* Each may cost two mappings, of the 65530 that a process can have. */
#define HIDDEN_MAX 64

/* A clean range to hide, out of its pool. */
static bool take_large(struct pgw_range *r)
{
	struct pgw__pool *clean = &pgw__space.pool[CLEAN];
	uint64_t least = pgw__option(PGW_ALLOC_HIDE);
	struct pgw__extent *e;
	bool ok;

	if (!least)
		return false;
	if (least < 2 * pgw__space_chunk(0))
		least = 2 * pgw__space_chunk(0);
	pgw__space_lock();
	e = pgw__pool_largest(clean);
	ok = e && e->len >= least && pgw__space.pool[HIDDEN].count < HIDDEN_MAX;
	if (ok) {
		*r = (struct pgw_range){ e->start, e->len };
		ok = pgw__pool_cut(clean, *r) == 0;
	}
	pgw__space_unlock();
	return ok;
}

void pgw__space_hide(void)
{
	struct pgw_range r;
	int err = 0;

	/* A child that is forked meanwhile does without r: it costs no memory. */
	while (!err && take_large(&r)) {
		err = pgw_advise(&r, 1, PGW_DONTDUMP, NULL, NULL);
		pgw__space_lock();
		pgw__space_add(err ? CLEAN : HIDDEN, r);
		pgw__space.n.hides += !err;
		pgw__space_unlock();
	}
}

bool pgw__space_reveal(struct pgw_range r)
{
	return pgw_advise(&r, 1, PGW_DODUMP, NULL, NULL) == 0;
}
