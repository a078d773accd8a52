/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/range.h - page ranges and sets of them.
 *
 * A range is a start and a length in bytes. It stands for addresses where memory is advised
 * (pagewise/advise.h) and for file offsets where a file is synced (pagewise/sync.h).
 *
 * No function here makes a system call. Those that take a set allocate only where they say so, and
 * never from a set that was set up over fixed storage: such a set can be used inside an allocator.
 * No function takes a lock: one thread at a time per set.
 */
#ifndef PAGEWISE_RANGE_H
#define PAGEWISE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes [start, start + len). start + len must be a number of 64 bits; the functions that take ranges
 * from outside check it. On LP64 systems this has the layout of struct iovec, on purpose: a sorted array
 * of ranges is handed to the kernel without being copied. */
struct pgw_range {
	uint64_t start;
	uint64_t len;
};

/* The end of a range, exclusive. No check. */
static inline uint64_t pgw_range_end(struct pgw_range r)
{
	return r.start + r.len;
}

/* The largest range of whole units inside r; len 0 if there is none. unit: a power of two, bytes.
 * What destructive advice may touch. */
struct pgw_range pgw_range_align_in(struct pgw_range r, uint64_t unit);

/* The smallest range of whole units that covers r (len 0 stays empty). unit: a power of two, bytes.
 * The end is clipped to the last whole unit below 2^64. What must be synced. */
struct pgw_range pgw_range_align_out(struct pgw_range r, uint64_t unit);

/* Cut at most max bytes off the front of *r and return them; *r keeps the rest. */
struct pgw_range pgw_range_take(struct pgw_range *r, uint64_t max);

/* Sort n ranges by start, in place, without recursion and without allocating (qsort(3) of glibc
 * allocates). O(n log n); O(n) when they are in order already. */
void pgw_range_sort(struct pgw_range *v, size_t n);

/* Sort v, drop empty ranges, and join what overlaps or touches, in place. Returns how many ranges
 * are left; they are disjoint, not adjacent, and in ascending order. */
size_t pgw_range_normalize(struct pgw_range *v, size_t n);

/* A set of bytes, kept as ranges.
 *
 * Between pgw_ranges_add and pgw_ranges_normalize the array may hold ranges that overlap and are
 * not in order ("raw"); the functions that need a normal set say so and normalize it themselves.
 * Fields are readable; change them through the functions. */
struct pgw_ranges {
	struct pgw_range *v; /* n ranges */
	size_t n;
	size_t cap;
	bool normal; /* ascending, disjoint, not adjacent, none empty */
	bool fixed;  /* v belongs to the caller, and cap is final */
};

/* Set up an empty set that grows on the heap. Cannot fail; nothing is allocated yet. */
void pgw_ranges_init(struct pgw_ranges *s);

/* Set up an empty set over cap ranges of the caller's storage, which must outlive the set. It never
 * allocates: adding to a full set joins what can be joined and then fails with -ENOSPC. */
void pgw_ranges_init_fixed(struct pgw_ranges *s, struct pgw_range *storage, size_t cap);

/* Release what the set allocated. The set is empty afterwards and may be used again. NULL is fine.
 */
void pgw_ranges_finish(struct pgw_ranges *s);

/* Forget all ranges, keep the storage. */
void pgw_ranges_clear(struct pgw_ranges *s);

/* Add [start, start + len). len 0 adds nothing. Constant time on average; a range that overlaps or
 * continues the last one added is joined with it at once.
 * 0, -EOVERFLOW (start + len is no number of 64 bits), -ENOMEM (heap), -ENOSPC (fixed storage is full). On
 * failure the set holds what it held. */
int pgw_ranges_add(struct pgw_ranges *s, uint64_t start, uint64_t len);

/* Add every range of src (raw or normal). Errors as pgw_ranges_add; on failure dst holds at least
 * what it held and perhaps some of src. */
int pgw_ranges_add_all(struct pgw_ranges *dst, const struct pgw_ranges *src);

/* Bring the set into normal form. O(n log n); nothing to do if it is normal already. */
void pgw_ranges_normalize(struct pgw_ranges *s);

/* Grow every range to whole units, or shrink it to the whole units inside, and normalize. unit: a
 * power of two, bytes. A raw set is normalized first, so two halves of one unit survive shrinking.
 */
void pgw_ranges_align_out(struct pgw_ranges *s, uint64_t unit);
void pgw_ranges_align_in(struct pgw_ranges *s, uint64_t unit);

/* Remove from s every byte that is in other. Both are normalized. May need up to other->n more
 * ranges than s has: -ENOMEM or -ENOSPC then, with s unchanged (but normal). */
int pgw_ranges_subtract(struct pgw_ranges *s, struct pgw_ranges *other);

/* Is every byte of [start, start + len) in the set? An empty range is. Normalizes s. O(log n). */
bool pgw_ranges_contains(struct pgw_ranges *s, uint64_t start, uint64_t len);

/* Bytes in the set, each counted once. Normalizes s. */
uint64_t pgw_ranges_bytes(struct pgw_ranges *s);

/* From the first byte of the set to the last; len 0 if it is empty. Normalizes s. */
struct pgw_range pgw_ranges_span(struct pgw_ranges *s);

#ifdef __cplusplus
}
#endif
#endif
