/* SPDX-License-Identifier: BSD-2-Clause
 *
 * jemalloc_private.h - what this library uses of jemalloc that jemalloc/jemalloc.h does not
 * declare.
 *
 * All of it is as in 5.3.0 and 5.3.1; meson.build refuses other versions, and checks that the
 * archive has every one of these symbols. Types are opaque here but for those whose members we set.
 */
#ifndef PGW_ALLOC_JEMALLOC_PRIVATE_H
#define PGW_ALLOC_JEMALLOC_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jemalloc/jemalloc.h>

#if JEMALLOC_VERSION_MAJOR != 5 || JEMALLOC_VERSION_MINOR != 3
#error "jemalloc 5.3 is needed: jemalloc_private.h was written for its internals"
#endif

/* arena_config_t (arena_types.h). */
struct je_arena_config {
	extent_hooks_t *extent_hooks;
	bool metadata_use_hooks;
};

extern const extent_hooks_t je_ehooks_default_extent_hooks;
extern bool je_opt_retain;
extern ssize_t je_opt_muzzy_decay_ms;
extern bool je_background_thread_enabled_state; /* atomic */

void *je_b0get(void); /* the base of arena 0 */
extent_hooks_t *je_base_extent_hooks_set(void *base, extent_hooks_t *hooks);

/* madvise according to opt.thp; nothing unless the user asked for something. */
void je_pages_set_thp_state(void *addr, size_t size);

void je_jemalloc_prefork(void); /* what jemalloc registers with pthread_atfork */

/* State of a thread. A thread that jemalloc does not serve needs no more than the minimal one, which
 * has no thread cache and no arena (jemalloc's own background threads have it). */
extern __thread char je_tsd_tls[] __attribute__((tls_model("initial-exec")));
void *je_tsd_fetch_slow(void *tsd, bool minimal);

/* Adds to the counts; takes no lock. Pages. */
void je_arena_basic_stats_merge(void *tsdn, void *arena, unsigned *threads, const char **dss,
    ssize_t *dirty_decay_ms, ssize_t *muzzy_decay_ms, size_t *active, size_t *dirty, size_t *muzzy);

/* Wrapped by the linker (--wrap): the real ones, and ours. Why each: hooks.c. */
#define WRAP(type, name, ...)            \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

WRAP(void *, je_arena_new, void *tsdn, unsigned ind, const struct je_arena_config *config);
WRAP(void, je_arena_destroy, void *tsd, void *arena);
WRAP(void, je_arena_decay, void *tsdn, void *arena, bool is_background_thread, bool all);
WRAP(bool, je_decay_maybe_advance_epoch, void *decay, void *now, size_t pages);
WRAP(int, je_ctl_byname, void *tsd, const char *name, void *oldp, size_t *oldlen, void *newp,
    size_t newlen);
WRAP(int, je_ctl_bymib, void *tsd, const size_t *mib, size_t miblen, void *oldp, size_t *oldlen,
    void *newp, size_t newlen);
WRAP(void *, je_extent_alloc_mmap, void *addr, size_t size, size_t align, bool *zero, bool *commit);
WRAP(void, je_sc_boot, void *data);
WRAP(void, je_base_prefork, void *tsdn, void *base);
WRAP(void *, je_rtree_leaf_elm_lookup_hard, void *tsdn, void *rtree, void *ctx, uintptr_t key,
    bool dependent, bool init_missing);
WRAP(int, pthread_atfork, void (*prepare)(void), void (*parent)(void), void (*child)(void));

#if JEMALLOC_VERSION_BUGFIX == 0
WRAP(void, je_peak_alloc_event_handler, void *tsd, uint64_t elapsed);
WRAP(void, je_peak_dalloc_event_handler, void *tsd, uint64_t elapsed);
#else
/* te_base_cb_t (thread_event_registry.h): an event of a thread's, and when it is due. */
struct je_te_base_cb {
	int (*enabled)(void);
	uint64_t (*new_event_wait)(void *tsd);
	uint64_t (*postponed_event_wait)(void *tsd);
	void (*event_handler)(void *tsd);
};

/* The tables of events, not constant; the one that counts peaks is in both. The sizes are read off
 * the archive by meson.build: they depend on how jemalloc was configured. */
extern struct je_te_base_cb je_peak_te_handler;
extern struct je_te_base_cb *je_te_alloc_handlers[PGW_TE_ALLOC_HANDLERS];
extern struct je_te_base_cb *je_te_dalloc_handlers[PGW_TE_DALLOC_HANDLERS];
#endif

#endif
