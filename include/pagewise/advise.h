/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/advise.h - give one advice for many ranges of memory in as few calls as the kernel
 * takes.
 */
#ifndef PAGEWISE_ADVISE_H
#define PAGEWISE_ADVISE_H

#include <stddef.h>
#include <stdint.h>

#include <pagewise/probe.h>
#include <pagewise/range.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ranges of this size and more are advised one by one even where the kernel takes vectors: flushing
 * the TLB once for many of them saves nothing any more (docs/design.md has the table). Bytes. */
#define PGW_ADVISE_SINGLE_BYTES (256u << 10)

/* What one pgw_advise did. The calls are real system calls. */
struct pgw_advise_report {
	uint64_t vectored_calls;
	uint64_t vectored_ranges; /* handed over in those, after coalescing */
	uint64_t single_calls;
	uint64_t done_bytes;	/* that the kernel reported done; overlaps count once */
	uint64_t failed_ranges; /* of the caller's, status not 0 */
	uint64_t short_returns; /* calls that stopped early and were resumed */
};

/* Advise n ranges of this process's memory.
 *
 * ranges   addresses, in any order; they may overlap, touch, or be empty. Not changed. A range must
 *          start on a page and its length be a multiple of the page size, else it gets -EINVAL: the
 *          kernel would round up, and destroy what lies behind.
 * status   NULL, or n results: 0 only if the kernel reported this whole range done, else -errno.
 *          A bad range (locked: -EINVAL, sealed: -EPERM, unmapped: -ENOMEM) costs only itself; all
 *          others are advised. With -ENOMEM the mapped parts of that range may have been advised.
 * report   NULL, or what was done.
 *
 * Neighbours are joined into one; ranges of PGW_ADVISE_SINGLE_BYTES and more, a batch of one, and
 * every range where pgw_probe says loop go through madvise; the rest through process_madvise, cut
 * at 1024 ranges and below its 2 GiB a call.
 *
 * Returns 0 if every range was done, else the status of the first (lowest index) that was not;
 * -EOPNOTSUPP if the kernel does not know the advice (all ranges have that status then); -EINVAL if
 * advice is none of enum pgw_advice.
 *
 * Any thread; takes no lock, and may be called under any and in a signal handler: it makes system
 * calls and touches atomics, nothing else. Needs some 2 KiB of stack. Does not allocate from the heap:
 * more than 64 ranges that are not in order, or of which neighbours are to be joined, are copied
 * to scratch pages from mmap, 24 bytes a range. Where there are none to be had, the ranges are
 * advised one by one as they come (and done_bytes counts overlaps each time). errno stays as it
 * was. In a vfork(2) child it acts on the parent's memory, as madvise would. */
int pgw_advise(const struct pgw_range *ranges, size_t n, enum pgw_advice advice, int *status,
    struct pgw_advise_report *report);

#ifdef __cplusplus
}
#endif
#endif
