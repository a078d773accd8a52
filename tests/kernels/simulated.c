/* SPDX-License-Identifier: BSD-2-Clause
 *
 * simulated.c - the choice, the calls and the cost on kernels that cannot be booted here.
 *
 * Each kernel is a filter on the simulated kernel of tests/shim. Whatever it answers: every page is
 * advised, every status is true, and what was chosen has a reason. tests/shim has the driver's
 * corners; these are whole kernels, counted.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h needs those. */
#include <cmocka.h>

#include <pagewise/advise.h>
#include <pagewise/probe.h>
#include <pagewise/sync.h>

#include "costmodel.h"
#include "simkernel.h"
#include "sys.h"

enum { MANY = 1000 };

static struct pgw_range ranges[MANY];
static int status[MANY];
static struct pgw_advise_report report;

/* --- filters: true if they answer in the kernel's place --- */

static bool is_dontneed(const struct sim_args *a)
{
	return a->advice == 4;
}

static uint64_t sum_of(const struct sim_args *a)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->n; i++)
		sum += a->v[i].iov_len;
	return sum;
}

static bool no_call(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	(void)a;
	*answer = -ENOSYS;
	return call == SIM_PROCESS_MADVISE;
}

static bool dontneed_refused(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	*answer = -EPERM;
	return call == SIM_PROCESS_MADVISE && is_dontneed(a);
}

static bool eight_at_most(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	*answer = -EINVAL;
	return call == SIM_PROCESS_MADVISE && a->n > 8;
}

static bool pretends(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	if (call != SIM_PROCESS_MADVISE)
		return false;
	*answer = (int64_t)sum_of(a);
	return true;
}

static bool answers_zero(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	(void)a;
	*answer = 0;
	return call == SIM_PROCESS_MADVISE;
}

/* Does so many ranges and says so, as a kernel does that clips a call by bytes (Linux: 2 GiB less a
 * page, more than 1024 ranges of the size that is batched can hold) or is interrupted. */
enum { CLIP = 100 };

static bool clips(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	if (call != SIM_PROCESS_MADVISE || a->n <= CLIP)
		return false;
	*answer = pgw__sys.process_madvise(a->fd, a->v, CLIP, a->advice, a->flags);
	return true;
}

static bool no_sync_file_range(enum sim_call call, const struct sim_args *a, int64_t *answer)
{
	(void)a;
	*answer = -ENOSYS;
	return call == SIM_SYNC_FILE_RANGE;
}

/* --- advice --- */

struct kernel {
	const char *name;
	bool (*filter)(enum sim_call, const struct sim_args *, int64_t *);
	bool self_refused;    /* process_madvise, but not of one's own memory */
	enum pgw_route route; /* that the probe chooses */
	const char *reason;
	unsigned most_vectored; /* calls for MANY ranges */
	unsigned single;	/* exactly */
};

static const struct kernel kernels[] = {
	{ "all there", NULL, false, PGW_ROUTE_VECTORED, "PIDFD_SELF", 1, 0 },
	{ "no process_madvise", no_call, false, PGW_ROUTE_LOOP, "ENOSYS", 0, MANY },
	{ "self refused", NULL, true, PGW_ROUTE_LOOP, "EINVAL", 0, MANY },
	{ "DONTNEED refused", dontneed_refused, false, PGW_ROUTE_LOOP, "EPERM", 0, MANY },
	{ "fake success", pretends, false, PGW_ROUTE_LOOP, "", 0, MANY },
	{ "fake zero", answers_zero, false, PGW_ROUTE_LOOP, "answers 0", 0, MANY },
};

static void spread(void)
{
	for (size_t i = 0; i < MANY; i++)
		ranges[i] = sim_range(2 * i, 1);
}

static int advise(enum pgw_advice advice)
{
	sim_forget();
	memset(status, 0x55, sizeof(status));
	return pgw_advise(ranges, MANY, advice, status, &report);
}

/* The truth is what the kernel did to its pages, not what was answered. */
static void assert_done(void)
{
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(status[i], 0);
		assert_true(sim.advised[2 * i] > 0);
		assert_int_equal(sim.advised[2 * i + 1], 0);
	}
	assert_int_equal(report.failed_ranges, 0);
	assert_int_equal(report.done_bytes, (uint64_t)MANY * SIM_PAGE);
}

static void each_kernel(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
		const struct kernel *kern = &kernels[k];
		struct pgw_probe p;

		sim_install("auto");
		sim.intercept = kern->filter;
		if (kern->self_refused)
			memset(sim.takes_self, 0, sizeof(sim.takes_self));
		spread();
		assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
		if (p.route != kern->route || !strstr(p.reason, kern->reason))
			fail_msg("%s: %s: %s", kern->name, pgw_route_name(p.route), p.reason);
		assert_int_equal(advise(PGW_DONTNEED), 0);
		assert_done();
		if (sim.calls[SIM_PROCESS_MADVISE] > kern->most_vectored ||
		    sim.calls[SIM_MADVISE] != kern->single)
			fail_msg("%s: %u vectored and %u single calls", kern->name,
			    sim.calls[SIM_PROCESS_MADVISE], sim.calls[SIM_MADVISE]);
		sim_remove();
	}
}

static void one_advice_refused_is_one_advice(void **state)
{
	struct pgw_probe p;

	(void)state;
	sim_install("auto");
	sim.intercept = dontneed_refused;
	assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
	assert_int_equal(p.route, PGW_ROUTE_LOOP);
	assert_int_equal(pgw_probe(PGW_FREE, &p), 0);
	assert_int_equal(p.route, PGW_ROUTE_VECTORED);
	spread();
	assert_int_equal(advise(PGW_FREE), 0);
	assert_int_equal(sim.calls[SIM_PROCESS_MADVISE], 1);
	assert_int_equal(sim.calls[SIM_MADVISE], 0);
	assert_done();
	sim_remove();
}

/* The probe's two ranges pass, real batches do not. That the first range is not at fault shows when
 * madvise takes it; after a few such answers vectors are given up, with what was answered. */
static void no_vector_over_eight(void **state)
{
	struct pgw_probe p;

	(void)state;
	sim_install("auto");
	sim.intercept = eight_at_most;
	spread();
	assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
	assert_int_equal(p.route, PGW_ROUTE_VECTORED);
	assert_int_equal(advise(PGW_DONTNEED), 0);
	assert_done();
	assert_true(sim.calls[SIM_PROCESS_MADVISE] <= 16); /* not one for each range */
	assert_int_equal(pgw_probe(PGW_DONTNEED, &p), 0);
	assert_int_equal(p.route, PGW_ROUTE_LOOP);
	assert_int_equal(p.error, EINVAL);
	assert_non_null(strstr(p.reason, "EINVAL"));
	assert_int_equal(advise(PGW_DONTNEED), 0);
	assert_done();
	assert_int_equal(sim.calls[SIM_PROCESS_MADVISE], 0); /* and never again */
	assert_int_equal(sim.calls[SIM_MADVISE], MANY);
	sim_remove();
}

static void short_returns(void **state)
{
	(void)state;
	sim_install("auto");
	spread();
	sim.intercept = clips;
	assert_int_equal(advise(PGW_DONTNEED), 0);
	assert_done();
	assert_true(report.short_returns > 0);
	/* Resumed where it stopped: what is done is not done again. */
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(sim.advised[2 * i], 1);
	sim_remove();
}

/* --- sync --- */

static void without_sync_file_range(void **state)
{
	struct pgw_range storage[8];
	struct pgw_sync_file f;
	struct pgw_ranges set;

	(void)state;
	sim_install("auto");
	sim.intercept = no_sync_file_range;
	pgw_ranges_init_fixed(&set, storage, 8);
	for (size_t i = 0; i < 8; i++) {
		sim_dirty(100 * i, 1);
		assert_int_equal(pgw_ranges_add(&set, 100 * i * SIM_PAGE, SIM_PAGE), 0);
	}
	assert_int_equal(pgw_sync_init(&f, SIM_FILE_FD, sim.map,
			     (uint64_t)SIM_FILE_PAGES * SIM_PAGE, PGW_SYNC_AUTO),
	    0);
	assert_int_equal(f.strategy, PGW_SYNC_FDATASYNC);
	assert_non_null(strstr(f.reason, "sync_file_range"));
	sim_forget();
	assert_int_equal(pgw_sync(&f, &set, NULL), 0);
	assert_int_equal(sim.calls[SIM_FDATASYNC], 1);
	assert_int_equal(sim.calls[SIM_SYNC_FILE_RANGE] + sim.calls[SIM_MSYNC], 0);
	for (size_t i = 0; i < 8; i++)
		assert_true(sim_is_durable(100 * i, 1));
	sim_remove();
}

static void commit_cost(
    uint64_t extent, uint64_t resident, enum pgw_sync_strategy s, struct costmodel_sync *out)
{
	struct pgw_range storage[3];
	struct pgw_ranges set;

	pgw_ranges_init_fixed(&set, storage, 3);
	assert_int_equal(pgw_ranges_add(&set, 0, COSTMODEL_PAGE), 0);
	assert_int_equal(pgw_ranges_add(&set, extent / 2 * COSTMODEL_PAGE, COSTMODEL_PAGE), 0);
	assert_int_equal(pgw_ranges_add(&set, (extent - 1) * COSTMODEL_PAGE, COSTMODEL_PAGE), 0);
	assert_int_equal(costmodel_sync(extent, resident, &set, s, out), 0);
	assert_int_equal(out->others, 0);
}

/* Where msync costs the extent, naming the ranges saves nearly all of it, changed kernel or not;
 * where it walks what is resident, little is left to save. */
static void msync_that_costs_the_extent(void **state)
{
	const uint64_t extent = COSTMODEL_PUBLISHED_PAGES, resident = 1 << 16;
	struct costmodel_sync span, per_range;

	(void)state;
	commit_cost(extent, resident, PGW_SYNC_SPAN, &span);
	commit_cost(extent, resident, PGW_SYNC_PER_RANGE, &per_range);
	assert_int_equal(span.calls, 1);
	assert_int_equal(span.lookups, 2 * extent);
	assert_int_equal(span.visited, resident);
	assert_int_equal(per_range.calls, 3);
	assert_int_equal(per_range.lookups, 6);
	assert_int_equal(per_range.visited, 3);
}

/* The constant is fitted to the first published pair: the second must come out of it. */
static void the_model_meets_the_figures(void **state)
{
	struct costmodel_sync c = { .lookups = 2 * COSTMODEL_PUBLISHED_PAGES };
	double saved = costmodel_stock_ms(&c) - COSTMODEL_PUBLISHED_WALK;
	double published = COSTMODEL_PUBLISHED2_STOCK - COSTMODEL_PUBLISHED2_WALK;

	(void)state;
	assert_true(costmodel_stock_ms(&c) > COSTMODEL_PUBLISHED_STOCK - 0.01);
	assert_true(costmodel_stock_ms(&c) < COSTMODEL_PUBLISHED_STOCK + 0.01);
	assert_true(saved > 0.98 * published && saved < 1.02 * published);
}

static void advice_by_page_and_by_range(void **state)
{
	struct costmodel_advise c;

	(void)state;
	spread();
	assert_int_equal(costmodel_advise(ranges, MANY, &c), 0);
	assert_int_equal(c.calls, MANY);
	assert_int_equal(c.range_locks, MANY);
	for (size_t i = 0; i < MANY; i++)
		ranges[i] = sim_range(i, 1);
	assert_int_equal(costmodel_advise(ranges, MANY, &c), 0);
	assert_int_equal(c.calls, 1); /* neighbours are joined before the kernel sees them */
	assert_int_equal(c.page_locks, MANY);
	assert_int_equal(c.range_locks, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kernel),
		cmocka_unit_test(one_advice_refused_is_one_advice),
		cmocka_unit_test(no_vector_over_eight),
		cmocka_unit_test(short_returns),
		cmocka_unit_test(without_sync_file_range),
		cmocka_unit_test(msync_that_costs_the_extent),
		cmocka_unit_test(the_model_meets_the_figures),
		cmocka_unit_test(advice_by_page_and_by_range),
	};

	sim_or_skip();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
