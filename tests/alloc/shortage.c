/* SPDX-License-Identifier: BSD-2-Clause
 *
 * shortage.c - mmap that fails for want of memory, without jemalloc: what is free makes room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <pagewise/probe.h>

#include "growth.h"
#include "options.h"
#include "purge.h"
#include "space.h"
#include "sys.h"

#define PAGE ((size_t)4096)
#define MIB  ((size_t)1 << 20)

/* As RLIMIT_AS: bytes that may be mapped. */
static _Atomic size_t limit, mapped;
static atomic_int refusals;

static int sim_map(void *addr, size_t len, int prot, int flags, void **out)
{
	int err;

	if (atomic_load(&mapped) + len > atomic_load(&limit)) {
		atomic_fetch_add(&refusals, 1);
		return -ENOMEM;
	}
	err = pgw__sys_real.map_anon(addr, len, prot, flags, out);
	if (!err)
		atomic_fetch_add(&mapped, len);
	return err;
}

static int sim_unmap(void *addr, size_t len)
{
	atomic_fetch_sub(&mapped, len);
	return pgw__sys_real.unmap(addr, len);
}

static int set_up(void **state)
{
	(void)state;
	pgw_dontneed_zeroes();
	pgw__space_reset();
	limit = SIZE_MAX / 2;
	mapped = 0;
	refusals = 0;
	pgw__sys.map_anon = sim_map;
	pgw__sys.unmap = sim_unmap;
	pgw__option_set(PGW_ALLOC_CHUNK, 64 << 10);
	return 0;
}

static unsigned char *get(void *at, size_t size)
{
	bool zero = false;
	unsigned char *p = pgw__space_alloc(at, size, PAGE, &zero);

	if (p)
		memset(p, 0xa5, size);
	return p;
}

static void give(void *p, size_t size)
{
	struct pgw__space_view v;

	assert_int_equal(pgw__space_give(p, size, &v), 0);
}

static struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

/* All there is, in pieces of 2 MiB, in flight in another thread, which has it done once the request has
 * been refused twice: when it was made, and after what was free (nothing) had been unmapped. */
static struct pgw_range ranges[8];
static int status[8];
static struct pgw__extent *extents[8];
static struct pgw__batch batch = {
	.ranges = ranges, .status = status, .extents = extents, .cap = 8
};

static void *put_later(void *arg)
{
	struct timespec t = { 0, 1000 * 1000 };

	(void)arg;
	while (!atomic_load(&refusals))
		nanosleep(&t, NULL);
	t.tv_nsec = 50 * 1000 * 1000;
	nanosleep(&t, NULL);
	pgw__space_put(&batch);
	return NULL;
}

static void waits_rather_than_fail(void **state)
{
	unsigned char *a = get(NULL, 16 * MIB);
	pthread_t t;

	(void)state;
	assert_non_null(a);
	for (size_t i = 0; i < 8; i++)
		give(a + i * 2 * MIB, 2 * MIB - PAGE);
	assert_int_equal(pgw__space_take(&batch, 0, UINT64_MAX), 8);
	limit = atomic_load(&mapped);
	assert_int_equal(pthread_create(&t, NULL, put_later, NULL), 0);
	assert_non_null(get(NULL, 10 * MIB));
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(stats().in_flight_bytes, 0);
	assert_true(stats().unmapped_bytes >= 10 * MIB);
}

/* Nothing in flight, nothing free: it fails, and says so once. */
static void fails_at_last(void **state)
{
	(void)state;
	assert_non_null(get(NULL, MIB));
	limit = atomic_load(&mapped);
	assert_null(get(NULL, MIB));
	assert_int_equal(stats().failed, 1);
}

/* To grow in place takes less than to move. */
static void grows_in_place(void **state)
{
	unsigned char *a = get(NULL, 8 * MIB), *b;
	struct pgw_alloc_stats s;

	(void)state;
	if (!PGW__GROWTH_PLACES)
		skip();
	assert_non_null(a);
	/* Where nothing is behind: as a block that has grown before. */
	assert_null(get(a - 4 * MIB, 16 * MIB)); /* taken: this thread could not grow something */
	b = get(NULL, 17 * MIB);
	assert_non_null(b);
	assert_int_equal(stats().head_rooms, 1);
	give(a, 8 * MIB);
	limit = atomic_load(&mapped);
	assert_ptr_equal(get(b + 17 * MIB, 6 * MIB), b + 17 * MIB);
	s = stats();
	assert_int_equal(s.grown, 1);
	assert_true(s.reclaims >= 1);
	assert_int_equal(s.pending_bytes, 0);
	assert_int_equal(b[0], 0xa5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(waits_rather_than_fail, set_up),
		cmocka_unit_test_setup(fails_at_last, set_up),
		cmocka_unit_test_setup(grows_in_place, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
