/* SPDX-License-Identifier: BSD-2-Clause
 *
 * lazy.c - memory that is freed lazily first (advice:free), without jemalloc: system calls are
 * counted and can be made to fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "options.h"
#include "purge.h"
#include "space.h"
#include "sys.h"

#define PAGE ((size_t)4096)
#define N    20

static struct {
	int free_err; /* what MADV_FREE gives, if it is not 0 */
	size_t freed, dropped, calls;
} sim;

static int advised(void *addr, size_t len, int advice)
{
	if (advice == MADV_FREE && sim.free_err)
		return sim.free_err;
	sim.freed += advice == MADV_FREE ? len : 0;
	sim.dropped += advice == MADV_DONTNEED ? len : 0;
	return pgw__sys_real.madvise(addr, len, advice);
}

static int sim_madvise(void *addr, size_t len, int advice)
{
	sim.calls++;
	return advised(addr, len, advice);
}

/* As the kernel does it: up to the first bad range. */
static int64_t sim_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	int64_t done = 0;

	(void)pidfd, (void)flags;
	sim.calls++;
	for (size_t i = 0; i < n; i++) {
		int err = advised(v[i].iov_base, v[i].iov_len, advice);

		if (err)
			return done ? done : err;
		done += (int64_t)v[i].iov_len;
	}
	return done;
}

static int set_up(void **state)
{
	struct pgw_probe p;

	(void)state;
	pgw_dontneed_zeroes(); /* both are probed on the real kernel, before anything fails */
	pgw_probe(PGW_FREE, &p);
	pgw__space_reset();
	memset(&sim, 0, sizeof(sim));
	pgw__sys.madvise = sim_madvise;
	pgw__sys.process_madvise = sim_process_madvise;
	pgw__option_set(PGW_ALLOC_ADVICE, 1);
	return 0;
}

static struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

/* N pages, every other one of 2 N, are pending; the rest is held. */
static unsigned char *give(void)
{
	struct pgw__space_view v;
	bool zero = false;
	unsigned char *p = pgw__space_alloc(NULL, 2 * N * PAGE, PAGE, &zero);

	assert_non_null(p);
	memset(p, 0xa5, 2 * N * PAGE);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(pgw__space_give(p + 2 * i * PAGE, PAGE, &v), 0);
	return p;
}

static void twice(void **state)
{
	(void)state;
	give();
	pgw__purge_all(0, UINT64_MAX);
	assert_int_equal(sim.freed, N * PAGE);
	assert_int_equal(sim.dropped, 0);
	assert_int_equal(stats().lazy_bytes, N * PAGE);
	assert_int_equal(stats().lazily_freed_bytes, N * PAGE);
	assert_int_equal(stats().purged_bytes, 0);
	assert_int_equal(pgw__purge_lazy(0), 0); /* nothing is that old */
	assert_int_equal(pgw__purge_lazy(UINT64_MAX), N);
	assert_int_equal(sim.dropped, N * PAGE);
	assert_int_equal(stats().lazy_bytes, 0);
	assert_int_equal(stats().purged_bytes, N * PAGE);
}

/* Both purges are batches, where the kernel takes them. */
static void vectored(void **state)
{
	struct pgw_probe p;

	(void)state;
	pgw_probe(PGW_FREE, &p);
	if (p.route != PGW_ROUTE_VECTORED)
		skip();
	give();
	pgw__purge_all(0, UINT64_MAX);
	assert_int_equal(sim.calls, 1);
	pgw__purge_lazy(UINT64_MAX);
	assert_int_equal(sim.calls, 2);
}

static void at_once(void **state)
{
	(void)state;
	give();
	pgw__purge_all(0, UINT64_MAX);
	give();
	assert_int_equal(pgw__purge_now(), 2 * N);
	assert_int_equal(sim.dropped, 2 * N * PAGE);
	assert_int_equal(stats().lazy_bytes + stats().pending_bytes, 0);
}

static void serves(void **state)
{
	unsigned char *p = give(), *q;
	bool zero = false;

	(void)state;
	pgw__purge_all(0, UINT64_MAX);
	q = pgw__space_alloc(NULL, PAGE, PAGE, &zero);
	assert_ptr_equal(q, p); /* the lowest */
	assert_false(zero);
	assert_int_equal(stats().lazy_hits, 1);
	zero = true;
	q = pgw__space_alloc(NULL, PAGE, PAGE, &zero);
	assert_ptr_equal(q, p + 2 * PAGE);
	assert_true(zero);
	for (size_t i = 0; i < PAGE; i++)
		assert_int_equal(q[i], 0);
	assert_int_equal(stats().lazy_hits, 2);
	assert_int_equal(stats().lazy_bytes, (N - 2) * PAGE);
}

static void refused(void **state)
{
	(void)state;
	sim.free_err = -EINVAL; /* locked */
	give();
	pgw__purge_all(0, UINT64_MAX);
	assert_int_equal(stats().lazy_bytes, 0);
	assert_int_equal(stats().stale_bytes, N * PAGE);
	assert_int_equal(stats().kept_ranges, N);
}

/* A deadline for what is lazy is there as long as something is. */
static void seen(void **state)
{
	(void)state;
	give();
	assert_int_equal(pgw__space_look().lazy_ranges, 0);
	pgw__purge_all(0, UINT64_MAX);
	assert_int_equal(pgw__space_look().lazy_ranges, N);
	assert_true(pgw__space_look().lazy_oldest_ms > 0);
	assert_int_equal(pgw__space_look().pending_ranges, 0);
	pgw__purge_now();
	assert_int_equal(pgw__space_look().lazy_ranges, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(twice, set_up),
		cmocka_unit_test_setup(vectored, set_up),
		cmocka_unit_test_setup(at_once, set_up),
		cmocka_unit_test_setup(serves, set_up),
		cmocka_unit_test_setup(refused, set_up),
		cmocka_unit_test_setup(seen, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
