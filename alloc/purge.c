/* SPDX-License-Identifier: BSD-2-Clause
 *
 * purge.c - batches of pending ranges, to pgw_advise.
 */
#include "purge.h"

#include <stdatomic.h>

#include <pagewise/advise.h>

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
	struct pgw_range ranges[LARGE_RANGES];
	int status[LARGE_RANGES];
} large;

static size_t purge(struct pgw__batch *b, uint64_t target, uint64_t cutoff, size_t max)
{
	size_t done = 0, n;

	do {
		n = pgw__space_take(b, target, cutoff);
		if (!n)
			break;
		(void)pgw_advise(b->ranges, n, PGW_DONTNEED, b->status, NULL);
		pgw__space_put(b);
		done += n;
	} while (n == b->cap && done < max);
	return done;
}

size_t pgw__purge_inline(uint64_t target, uint64_t cutoff, size_t max)
{
	struct pgw_range ranges[INLINE_RANGES];
	int status[INLINE_RANGES];
	struct pgw__batch b = { .ranges = ranges, .status = status, .cap = INLINE_RANGES };
	size_t n = purge(&b, target, cutoff, max);

	if (n) {
		PGW__ALLOC_COUNT(inline_purges, 1);
		pgw__space_trim();
	}
	return n;
}

size_t pgw__purge_all(uint64_t target, uint64_t cutoff)
{
	struct pgw__batch b = {
		.ranges = large.ranges, .status = large.status, .cap = LARGE_RANGES
	};
	uint64_t now = pgw__space_generation();
	uint64_t claim = atomic_load(&large.claim);
	size_t n;

	if (claim == now || !atomic_compare_exchange_strong(&large.claim, &claim, now))
		return pgw__purge_inline(target, cutoff, SIZE_MAX);
	n = purge(&b, target, cutoff, SIZE_MAX);
	atomic_store(&large.claim, 0);
	pgw__space_trim();
	return n;
}
