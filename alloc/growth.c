/* SPDX-License-Identifier: BSD-2-Clause
 *
 * growth.c - see growth.h.
 */
#include "growth.h"

#include <stdatomic.h>

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

static _Thread_local uint64_t failed;

/* From the start of the zone; wraps around. */
static _Atomic uint64_t cursor;

void pgw__growth_failed(uint64_t size)
{
	failed = size;
}

bool pgw__growth_seen(uint64_t size)
{
	bool seen = failed && failed < size && size >= PGW__GROWTH_MIN;

	failed = 0;
	return seen;
}

uint64_t pgw__growth_place(uint64_t size, uint64_t align)
{
	uint64_t top = (uint64_t)__builtin_frame_address(0);
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
