/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.h - the address space that jemalloc does not hold at the moment, and its states.
 *
 * States of a page:
 *
 *              alloc (hook)                         alloc
 *        ┌──────────────────────── pending ◄─────────────────┐
 *        ▼                          ▲   │ take               │
 *   held by jemalloc ───────────────┘   ▼                    │ undo
 *        ▲  ▲       dalloc (hook)   in flight ───────────────┘ (forked child)
 *        │  │                           │
 *        │  │ alloc   ┌─────────────────┼──────────────┐
 *        │  └──── clean ◄─ purged, and reads as zero   │
 *        │            │                                ▼
 *        │            ├─► unmapped                   stale  (not purged, or purged without zeroing)
 *        │            └─► hidden: clean, and left out of core dumps (dump.c); alloc, unmapped
 *        └─────────────────────────────────────────────┘ alloc
 *
 * With PAGEWISE_ALLOC=advice:free the first purge is MADV_FREE, and leads from in flight to lazy: the
 * pages are the kernel's to take, still count as resident, and hold anything until they are written.
 * After a while a second one, DONTNEED, takes them as it takes pending ones. Lazy ranges serve
 * requests as pending ones do.
 *
 * Invariants:
 *   S1  A page is in exactly one state. A range in flight is in no pool: only who took it touches
 *       it.
 *   S2  Nothing is clean before the kernel has reported its whole range done and DONTNEED is known
 *       to zero here (pgw_dontneed_zeroes), or it was mapped fresh. Hidden was clean before.
 *   S3  One lock guards all of it, and it is a leaf: under it there is no call of jemalloc, no
 *       purge, no munmap, at most the mmap of a slab for more extents, and it is held for at most
 *       PGW__SLICE ranges.
 *   S4  free never waits for a purge. malloc does only where it would have to fail.
 *   S5  In a forked child no thread exists that had something in flight, so that goes back to
 *       pending. A child that was made without fork handlers (_Fork, clone) is recognized by a page
 *       that the kernel wipes on fork; if the lock was held at that moment the pools may be torn,
 *       and are forgotten: the memory is lost to the child, and nothing hangs.
 */
#ifndef PGW_ALLOC_SPACE_H
#define PGW_ALLOC_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <pagewise/alloc.h>
#include <pagewise/range.h>

#include "extent.h"

#define PGW__SLICE 32

/* Memory for jemalloc: size bytes (whole pages) at a multiple of align (a power of two, at least a
 * page), or exactly at addr if that is not NULL. *zero on entry: must read as zero; on exit: it
 * does. NULL if there is none. errno stays as it was. */
void *pgw__space_alloc(void *addr, size_t size, size_t align, bool *zero);

/* What is pending, as of one moment. */
struct pgw__space_view {
	uint64_t pending_bytes, pending_ranges;
	uint64_t oldest_ms; /* stamp of the range that was left alone longest, if there is one */
	uint64_t limit;	    /* bytes above which a purge is due (options, and what jemalloc holds),
			 * or above three quarters of which, in many ranges */
	uint64_t lazy_ranges, lazy_oldest_ms;
};

/* Memory from jemalloc: it is pending from now on. *v is what is pending with it. Wakes who sleeps
 * in pgw__space_wait_and_unlock, when there is reason to. If there is nothing to remember the range
 * with it is unmapped.
 * 0, or -ENOMEM (that was not possible either; it stays the caller's, *v is not set). */
int pgw__space_give(void *addr, size_t size, struct pgw__space_view *v);

/* Is a purge due because of how much is pending? */
bool pgw__space_over(const struct pgw__space_view *v);

/* A set of ranges that are being purged. ranges, status and extents: cap of each, the caller's. */
struct pgw__batch {
	bool from_lazy; /* lazy ranges, not pending ones */
	bool to_lazy;	/* they are freed lazily */
	struct pgw_range *ranges;
	int *status;
	struct pgw__extent **extents; /* in the order of addresses */
	size_t cap, n;
};

/* Memory from jemalloc, straight into flight: it joins b, which has room for it (n < cap). Nobody can
 * reuse it before pgw__space_put. 0 or -ENOMEM (it stays the caller's). */
int pgw__space_give_to(struct pgw__batch *b, void *addr, size_t size);

/* Fill b->ranges, in the order of addresses: for who has put the batch together himself. */
void pgw__space_list(struct pgw__batch *b);

/* Move pending (or lazy) ranges into flight, those first that were left alone longest: as long as
 * their bytes are above target, and all whose stamp is at most cutoff. Returns how many. */
size_t pgw__space_take(struct pgw__batch *b, uint64_t target, uint64_t cutoff);

/* The batch has been advised; b->status has the results. Its ranges become clean, lazy or stale, and b
 * is empty. */
void pgw__space_put(struct pgw__batch *b);

/* Unmap clean (and stale) space above the option, and hide what is large of the rest. */
void pgw__space_trim(void);

/* mmap has failed (RLIMIT_AS, overcommit): unmap all that is free, whatever its state, for another
 * try. Returns the bytes. */
uint64_t pgw__space_reclaim(void);

/* The lock and a view of what it guards, for the purger's waiting. */
struct pgw__space_view pgw__space_lock_and_view(void);
void pgw__space_unlock(void);
/* Sleep until pgw__space_give finds reason to wake us (any: whatever it gets; else when a purge is
 * due for its amount), pgw__space_wake is called or, unless it is 0, until deadline_ms. The lock is
 * held before, and released after. */
void pgw__space_wait_and_unlock(uint64_t deadline_ms, bool any);
void pgw__space_wake(void);

/* What is pending; takes the lock. */
struct pgw__space_view pgw__space_look(void);

/* Bytes that are being purged. */
uint64_t pgw__space_in_flight(void);

/* Wait until nothing is in flight. */
void pgw__space_drain(void);

/* For the fork handlers. A process of one thread that forks says so, and calls none of the others:
 * fork_alone writes to memory only when that changes, since each page written is copied. */
void pgw__space_fork_alone(bool alone);
bool pgw__space_is_fork_alone(void);

/* What is pending, without the lock: for a process of one thread. */
uint64_t pgw__space_pending_alone(void);

/* With threads: prepare takes the lock; one of the others follows. prepare_asleep takes it only if the
 * purger sleeps (false: it does not), which it goes on doing until the lock is released. */
bool pgw__space_fork_prepare_asleep(void);
void pgw__space_fork_prepare(void);
void pgw__space_fork_parent(void);
void pgw__space_fork_child(void);

/* Counters that other files keep. */
void pgw__space_count(size_t offset, uint64_t n);
#define PGW__ALLOC_COUNT(field, n) pgw__space_count(offsetof(struct pgw_alloc_stats, field), n)

/* For the report at exit: as pgw_alloc_stats_get, but if exit was called in a handler of a signal
 * that interrupted the holder of the lock it must end all the same. false: the lock could not be had
 * in a few seconds, and only held_bytes is set. All zero if this process has not allocated. */
bool pgw__space_stats_at_exit(struct pgw_alloc_stats *out);

/* Milliseconds of a clock that does not jump. Stamps come from its coarse variant, which is a few
 * milliseconds behind. */
uint64_t pgw__now_ms(void);

/* Changes in a forked child: what a thread had set up is worth nothing any more if this is not the
 * value it saw. Never 0. */
uint64_t pgw__space_generation(void);

/* When this process began, or rather began to use memory (pgw__now_ms). */
uint64_t pgw__space_born_ms(void);

/* Bytes that jemalloc holds. */
uint64_t pgw__space_held(void);

/* The process that generation belongs to: another one than getpid's in a vfork child. */
pid_t pgw__space_pid(void);

/* Called outside of the lock with each piece of fresh memory, if set (before the first use). */
extern void (*pgw__space_mapped)(void *addr, size_t len);

/* Called once in each forked child, before it uses anything of this, if set. */
extern void (*pgw__space_in_child)(void);

/* Forget every range, as S5 does (and the counters). For tests. */
void pgw__space_reset(void);

#endif
