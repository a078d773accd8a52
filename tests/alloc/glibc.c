/* SPDX-License-Identifier: BSD-2-Clause
 *
 * glibc.c - what programs that were written for glibc expect of functions that jemalloc has otherwise, or
 * not at all. Linked to the library. The same program, linked to nothing, passes on glibc too.
 */
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

/* So that the compiler does not know them. */
static void *(*volatile malloc_fn)(size_t) = malloc;
static void *(*volatile realloc_fn)(void *, size_t) = realloc;
static void *(*volatile memalign_fn)(size_t, size_t) = memalign;
static void *(*volatile valloc_fn)(size_t) = valloc;
static void *(*volatile pvalloc_fn)(size_t) = pvalloc;

static size_t page;

#define assert_no_memory(call)                   \
	do {                                     \
		errno = 0;                       \
		assert_null(call);               \
		assert_int_equal(errno, ENOMEM); \
	} while (0)

/* Sizes that no malloc can have, and ones that this process cannot. The block stays as it is. */
static void failures_are_told(void **state)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 4096, (size_t)PTRDIFF_MAX + 1,
		(size_t)1 << 48 };
	unsigned char *p = malloc_fn(1000);

	(void)state;
	assert_non_null(p);
	memset(p, 0x5a, 1000);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		assert_no_memory(malloc_fn(sizes[i]));
		assert_no_memory(realloc_fn(p, sizes[i]));
		assert_no_memory(realloc_fn(NULL, sizes[i]));
		assert_no_memory(memalign_fn(64, sizes[i]));
		assert_no_memory(valloc_fn(sizes[i]));
		assert_no_memory(pvalloc_fn(sizes[i]));
	}
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(p[i], 0x5a);
	free(p);
}

/* The same where what is missing is address space. Not all mallocs can do without what they have for
 * later, so the limit is a bit above what is in use. */
static void limits_are_told(void **state)
{
	struct rlimit old, now;
	void *p = malloc_fn(1000);

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	now = old;
	now.rlim_cur = 4096 * MIB;
	assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
	assert_no_memory(realloc_fn(p, 8192 * MIB));
	assert_no_memory(memalign_fn(2 * MIB, 8192 * MIB));
	assert_no_memory(valloc_fn(8192 * MIB));
	assert_no_memory(pvalloc_fn(8192 * MIB));
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	free(p);
}

/* Nothing is wrong when realloc frees, and success leaves errno alone. */
static void success_says_nothing(void **state)
{
	void *p;

	(void)state;
	errno = 0;
	p = realloc_fn(malloc_fn(100), 5000);
	assert_non_null(p);
	p = realloc_fn(p, 0);
	assert_int_equal(errno, 0);
	free(p);
	free(valloc_fn(1));
	free(memalign_fn(32, 0));
	assert_int_equal(errno, 0);
}

static void any_alignment(void **state)
{
	static const size_t aligns[] = { 0, 1, 3, 8, 24, 48, 64, 100, 4096, 5000, 3 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(aligns) / sizeof(*aligns); i++) {
		size_t power = 1;
		void *p = memalign_fn(aligns[i], 777);

		while (power < aligns[i])
			power *= 2;
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % power, 0);
		memset(p, 1, 777);
		free(p);
	}
	errno = 0;
	assert_null(memalign_fn(SIZE_MAX - 1, 1));
	assert_int_equal(errno, EINVAL);
}

static void whole_pages(void **state)
{
	size_t sizes[] = { 0, 1, page, page + 1 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		size_t whole = (sizes[i] + page - 1) / page * page;
		unsigned char *p = pvalloc_fn(sizes[i]);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % page, 0);
		assert_true(malloc_usable_size(p) >= whole);
		memset(p, 1, whole);
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_are_told),
		cmocka_unit_test(limits_are_told),
		cmocka_unit_test(success_says_nothing),
		cmocka_unit_test(any_alignment),
		cmocka_unit_test(whole_pages),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
