/* SPDX-License-Identifier: BSD-2-Clause
 *
 * faults.c - the n-th system call fails, for n = 1, 2, ... until a run makes fewer calls. Whatever
 * fails, no byte has two owners, zeroes are zeroes, and nothing that is not failing is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "options.h"
#include "purge.h"
#include "space.h"
#include "sys.h"

#define PAGE   ((size_t)4096)
#define BLOCKS 40
#define ROUNDS 400

static int calls, fail_at, fail_with;
static bool and_after; /* the n-th and all that follow */

static bool fails(void)
{
	calls++;
	return calls == fail_at || (and_after && calls > fail_at);
}

static int fake_madvise(void *addr, size_t len, int advice)
{
	return fails() ? fail_with : pgw__sys_real.madvise(addr, len, advice);
}

static int64_t fake_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	return fails() ? fail_with : pgw__sys_real.process_madvise(pidfd, v, n, advice, flags);
}

static int fake_map(void *addr, size_t len, int prot, int flags, void **out)
{
	return fails() ? fail_with : pgw__sys_real.map_anon(addr, len, prot, flags, out);
}

static int fake_unmap(void *addr, size_t len)
{
	return fails() ? fail_with : pgw__sys_real.unmap(addr, len);
}

struct block {
	unsigned char *p;
	size_t size;
};

static void check(const struct block *b, unsigned char value)
{
	for (size_t i = 0; i < b->size; i += 512)
		assert_int_equal(b->p[i], value);
	assert_int_equal(b->p[b->size - 1], value);
}

static unsigned char value_of(size_t i)
{
	return (unsigned char)(i + 1);
}

static void give(struct block *b)
{
	struct pgw__space_view v;

	if (pgw__space_give(b->p, b->size, &v))
		return; /* it is still ours */
	b->p = NULL;
	if (pgw__space_over(&v))
		pgw__purge_inline(v.limit / 2, 0, SIZE_MAX);
}

static void one_run(void)
{
	struct block v[BLOCKS] = { { NULL, 0 } };

	srand(7);
	calls = 0;
	for (int i = 0; i < ROUNDS; i++) {
		size_t k = (size_t)rand() % BLOCKS;
		struct block *b = &v[k];
		bool want = rand() % 2, zero = want;

		if (i % 50 == 49)
			pgw__purge_inline(0, UINT64_MAX, SIZE_MAX);
		if (b->p) {
			check(b, value_of(k));
			give(b);
			continue;
		}
		b->size = PAGE * (1 + (size_t)rand() % 12);
		b->p = pgw__space_alloc(NULL, b->size, PAGE, &zero);
		if (!b->p)
			continue; /* that is what a failing mmap comes to, at worst */
		assert_true(zero || !want);
		if (zero)
			check(b, 0);
		memset(b->p, value_of(k), b->size);
	}
	for (size_t k = 0; k < BLOCKS; k++) {
		if (v[k].p) {
			check(&v[k], value_of(k));
			give(&v[k]);
		}
	}
}

static void sweep(int err, bool after)
{
	struct pgw_alloc_stats s;

	fail_with = err;
	and_after = after;
	for (fail_at = 1;; fail_at++) {
		pgw__space_reset();
		one_run();
		pgw_alloc_stats_get(&s);
		assert_int_equal(s.in_flight_bytes, 0);
		if (calls < fail_at)
			break;
	}
	assert_true(fail_at > 10);
}

static void one_fails(void **state)
{
	(void)state;
	sweep(-ENOMEM, false);
	sweep(-EINVAL, false);
	sweep(-EAGAIN, false);
}

static void all_fail_from_then_on(void **state)
{
	(void)state;
	sweep(-ENOMEM, true);
	sweep(-EPERM, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_fails),
		cmocka_unit_test(all_fail_from_then_on),
	};

	pgw_dontneed_zeroes(); /* probed before anything fails */
	pgw__space_reset();
	pgw__option_set(PGW_ALLOC_PENDING, 32 * PAGE);
	pgw__option_set(PGW_ALLOC_SHARE, 0);
	pgw__option_set(PGW_ALLOC_CLEAN, 64 * PAGE);
	pgw__option_set(PGW_ALLOC_CHUNK, 16 * PAGE);
	pgw__sys.madvise = fake_madvise;
	pgw__sys.process_madvise = fake_process_madvise;
	pgw__sys.map_anon = fake_map;
	pgw__sys.unmap = fake_unmap;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
