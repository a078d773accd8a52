/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/alloc.h - libpagewise-alloc: jemalloc whose purging is batched.
 *
 * The library is a malloc; most programs never call anything here. A program that may run without
 * it looks the functions up with dlsym(3) or declares them weak.
 *
 * Memory that jemalloc has decayed goes through four states (alloc/README.md has the picture):
 * pending (not given back yet, pages still resident), in flight (a purge of it is running), clean
 * (given back; reads as zero, costs address space only), stale (the kernel would not take it back).
 * All of it serves later requests of any arena.
 *
 * Every function may be called from any thread. None may be called from an extent hook.
 */
#ifndef PAGEWISE_ALLOC_H
#define PAGEWISE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The keys of PAGEWISE_ALLOC=key:value,... (docs/env.md). Defaults were chosen with
 * bench/alloc/churn.py; docs/design.md has the figures. */
enum pgw_alloc_option {
	PGW_ALLOC_PENDING, /* "pending": bytes; more than this (and than share) starts a purge, as do
			    * three quarters of it in 34 ranges or more */
	PGW_ALLOC_SHARE,   /* "share": the same as a percentage of what jemalloc holds, up to
			      64 MiB; the larger of the two counts */
	PGW_ALLOC_RANGES,  /* "ranges": so many separate pending ranges start a purge */
	PGW_ALLOC_AGE,	 /* "age": milliseconds after which pending memory is purged in any case */
	PGW_ALLOC_CLEAN, /* "clean": bytes of clean address space that are kept; the rest is
			     unmapped */
	PGW_ALLOC_CHUNK, /* "chunk": bytes of the smallest piece of fresh address space */
	PGW_ALLOC_HIDE,	 /* "hide": bytes; clean ranges as large as this, and at least two pieces of
			     fresh address space, are left out of core dumps; 0: none */
	PGW_ALLOC_THREAD, /* "thread": 1 (on): a thread purges; 0 (off): the thread that frees */
	PGW_ALLOC_HOOKS,  /* "hooks": 0 (off) leaves jemalloc as it is. Fixed at the start. */
	PGW_ALLOC_ADVICE, /* "advice": 0 (dontneed): memory is given back for good; 1 (free): the kernel
			     may take it when it needs some (MADV_FREE), and gets it for good later */
	PGW_ALLOC_LAZY,	    /* "lazy": milliseconds until then; 0: never */
	PGW_ALLOC_PRESSURE, /* "pressure": percent of time that tasks of the cgroup or the system wait
			     for memory, above which all that is unused is given back; 0: ignored */
	PGW_ALLOC_DEEPBIND, /* "deepbind": 0 (drop) takes RTLD_DEEPBIND out of dlopen(3), so that a
			       module uses the same malloc as the program; 1 (keep) */
	PGW_ALLOC_PREFAULT, /* "prefault": bytes; a reused range as large as this, up to 64 MiB, gets
			       three quarters of its pages at once, as long as the program fills such
			       blocks; 0: none */
	PGW_ALLOC_OPTION_COUNT
};

/* The value in force. 0; -EINVAL (no such option) with *value untouched. */
int pgw_alloc_option_get(enum pgw_alloc_option option, uint64_t *value);

/* Change an option from now on. 0; -EINVAL (no such option), -ERANGE (the value is out of its
 * range), -EPERM (PGW_ALLOC_HOOKS cannot be changed, and PGW_ALLOC_THREAD not while the thread
 * runs). */
int pgw_alloc_option_set(enum pgw_alloc_option option, uint64_t value);

/* Give back all memory that is not in use, now: empties the calling thread's cache, decays every
 * arena (as mallctl "arena.<all>.purge" does), purges everything pending, and waits for purges that
 * other threads have in flight. Memory in caches of other threads stays there. The library exports
 * malloc_trim(3) too, which does the same and returns 1 if memory was given back.
 * 0; -EOPNOTSUPP if the hooks are off (the arenas were decayed by jemalloc alone); -EAGAIN if part
 * of the memory could not be given back (locked pages, a system call filter): it is stale then and
 * will be reused first. Takes as long as the kernel takes; not from a signal handler. */
int pgw_alloc_purge(void);

/* Counters. All totals are since the start of the process; a forked child starts from zero but for
 * the arenas and for what is held, pending, clean and stale. Bytes are multiples of the page size.
 */
struct pgw_alloc_stats {
	uint64_t arenas;	 /* arenas that got the hooks */
	uint64_t arenas_foreign; /* created with hooks of the program's own, which they keep */

	/* extents requested by jemalloc, by what served them */
	uint64_t pending_hits, lazy_hits, stale_hits, clean_hits, fresh_hits;
	uint64_t failed; /* requests that failed: a place that was taken, or no memory */
	uint64_t grown; /* requests for the space behind a block that were served: grown in place */
	uint64_t head_rooms; /* growing blocks that were moved to where nothing is behind them */

	uint64_t fresh_maps, fresh_bytes; /* mmap calls, and what they brought */
	uint64_t zeroed_bytes;		  /* cleared by hand because zeroed memory was asked for */

	uint64_t given, given_bytes; /* extents that jemalloc gave up */

	uint64_t held_bytes; /* with jemalloc now */
	uint64_t pending_bytes, pending_ranges, pending_bytes_peak;
	uint64_t in_flight_bytes;
	uint64_t clean_bytes, clean_ranges, clean_bytes_peak;
	uint64_t stale_bytes, stale_ranges;
	uint64_t lazy_bytes, lazy_ranges; /* freed lazily: the kernel may have taken them or not */
	uint64_t lazily_freed_bytes;
	uint64_t hidden_bytes, hidden_ranges; /* of what is clean: left out of core dumps */

	uint64_t purges, purged_ranges, purged_bytes; /* batches; ranges and bytes in them */
	uint64_t pressure_purges;		      /* times that memory was short */
	uint64_t inline_purges;			      /* of these, by a thread that frees */
	uint64_t kept_ranges;			      /* of these, not given back: now stale */
	uint64_t unmaps, unmapped_bytes;	      /* address space given back */
	uint64_t hides, hidden_hits;		      /* ranges hidden; requests served from them */
	uint64_t reclaims;     /* mmap failed, so all clean space was unmapped for another try */
	uint64_t threads;      /* purger threads started */
	uint64_t thread_fails; /* attempts that failed */
	uint64_t fork_flushes; /* purges before a fork */
	uint64_t
	    raw_forks; /* 1 in a child that was made without fork handlers (_Fork, clone); may be 0
				  in one that was made so by a process of one thread */
	uint64_t prefaults,
	    prefaulted_bytes; /* requests whose pages came before they were touched */
};

/* Fill *out. Never fails and does not allocate; one short lock. */
void pgw_alloc_stats_get(struct pgw_alloc_stats *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
