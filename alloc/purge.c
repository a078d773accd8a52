/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purge.c - batches of pending ranges, to pgw_advise.
 */
#include "purge.h"

#include <errno.h>
#include <stdatomic.h>

#include <pagewise/advise.h>

#include "options.h"
#include "space.h"

/* Many enough for a call to pay (at 128 a range costs 0.27 of a madvise, docs/design.md), few
 * enough for the stack of a thread that just calls free. */
#define INLINE_RANGES 128

/* As many as the kernel takes in a call. */
#define LARGE_RANGES 1024

/* One large batch for the process, for whoever claims it. The claim is a generation: in a forked
 * child the claim of a thread that is not there counts for nothing. */
static struct {
	_Atomic uint64_t claim;
	struct pgw__batch direct; /* between pgw__purge_direct_begin and _end */
	struct pgw_range ranges[LARGE_RANGES];
	struct pgw__extent *extents[LARGE_RANGES];
	int status[LARGE_RANGES];
} large;

struct order {
	bool from_lazy, to_lazy;
	uint64_t target, cutoff;
	size_t max;
};

static void advise(struct pgw__batch *b)
{
	if (b->to_lazy && pgw_advise(b->ranges, b->n, PGW_FREE, b->status, NULL) != -EOPNOTSUPP)
		return;
	b->to_lazy = false;
	(void)pgw_advise(b->ranges, b->n, PGW_DONTNEED, b->status, NULL);
}

static bool claim_large(struct pgw__batch *b)
{
	uint64_t now = pgw__space_generation();
	uint64_t claim = atomic_load(&large.claim);

	if (claim == now || !atomic_compare_exchange_strong(&large.claim, &claim, now))
		return false;
	*b = (struct pgw__batch){
		.ranges = large.ranges,
		.status = large.status,
		.extents = large.extents,
		.cap = LARGE_RANGES,
	};
	return true;
}

static size_t purge(struct pgw__batch *b, const struct order *o)
{
	size_t done = 0, n;

	do {
		b->from_lazy = o->from_lazy;
		b->to_lazy = o->to_lazy;
		n = pgw__space_take(b, o->target, o->cutoff);
		if (!n)
			break;
		advise(b);
		pgw__space_put(b);
		done += n;
	} while (n == b->cap && done < o->max);
	return done;
}

static size_t purge_small(const struct order *o)
{
	struct pgw_range ranges[INLINE_RANGES];
	struct pgw__extent *extents[INLINE_RANGES];
	int status[INLINE_RANGES];
	struct pgw__batch b = {
		.ranges = ranges, .status = status, .extents = extents, .cap = INLINE_RANGES
	};
	size_t n = purge(&b, o);

	if (n) {
		PGW__ALLOC_COUNT(inline_purges, 1);
		pgw__space_trim();
	}
	return n;
}

static size_t purge_large(const struct order *o)
{
	struct pgw__batch b;
	size_t n;

	if (!claim_large(&b))
		return purge_small(o);
	n = purge(&b, o);
	atomic_store(&large.claim, 0);
	pgw__space_trim();
	return n;
}

size_t pgw__purge_inline(uint64_t target, uint64_t cutoff, size_t max)
{
	struct order o = { .to_lazy = pgw__option(PGW_ALLOC_ADVICE),
		.target = target,
		.cutoff = cutoff,
		.max = max };

	return purge_small(&o);
}

size_t pgw__purge_all(uint64_t target, uint64_t cutoff)
{
	struct order o = { .to_lazy = pgw__option(PGW_ALLOC_ADVICE),
		.target = target,
		.cutoff = cutoff,
		.max = SIZE_MAX };

	return purge_large(&o);
}

size_t pgw__purge_lazy(uint64_t cutoff)
{
	struct order o = {
		.from_lazy = true, .target = UINT64_MAX, .cutoff = cutoff, .max = SIZE_MAX
	};

	return purge_large(&o);
}

size_t pgw__purge_now(void)
{
	struct order o = { .target = 0, .cutoff = UINT64_MAX, .max = SIZE_MAX };
	size_t n = purge_large(&o);

	o.from_lazy = true;
	return n + purge_large(&o);
}

void pgw__purge_everything(void)
{
	(void)pgw__purge_now();
	pgw__space_drain();
	(void)pgw__purge_lazy(UINT64_MAX);
}

bool pgw__purge_direct_begin(void)
{
	struct pgw__batch b;

	if (!claim_large(&b))
		return false;
	large.direct = b;
	return true;
}

static void flush(struct pgw__batch *b)
{
	if (!b->n)
		return;
	pgw__space_list(b);
	advise(b);
	pgw__space_put(b);
}

int pgw__purge_direct_add(void *addr, size_t size)
{
	if (large.direct.n == large.direct.cap)
		flush(&large.direct);
	return pgw__space_give_to(&large.direct, addr, size);
}

void pgw__purge_direct_end(void)
{
	flush(&large.direct);
	atomic_store(&large.claim, 0);
	pgw__space_trim();
}
