/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space.c - the states of free space, without jemalloc: real memory, and system calls that can be
 * made to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pagewise/probe.h>

#include "options.h"
#include "purge.h"
#include "space.h"
#include "sys.h"

#define PAGE ((size_t)4096)
#define MIB  ((size_t)1 << 20)

/* ---- system calls that fail ---- */

static struct {
	int madvise_err;    /* every DONTNEED gives this, if it is not 0 */
	uint64_t bad_start; /* only if the range covers this, if it is not 0 */
	size_t map_limit;   /* mapping more than this in one call gives ENOMEM, if it is not 0 */
	size_t space_limit; /* as RLIMIT_AS: mapped bytes, if it is not 0 */
	size_t mapped;
	int unmap_err;
	int maps, unmaps;
} sim;

static int sim_madvise(void *addr, size_t len, int advice)
{
	uint64_t start = (uint64_t)addr;

	if (advice == MADV_DONTNEED && sim.madvise_err &&
	    (!sim.bad_start || (start <= sim.bad_start && sim.bad_start - start < len)))
		return sim.madvise_err;
	return pgw__sys_real.madvise(addr, len, advice);
}

static int64_t sim_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	(void)pidfd, (void)v, (void)n, (void)advice, (void)flags;
	return -ENOSYS;
}

static int sim_map(void *addr, size_t len, int prot, int flags, void **out)
{
	int err;

	if ((sim.map_limit && len > sim.map_limit) ||
	    (sim.space_limit && sim.mapped + len > sim.space_limit))
		return -ENOMEM;
	err = pgw__sys_real.map_anon(addr, len, prot, flags, out);
	sim.mapped += err ? 0 : len;
	sim.maps += !err;
	return err;
}

static int sim_unmap(void *addr, size_t len)
{
	if (sim.unmap_err)
		return sim.unmap_err;
	sim.mapped -= len;
	sim.unmaps++;
	return pgw__sys_real.unmap(addr, len);
}

static int set_up(void **state)
{
	(void)state;
	pgw_dontneed_zeroes(); /* probed on the real kernel, before anything fails */
	pgw__space_reset();
	memset(&sim, 0, sizeof(sim));
	pgw__sys.madvise = sim_madvise;
	pgw__sys.process_madvise = sim_process_madvise;
	pgw__sys.map_anon = sim_map;
	pgw__sys.unmap = sim_unmap;
	pgw__option_set(PGW_ALLOC_PENDING, 4 * MIB);
	pgw__option_set(PGW_ALLOC_SHARE, 3);
	pgw__option_set(PGW_ALLOC_CLEAN, 1024 * MIB);
	pgw__option_set(PGW_ALLOC_CHUNK, 2 * MIB);
	return 0;
}

/* ---- helpers ---- */

static struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

static bool reads_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

static unsigned char *get(size_t size, size_t align, bool want_zero, bool *zero)
{
	unsigned char *p;

	*zero = want_zero;
	p = pgw__space_alloc(NULL, size, align, zero);
	if (p) {
		assert_int_equal((uintptr_t)p % align, 0);
		if (*zero)
			assert_true(reads_zero(p, size));
		else
			assert_false(want_zero);
	}
	return p;
}

/* A dirty range of our own. */
static unsigned char *dirty(size_t size)
{
	bool zero;
	unsigned char *p = get(size, PAGE, false, &zero);

	assert_non_null(p);
	memset(p, 0xa5, size);
	return p;
}

static struct pgw__space_view give(void *p, size_t size)
{
	struct pgw__space_view v;

	assert_int_equal(pgw__space_give(p, size, &v), 0);
	return v;
}

static void purge(void)
{
	pgw__purge_all(0, UINT64_MAX);
}

/* ---- tests ---- */

static void pending_serves_first(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	assert_int_equal(give(a, 4 * PAGE).pending_bytes, 4 * PAGE);
	assert_ptr_equal(get(4 * PAGE, PAGE, false, &zero), a);
	assert_false(zero);
	assert_int_equal(a[0], 0xa5); /* not purged, not cleared */
	assert_int_equal(stats().pending_hits, 1);
	assert_int_equal(stats().purges, 0);
}

static void zero_is_honoured_from_pending(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	give(a, 4 * PAGE);
	assert_ptr_equal(get(4 * PAGE, PAGE, true, &zero), a);
	assert_int_equal(stats().zeroed_bytes, 4 * PAGE);
}

/* Much zeroed memory is not cleared by hand as long as there is another way. */
static void large_zero_avoids_pending(void **state)
{
	unsigned char *a = dirty(MIB), *b;
	bool zero;

	(void)state;
	give(a, MIB);
	b = get(MIB, PAGE, true, &zero);
	assert_ptr_not_equal(a, b);
	assert_int_equal(stats().zeroed_bytes, 0);
	sim.map_limit = 1; /* nothing to be had any more: then by hand */
	while (get(MIB, PAGE, true, &zero) != a)
		assert_int_equal(stats().zeroed_bytes, 0);
	assert_int_equal(stats().zeroed_bytes, MIB);
}

/* A pending range is not cut up for a much smaller request, unless there is nothing else. */
static void pending_is_not_cut_up(void **state)
{
	unsigned char *a = dirty(64 * PAGE);
	bool zero;

	(void)state;
	give(a, 64 * PAGE);
	assert_ptr_not_equal(get(32 * PAGE, PAGE, false, &zero), a);
	assert_ptr_equal(get(61 * PAGE, PAGE, false, &zero), a);
	give(a, 61 * PAGE);
	sim.map_limit = 1;
	while (get(8 * PAGE, PAGE, false, &zero) != a)
		;
	assert_int_equal(stats().reclaims, 0);
}

static void purged_becomes_clean(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	give(a, 4 * PAGE);
	purge();
	assert_int_equal(stats().purged_bytes, 4 * PAGE);
	assert_int_equal(stats().pending_bytes, 0);
	assert_int_equal(stats().in_flight_bytes, 0);
	assert_true(reads_zero(a, 4 * PAGE));
	assert_non_null(get(4 * PAGE, PAGE, true, &zero));
	assert_int_equal(stats().clean_hits, 1);
	assert_int_equal(stats().zeroed_bytes, 0);
}

/* What the kernel did not do is not clean: cleared by hand if need be, and served before clean. */
static void refused_becomes_stale(void **state)
{
	unsigned char *a = dirty(4 * PAGE);
	bool zero;

	(void)state;
	sim.madvise_err = -EINVAL; /* as for locked memory */
	give(a, 4 * PAGE);
	purge();
	assert_int_equal(stats().kept_ranges, 1);
	assert_int_equal(stats().stale_bytes, 4 * PAGE);
	assert_int_equal(a[PAGE], 0xa5);
	assert_ptr_equal(get(4 * PAGE, PAGE, false, &zero), a);
	assert_false(zero);
	assert_int_equal(stats().stale_hits, 1);
	give(a, 4 * PAGE);
	purge();
	sim.map_limit = 1;
	while (get(PAGE, PAGE, true, &zero) != a)
		;
}

/* One bad range among many costs only itself. */
static void one_bad_range(void **state)
{
	unsigned char *a = dirty(64 * PAGE);

	(void)state;
	sim.madvise_err = -EINVAL;
	sim.bad_start = (uint64_t)a + 20 * PAGE;
	for (size_t i = 0; i < 64; i += 2)
		give(a + i * PAGE, PAGE);
	purge();
	assert_int_equal(stats().purged_ranges, 32);
	assert_int_equal(stats().kept_ranges, 1);
	assert_int_equal(stats().stale_bytes, PAGE);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(a[i * PAGE], i % 2 == 0 && i != 20 ? 0 : 0xa5);
}

static void at_a_place(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	bool zero = false;

	(void)state;
	assert_null(pgw__space_alloc(a + PAGE, PAGE, PAGE, &zero)); /* ours, not free */
	assert_int_equal(stats().failed, 1);
	give(a + 4 * PAGE, 4 * PAGE);
	assert_ptr_equal(pgw__space_alloc(a + 4 * PAGE, 2 * PAGE, PAGE, &zero), a + 4 * PAGE);
	assert_false(zero);
	assert_int_equal(stats().pending_bytes, 2 * PAGE);
	give(a + 4 * PAGE, 2 * PAGE);
}

/* Side by side: clean, stale and pending, asked for as one; with zeroes. */
static void at_a_place_from_several_pools(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	bool zero = true;

	(void)state;
	give(a + 2 * PAGE, 2 * PAGE);
	purge();
	sim.madvise_err = -EINVAL;
	give(a + 4 * PAGE, 2 * PAGE);
	purge();
	give(a + 6 * PAGE, 2 * PAGE);
	assert_ptr_equal(pgw__space_alloc(a + 2 * PAGE, 6 * PAGE, PAGE, &zero), a + 2 * PAGE);
	assert_true(zero);
	assert_true(reads_zero(a + 2 * PAGE, 6 * PAGE));
	assert_int_equal(a[0], 0xa5);
	assert_int_equal(stats().zeroed_bytes, 4 * PAGE);
	assert_int_equal(stats().pending_bytes + stats().stale_bytes, 0);
}

/* It fails half way: what was taken already goes back to where it was. */
static void at_a_place_undone(void **state)
{
	unsigned char *a = dirty(2 * MIB); /* a whole chunk: behind it is no space of ours */
	struct pgw_alloc_stats before;
	bool zero = false;
	void *wall;

	(void)state;
	give(a + 2 * MIB - 2 * PAGE, 2 * PAGE);
	before = stats();
	/* Make sure that there is something right behind. It may be there already. */
	(void)pgw__sys_real.map_anon(
	    a + 2 * MIB, PAGE, PROT_NONE, 0x100000 /* MAP_FIXED_NOREPLACE */, &wall);
	assert_null(pgw__space_alloc(a + 2 * MIB - 2 * PAGE, 4 * PAGE, PAGE, &zero));
	assert_int_equal(stats().pending_bytes, before.pending_bytes);
	assert_int_equal(stats().pending_ranges, before.pending_ranges);
	assert_int_equal(stats().held_bytes, before.held_bytes);
}

static void at_a_place_that_is_not_mapped(void **state)
{
	unsigned char *a;
	bool zero = true;
	void *hole;

	(void)state;
	assert_int_equal(pgw__sys_real.map_anon(NULL, 4 * MIB, PROT_NONE, 0, &hole), 0);
	assert_int_equal(pgw__sys_real.unmap(hole, 4 * MIB), 0);
	a = (unsigned char *)hole + MIB;
	assert_ptr_equal(pgw__space_alloc(a, 2 * PAGE, PAGE, &zero), a);
	assert_true(reads_zero(a, 2 * PAGE));
	assert_int_equal(stats().fresh_hits, 1);
	give(a, 2 * PAGE);
}

static void aligned(void **state)
{
	static const size_t aligns[] = { PAGE, 16 * PAGE, 2 * MIB, 64 * MIB };
	bool zero;

	(void)state;
	for (size_t i = 0; i < sizeof(aligns) / sizeof(*aligns); i++) {
		unsigned char *p = get(3 * PAGE, aligns[i], true, &zero);

		assert_non_null(p);
		give(p, 3 * PAGE);
	}
}

static void few_mappings(void **state)
{
	bool zero;

	(void)state;
	for (size_t i = 0; i < 400; i++)
		assert_non_null(get(4 * PAGE, PAGE, false, &zero));
	assert_true(sim.maps <= 4); /* 6.25 MiB, and perhaps a slab */
	assert_int_equal(stats().fresh_hits + stats().clean_hits, 400);
}

/* A chunk cannot be had, what is needed can. */
static void small_pieces_when_space_is_short(void **state)
{
	bool zero;

	(void)state;
	sim.map_limit = 64 * PAGE;
	assert_non_null(get(10 * PAGE, PAGE, true, &zero));
	assert_int_equal(stats().fresh_bytes, 10 * PAGE);
	assert_null(get(65 * PAGE, PAGE, true, &zero));
}

/* The address space is full of clean pieces that are too small: they are unmapped for the request.
 */
static void reclaim_before_failing(void **state)
{
	unsigned char *a;
	bool zero;

	(void)state;
	sim.space_limit = 8 * MIB;
	a = dirty(6 * MIB);
	for (size_t i = 0; i < 5; i++)
		give(a + i * MIB, MIB - PAGE);
	assert_null(get(15 * MIB / 2, PAGE, true, &zero)); /* cannot be, and nothing breaks */
	assert_true(stats().reclaims >= 1);
	assert_true(stats().unmapped_bytes >= 5 * (MIB - PAGE));
	assert_int_equal(stats().pending_bytes, 0);
	assert_non_null(get(6 * MIB, PAGE, true, &zero));
}

static void clean_space_is_bounded(void **state)
{
	unsigned char *a = dirty(16 * MIB);

	(void)state;
	pgw__option_set(PGW_ALLOC_CLEAN, 4 * MIB);
	give(a, 16 * MIB);
	purge();
	assert_true(stats().clean_bytes <= 4 * MIB);
	assert_true(stats().clean_bytes >= 3 * MIB - PAGE);
	assert_true(stats().unmapped_bytes >= 12 * MIB);
}

/* At the limit of mappings munmap fails: the range stays clean, and this ends. */
static void unmap_fails(void **state)
{
	unsigned char *a = dirty(16 * MIB);
	bool zero;

	(void)state;
	pgw__option_set(PGW_ALLOC_CLEAN, 4 * MIB);
	sim.unmap_err = -ENOMEM;
	give(a, 16 * MIB);
	purge();
	assert_int_equal(stats().unmaps, 0);
	assert_true(stats().clean_bytes >= 16 * MIB);
	assert_ptr_equal(get(16 * MIB, PAGE, true, &zero), a);
}

static void limit_follows_what_is_held(void **state)
{
	unsigned char *a = dirty(MIB), *b;
	struct pgw__space_view v;

	(void)state;
	pgw__option_set(PGW_ALLOC_PENDING, MIB / 2);
	v = give(a, MIB);
	assert_int_equal(v.limit, MIB / 2);
	assert_true(pgw__space_over(&v));
	b = dirty(100 * MIB);
	v = pgw__space_look();
	assert_in_range(v.limit, 2 * MIB, 3 * MIB + PAGE);
	assert_false(pgw__space_over(&v));
	give(b, 100 * MIB);
}

static void take_stops_at_target_and_cutoff(void **state)
{
	struct pgw_range ranges[4];
	int status[4] = { 0 };
	struct pgw__extent *extents[4];
	struct pgw__batch b = { .ranges = ranges, .status = status, .extents = extents, .cap = 4 };
	unsigned char *a = dirty(32 * PAGE);

	(void)state;
	for (size_t i = 0; i < 32; i += 2)
		give(a + (i ^ 2) * PAGE, PAGE); /* each second one before the first */
	assert_int_equal(pgw__space_take(&b, 16 * PAGE, 0), 0);
	assert_int_equal(pgw__space_take(&b, 14 * PAGE, 0), 2);
	assert_int_equal(stats().in_flight_bytes, 2 * PAGE);
	/* The oldest two, in ascending order. */
	assert_int_equal(ranges[0].start, (uint64_t)a);
	assert_int_equal(ranges[1].start, (uint64_t)a + 2 * PAGE);
	memset(a, 0, PAGE); /* what the status says was done */
	memset(a + 2 * PAGE, 0, PAGE);
	pgw__space_put(&b);
	assert_int_equal(pgw__space_take(&b, UINT64_MAX, UINT64_MAX), 4);
	status[1] = -EIO;
	for (size_t i = 0; i < 4; i++)
		memset((void *)ranges[i].start, 0, PAGE);
	pgw__space_put(&b);
	assert_int_equal(stats().stale_ranges, 1);
}

/* More than fits in one batch, without being pending in between; and meanwhile a purge by somebody
 * else, who does without the large batch. */
static void purged_directly(void **state)
{
	enum { N = 1030 };
	unsigned char *a = dirty(2 * N * PAGE), *b = dirty(PAGE);

	(void)state;
	assert_true(pgw__purge_direct_begin());
	assert_false(pgw__purge_direct_begin());
	for (size_t i = 0; i < N; i++)
		assert_int_equal(pgw__purge_direct_add(a + 2 * (i * 7 % N) * PAGE, PAGE), 0);
	assert_int_equal(stats().pending_bytes_peak, 0);
	assert_int_equal(stats().in_flight_bytes, (N - 1024) * PAGE);
	assert_int_equal(stats().purges, 1);
	give(b, PAGE);
	purge();
	assert_int_equal(stats().purged_bytes, 1025 * PAGE);
	pgw__purge_direct_end();
	assert_int_equal(stats().in_flight_bytes, 0);
	assert_int_equal(stats().purged_bytes, (N + 1) * PAGE);
	for (size_t i = 0; i < 2 * N; i++)
		assert_int_equal(a[i * PAGE], i % 2 ? 0xa5 : 0);
	assert_true(pgw__purge_direct_begin());
	pgw__purge_direct_end();
	assert_int_equal(stats().purges, 3);
}

static void aborts(void (*misuse)(unsigned char *a), unsigned char *a)
{
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		(void)!close(STDERR_FILENO);
		misuse(a);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGABRT);
}

static void give_twice(unsigned char *a)
{
	struct pgw__space_view v;

	(void)pgw__space_give(a, 4 * PAGE, &v);
	(void)pgw__space_give(a + PAGE, PAGE, &v);
}

static void fly_into_the_next(unsigned char *a)
{
	(void)pgw__purge_direct_begin();
	(void)pgw__purge_direct_add(a + 2 * PAGE, PAGE);
	(void)pgw__purge_direct_add(a + PAGE, 2 * PAGE);
}

static void fly_into_the_last(unsigned char *a)
{
	(void)pgw__purge_direct_begin();
	(void)pgw__purge_direct_add(a, 2 * PAGE);
	(void)pgw__purge_direct_add(a + PAGE, PAGE);
}

static void given_twice_aborts(void **state)
{
	unsigned char *a = dirty(4 * PAGE);

	(void)state;
	aborts(give_twice, a);
	aborts(fly_into_the_next, a);
	aborts(fly_into_the_last, a);
}

/* A child goes on with what was in flight in its parent, and does not wait for anybody. */
static void child_has_nothing_in_flight(void **state)
{
	struct pgw_range ranges[4];
	int status[4] = { 0 };
	struct pgw__extent *extents[4];
	struct pgw__batch b = { .ranges = ranges, .status = status, .extents = extents, .cap = 4 };
	unsigned char *a = dirty(8 * PAGE);
	uint64_t generation = pgw__space_generation();
	pid_t pid;
	int st;

	(void)state;
	give(a, 2 * PAGE);
	assert_int_equal(pgw__space_take(&b, 0, 0), 1);
	pgw__space_fork_prepare();
	pid = fork();
	if (pid == 0) {
		struct pgw_alloc_stats s;

		pgw__space_fork_child();
		s = stats();
		pgw__space_drain();
		_exit(s.in_flight_bytes == 0 && s.pending_bytes == 2 * PAGE && s.raw_forks == 0 &&
			      pgw__space_generation() != generation
			  ? 0
			  : 1);
	}
	pgw__space_fork_parent();
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(pgw__space_generation(), generation);
	status[0] = -EIO;
	pgw__space_put(&b);
	assert_int_equal(stats().stale_bytes, 2 * PAGE);
}

/* _Fork, at the worst moment: the lock is held. */
static void raw_child_of_a_locked_parent(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	pid_t pid;
	int st;

	(void)state;
	give(a, 8 * PAGE);
	(void)pgw__space_lock_and_view();
	pid = _Fork();
	if (pid == 0) {
		bool zero = true;
		struct pgw_alloc_stats s;
		unsigned char *p;

		alarm(20);
		s = stats();
		p = pgw__space_alloc(NULL, PAGE, PAGE, &zero);
		_exit(s.raw_forks == 1 && s.pending_bytes == 0 && p && reads_zero(p, PAGE) ? 0 : 1);
	}
	pgw__space_unlock();
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(stats().pending_bytes, 8 * PAGE);
	assert_int_equal(stats().raw_forks, 0);
}

/* _Fork, between two calls: nothing is lost. */
static void raw_child_keeps_what_is_whole(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	pid_t pid;
	int st;

	(void)state;
	give(a, 8 * PAGE);
	pid = _Fork();
	if (pid == 0) {
		bool zero = false;

		alarm(20);
		_exit(pgw__space_alloc(NULL, 8 * PAGE, PAGE, &zero) == a ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

/* exit in a signal handler, in the middle of a hook: the report must not wait for itself. */
static void counters_at_exit_with_the_lock_held(void **state)
{
	struct pgw_alloc_stats s;

	(void)state;
	give(dirty(8 * PAGE), 8 * PAGE);
	(void)pgw__space_lock_and_view();
	alarm(60);
	assert_false(pgw__space_stats_at_exit(&s));
	alarm(0);
	assert_int_equal(s.held_bytes, pgw__space_held());
	assert_int_equal(s.given, 0);
	pgw__space_unlock();
	assert_true(pgw__space_stats_at_exit(&s));
	assert_int_equal(s.given, 1);
	assert_int_equal(s.pending_bytes, 8 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pending_serves_first, set_up),
		cmocka_unit_test_setup(zero_is_honoured_from_pending, set_up),
		cmocka_unit_test_setup(large_zero_avoids_pending, set_up),
		cmocka_unit_test_setup(pending_is_not_cut_up, set_up),
		cmocka_unit_test_setup(purged_becomes_clean, set_up),
		cmocka_unit_test_setup(refused_becomes_stale, set_up),
		cmocka_unit_test_setup(one_bad_range, set_up),
		cmocka_unit_test_setup(at_a_place, set_up),
		cmocka_unit_test_setup(at_a_place_from_several_pools, set_up),
		cmocka_unit_test_setup(at_a_place_undone, set_up),
		cmocka_unit_test_setup(at_a_place_that_is_not_mapped, set_up),
		cmocka_unit_test_setup(aligned, set_up),
		cmocka_unit_test_setup(few_mappings, set_up),
		cmocka_unit_test_setup(small_pieces_when_space_is_short, set_up),
		cmocka_unit_test_setup(reclaim_before_failing, set_up),
		cmocka_unit_test_setup(clean_space_is_bounded, set_up),
		cmocka_unit_test_setup(unmap_fails, set_up),
		cmocka_unit_test_setup(limit_follows_what_is_held, set_up),
		cmocka_unit_test_setup(take_stops_at_target_and_cutoff, set_up),
		cmocka_unit_test_setup(purged_directly, set_up),
		cmocka_unit_test_setup(given_twice_aborts, set_up),
		cmocka_unit_test_setup(child_has_nothing_in_flight, set_up),
		cmocka_unit_test_setup(raw_child_of_a_locked_parent, set_up),
		cmocka_unit_test_setup(raw_child_keeps_what_is_whole, set_up),
		cmocka_unit_test_setup(counters_at_exit_with_the_lock_held, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
