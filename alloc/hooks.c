/* SPDX-License-Identifier: BSD-2-Clause
 *
 * hooks.c - where jemalloc and this library meet.
 *
 * jemalloc is linked in unchanged. Its extent hooks, a documented interface, give us the extents
 * that have decayed and ask us for new ones; malloc and free themselves run as they always did.
 * What the public interface does not reach is reached through the linker's --wrap:
 *
 *   arena_new      gives every arena the hooks when it is made: automatic ones, arena 0, the one
 *                  for oversize allocations, and those of arenas.create. The public way (mallctl
 *                  arena.<i>.extent_hooks) would have to create every arena first.
 *   sc_boot        the last function to run before jemalloc reads its configuration: the one place
 *                  to change a default (retain) so that the user's own settings still win.
 *   peak_*_event   run about every 64 KiB a thread allocates or frees, when that thread holds no
 *                  lock of jemalloc and is not inside it: where a thread may be made (purger.h).
 *                  Since 5.3.1 they are entries of tables, which are changed instead.
 *   extent_alloc_mmap  maps jemalloc's metadata, which does not go through the hooks: where address
 *                  space is limited it must be able to have what we keep.
 *   arena_decay, ctl_by*  somebody asks mallctl for everything to be given back (arena.<i>.purge,
 *                  thread.idle), and expects it done when the call returns.
 *   decay_maybe_advance_epoch  tells whether an epoch was over (decay.c).
 *   arena_destroy  is when the purger must let go of an arena.
 *   pthread_atfork registers our handlers around jemalloc's (atfork.c).
 *   base_prefork, rtree_leaf_elm_lookup_hard  have a lock that a fork must not find taken (leaf.h).
 *
 * In a hook there is no malloc, mallctl, stdio or pthread_create: jemalloc is in the middle of
 * something, and may hold a lock.
 */
#include <errno.h>
#include <malloc.h>

#include <pagewise/advise.h>
#include <pagewise/alloc.h>
#include <pagewise/probe.h>

#include "decay.h"
#include "jemalloc_private.h"
#include "mainthread.h"
#include "options.h"
#include "purge.h"
#include "purger.h"
#include "report.h"
#include "space.h"

/* This thread is in mallctl; everything an arena had was asked for there; extents that it gives up go
 * to the kernel at once, and not by way of the purger, which would only be in the way. */
static __thread bool in_ctl, demanded, direct;

/* ---- the hooks ---- */

static void *hook_alloc(extent_hooks_t *hooks, void *addr, size_t size, size_t align, bool *zero,
    bool *commit, unsigned arena)
{
	void *p = pgw__space_alloc(addr, size, align, zero);

	if (p)
		*commit = true;
	return p;
}

static bool hook_dalloc(
    extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned arena)
{
	struct pgw__space_view v;

	if (in_ctl && (direct || (direct = pgw__purge_direct_begin())))
		return pgw__purge_direct_add(addr, size) != 0;
	if (pgw__space_give(addr, size, &v))
		return true; /* it stays jemalloc's, which calls purge_forced then */
	pgw__purger_notice(&v);
	return false;
}

/* An extent of a destroyed arena that hook_dalloc had declined before. If that happens again it
 * stays mapped and unused. */
static void hook_destroy(
    extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned arena)
{
	(void)hook_dalloc(hooks, addr, size, committed, arena);
}

static bool purge_one(void *addr, size_t offset, size_t len, enum pgw_advice advice)
{
	struct pgw_range r = { (uint64_t)addr + offset, len };

	return pgw_advise(&r, 1, advice, NULL, NULL) != 0;
}

/* If we free lazily ourselves, jemalloc is to hand the extent over, as it does when this fails. */
static bool hook_purge_lazy(
    extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t len, unsigned arena)
{
	return pgw__option(PGW_ALLOC_ADVICE) || purge_one(addr, offset, len, PGW_FREE);
}

/* Success promises zeroes. */
static bool hook_purge_forced(
    extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t len, unsigned arena)
{
	return purge_one(addr, offset, len, PGW_DONTNEED) || !pgw_dontneed_zeroes();
}

static bool hook_split(extent_hooks_t *hooks, void *addr, size_t size, size_t a, size_t b,
    bool committed, unsigned arena)
{
	return false; /* permitted: pools know nothing of what jemalloc holds */
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t a_size, void *b, size_t b_size,
    bool committed, unsigned arena)
{
	return false;
}

static extent_hooks_t our_hooks = {
	.alloc = hook_alloc,
	.dalloc = hook_dalloc,
	.destroy = hook_destroy,
	.commit = NULL, /* everything is committed, always */
	.decommit = NULL,
	.purge_lazy = hook_purge_lazy,
	.purge_forced = hook_purge_forced,
	.split = hook_split,
	.merge = hook_merge,
};

/* ---- safe points ---- */

/* How often it happens. (elapsed says nothing: these events do not keep count.) */
#define PEAK_EVENT_BYTES (UINT64_C(64) << 10)

#if JEMALLOC_VERSION_BUGFIX == 0

void __wrap_je_peak_alloc_event_handler(void *tsd, uint64_t elapsed)
{
	__real_je_peak_alloc_event_handler(tsd, elapsed);
	pgw__purger_poll(true, PEAK_EVENT_BYTES);
}

void __wrap_je_peak_dalloc_event_handler(void *tsd, uint64_t elapsed)
{
	__real_je_peak_dalloc_event_handler(tsd, elapsed);
	pgw__purger_poll(false, PEAK_EVENT_BYTES);
}

static void safe_points_install(void)
{
}

#else

static struct je_te_base_cb on_malloc, on_free;

static void malloc_event(void *tsd)
{
	je_peak_te_handler.event_handler(tsd);
	pgw__purger_poll(true, PEAK_EVENT_BYTES);
}

static void free_event(void *tsd)
{
	je_peak_te_handler.event_handler(tsd);
	pgw__purger_poll(false, PEAK_EVENT_BYTES);
}

/* The same event, at the same times, with ours behind it. A jemalloc that is configured without
 * statistics has no such event: then no thread is made, and whoever frees purges. */
static void safe_point_install(
    struct je_te_base_cb **table, size_t n, struct je_te_base_cb *ours, void (*handler)(void *tsd))
{
	*ours = je_peak_te_handler;
	ours->event_handler = handler;
	for (size_t i = 0; i < n; i++) {
		if (table[i] == &je_peak_te_handler)
			table[i] = ours;
	}
}

static void safe_points_install(void)
{
	safe_point_install(je_te_alloc_handlers, PGW_TE_ALLOC_HANDLERS, &on_malloc, malloc_event);
	safe_point_install(je_te_dalloc_handlers, PGW_TE_DALLOC_HANDLERS, &on_free, free_event);
}

#endif

/* ---- installing them ---- */

/* retain:true makes jemalloc keep what it purges, and grow what it keeps by ever larger steps. Both
 * it and we would do that; who asks for it gets jemalloc as it is. */
static bool hooks_wanted(void)
{
	return pgw__option(PGW_ALLOC_HOOKS) && !je_opt_retain;
}

/* muzzy_decay_ms: for how long jemalloc would leave memory with the kernel to be taken lazily. */
static void take_muzzy_over(void)
{
	if (je_opt_muzzy_decay_ms == 0)
		return;
	(void)pgw__option_set(PGW_ALLOC_ADVICE, 1);
	if (je_opt_muzzy_decay_ms < 0 || /* for ever, or longer than we can say */
	    pgw__option_set(PGW_ALLOC_LAZY, (uint64_t)je_opt_muzzy_decay_ms))
		(void)pgw__option_set(PGW_ALLOC_LAZY, 0);
}

void *__wrap_je_arena_new(void *tsdn, unsigned ind, const struct je_arena_config *config)
{
	struct je_arena_config ours = {
		.extent_hooks = &our_hooks,
		.metadata_use_hooks = false, /* metadata is never given back, and must be zero */
	};
	void *arena;

	if (!hooks_wanted())
		return __real_je_arena_new(tsdn, ind, config);
	if (ind == 0)
		take_muzzy_over();
	if (config->extent_hooks != &je_ehooks_default_extent_hooks) {
		PGW__ALLOC_COUNT(arenas_foreign, 1);
		return __real_je_arena_new(tsdn, ind, config);
	}
	arena = __real_je_arena_new(tsdn, ind, &ours);
	if (!arena)
		return NULL;
	if (ind == 0) /* its base exists already, with the default hooks; it holds no extent yet */
		je_base_extent_hooks_set(je_b0get(), &our_hooks);
	PGW__ALLOC_COUNT(arenas, 1);
	pgw__decay_add(ind, arena);
	return arena;
}

void __wrap_je_arena_destroy(void *tsd, void *arena)
{
	pgw__decay_remove(arena);
	__real_je_arena_destroy(tsd, arena);
}

void __wrap_je_sc_boot(void *data)
{
	pgw__options_load();
	if (pgw__option(PGW_ALLOC_HOOKS))
		je_opt_retain = false; /* the default; the configuration is read after this */
	pgw__space_mapped = je_pages_set_thp_state;
	pgw__space_in_child = pgw__decay_in_child;
	pgw__purger_upstream = &pgw__decay_upstream;
	safe_points_install();
	__real_je_sc_boot(data);
}

/* ---- jemalloc's metadata ---- */

void *__wrap_je_extent_alloc_mmap(void *addr, size_t size, size_t align, bool *zero, bool *commit)
{
	void *p = __real_je_extent_alloc_mmap(addr, size, align, zero, commit);

	if (!p && !addr && hooks_wanted() && pgw__space_reclaim())
		p = __real_je_extent_alloc_mmap(addr, size, align, zero, commit);
	return p;
}

/* ---- on demand ---- */

/* In mallctl one batch follows for all arenas. At the end of the last thread of an arena, where it
 * is called too, nobody waits. */
void __wrap_je_arena_decay(void *tsdn, void *arena, bool is_background_thread, bool all)
{
	bool asked = all && in_ctl;

	if (asked)
		pgw__decay_hold();
	__real_je_arena_decay(tsdn, arena, is_background_thread, all);
	if (asked)
		pgw__decay_release();
	if (asked)
		demanded = true;
	else if (all)
		(void)pgw__purge_now();
}

static void ctl_done(void)
{
	in_ctl = false;
	if (direct)
		pgw__purge_direct_end();
	direct = false;
	if (!demanded)
		return;
	demanded = false;
	pgw__purge_everything();
}

int __wrap_je_ctl_byname(
    void *tsd, const char *name, void *oldp, size_t *oldlen, void *newp, size_t newlen)
{
	int err;

	in_ctl = true;
	err = __real_je_ctl_byname(tsd, name, oldp, oldlen, newp, newlen);
	ctl_done();
	return err;
}

int __wrap_je_ctl_bymib(void *tsd, const size_t *mib, size_t miblen, void *oldp, size_t *oldlen,
    void *newp, size_t newlen)
{
	int err;

	in_ctl = true;
	err = __real_je_ctl_bymib(tsd, mib, miblen, oldp, oldlen, newp, newlen);
	ctl_done();
	return err;
}

/* ---- public ---- */

/* Everything this thread can reach: its cache, what the arenas have decayed or would, and what is
 * pending. */
static int give_back(void)
{
	_Static_assert(MALLCTL_ARENAS_ALL == 4096, "the name below");
	(void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0); /* fails if it has none */
	return mallctl("arena.4096.purge", NULL, NULL, NULL, 0) ? -EINVAL : 0;
}

int pgw_alloc_purge(void)
{
	struct pgw_alloc_stats before, after;

	pgw_alloc_stats_get(&before);
	if (give_back())
		return -EINVAL;
	if (!hooks_wanted())
		return -EOPNOTSUPP;
	pgw_alloc_stats_get(&after);
	return after.kept_ranges > before.kept_ranges ? -EAGAIN : 0;
}

/* As malloc_trim(3): 1 if memory was given back. There is no heap whose top a pad could be left at;
 * jemalloc asks for space again when it needs some. */
__attribute__((visibility("default"))) int malloc_trim(size_t pad)
{
	struct pgw_alloc_stats before, after;
	int saved = errno;

	(void)pad;
	pgw_alloc_stats_get(&before);
	(void)give_back();
	pgw_alloc_stats_get(&after);
	errno = saved;
	return after.purged_ranges - after.kept_ranges > before.purged_ranges - before.kept_ranges;
}

int pgw_alloc_option_set(enum pgw_alloc_option option, uint64_t value)
{
	if (option == PGW_ALLOC_HOOKS || (option == PGW_ALLOC_THREAD && pgw__purger_running()))
		return -EPERM;
	return pgw__option_set(option, value);
}

/* ---- report ---- */

static void report_counters(struct pgw__json *j, const struct pgw_alloc_stats *s)
{
#define MEMBER(field) pgw__json_u64(j, #field, s->field)
	MEMBER(arenas);
	MEMBER(arenas_foreign);
	MEMBER(pending_hits);
	MEMBER(stale_hits);
	MEMBER(clean_hits);
	MEMBER(fresh_hits);
	MEMBER(failed);
	MEMBER(grown);
	MEMBER(head_rooms);
	MEMBER(fresh_maps);
	MEMBER(fresh_bytes);
	MEMBER(zeroed_bytes);
	MEMBER(given);
	MEMBER(given_bytes);
	MEMBER(held_bytes);
	MEMBER(pending_bytes);
	MEMBER(pending_bytes_peak);
	MEMBER(in_flight_bytes);
	MEMBER(clean_bytes);
	MEMBER(clean_bytes_peak);
	MEMBER(stale_bytes);
	MEMBER(lazy_bytes);
	MEMBER(lazy_hits);
	MEMBER(lazily_freed_bytes);
	MEMBER(purges);
	MEMBER(purged_ranges);
	MEMBER(purged_bytes);
	pgw__json_ratio(j, "ranges_per_purge", s->purged_ranges, s->purges);
	MEMBER(pressure_purges);
	MEMBER(inline_purges);
	MEMBER(kept_ranges);
	MEMBER(unmaps);
	MEMBER(unmapped_bytes);
	MEMBER(hides);
	MEMBER(hidden_hits);
	MEMBER(reclaims);
	MEMBER(threads);
	MEMBER(thread_fails);
	MEMBER(fork_flushes);
	MEMBER(raw_forks);
	MEMBER(prefaults);
	MEMBER(prefaulted_bytes);
#undef MEMBER
}

static void report(struct pgw__json *j)
{
	struct pgw_alloc_stats s;
	bool complete = pgw__space_stats_at_exit(&s);

	if (complete && !s.fresh_maps && !s.given)
		return;
	pgw__report_shim(j);
	if (complete) {
		report_counters(j, &s);
	} else {
		pgw__json_bool(j, "incomplete", true);
		pgw__json_u64(j, "held_bytes", s.held_bytes);
	}
	pgw__json_bool(j, "hooks", hooks_wanted());
}

__attribute__((constructor)) static void enter(void)
{
	pgw__report_register("alloc", report);
	pgw__mainthread_watch();
}

__attribute__((destructor)) static void leave(void)
{
	pgw__purger_exit();
}
