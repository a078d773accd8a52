/* SPDX-License-Identifier: BSD-2-Clause
 *
 * growth.c - see growth.h.
 */
#include "growth.h"

#include <errno.h>
#include <stdatomic.h>

#include <pagewise/probe.h>

#include "sys.h"

#define HEAD_ROOM  16
#define HUGE_BYTES (UINT64_C(2) << 20) /* so that transparent huge pages fit, where they are used */

/* The kernel maps downwards from just below the stack, at T; programs that are position independent
 * lie at 2/3 T, with their heap behind. Between 10/12 and 11/12 of T is what neither comes near
 * to: 10 TiB on x86-64, 40 GiB where addresses have 39 bits. T is as random as the stack is. */
#define ZONE_FIRST 10
#define ZONE_PARTS 12

/* Distance of two places, at least and at most. Of T: 1 GiB and 128 GiB on x86-64. */
#define STRIDE_MIN 131072
#define STRIDE_MAX 1024

static _Thread_local struct pgw_range last_failed;

/* From the start of the zone; wraps around. */
static _Atomic uint64_t cursor;

/* T, for want of a way to ask for it. */
static uint64_t stack_top(void)
{
	return (uint64_t)__builtin_frame_address(0);
}

void pgw__growth_failed(struct pgw_range r)
{
	last_failed = r;
}

bool pgw__growth_seen(uint64_t size, struct pgw_range *failed)
{
	*failed = last_failed;
	last_failed.len = 0;
	return failed->len && failed->len < size && size >= PGW__GROWTH_MIN;
}

/* The page at which something mapped ends in r: r's start is mapped, its last page is not. 0: they are
 * not so. */
static uint64_t mapped_end(struct pgw_range r)
{
	uint64_t page = pgw_page_size(), lo = 0, hi = r.len / page - 1;
	unsigned char resident;

	if (pgw__sys.mincore((void *)r.start, page, &resident) ||
	    pgw__sys.mincore((void *)(r.start + hi * page), page, &resident) != -ENOMEM)
		return 0;
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (pgw__sys.mincore((void *)(r.start + mid * page), page, &resident))
			hi = mid;
		else
			lo = mid;
	}
	return r.start + hi * page;
}

uint64_t pgw__growth_behind(struct pgw_range failed, uint64_t size, uint64_t align)
{
	uint64_t top = stack_top(), zone = top / ZONE_PARTS, end;

	/* With room behind it still, whichever place it is. */
	if (!PGW__GROWTH_PLACES || failed.start / zone != ZONE_FIRST ||
	    size > top / STRIDE_MIN / HEAD_ROOM)
		return 0;
	end = mapped_end(failed);
	return (end + align - 1) & ~(align - 1);
}

uint64_t pgw__growth_place(uint64_t size, uint64_t align)
{
	uint64_t top = stack_top();
	uint64_t zone = top / ZONE_PARTS;
	uint64_t stride = size < UINT64_MAX / HEAD_ROOM ? size * HEAD_ROOM : size;
	uint64_t at;

	if (stride < top / STRIDE_MIN)
		stride = top / STRIDE_MIN;
	if (stride > top / STRIDE_MAX)
		stride = top / STRIDE_MAX;
	if (stride < size)
		stride = size;
	if (align < HUGE_BYTES)
		align = HUGE_BYTES;
	if (!PGW__GROWTH_PLACES || stride > zone / 2 || align > zone / 2)
		return 0;
	at = atomic_fetch_add_explicit(&cursor, stride, memory_order_relaxed) % (zone - stride);
	return (zone * ZONE_FIRST + at) & ~(align - 1);
}
