/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reserve.c - pgw_reserve and pgw_release: what is mapped, and what happens when the kernel refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagewise/probe.h>
#include <pagewise/reserve.h>

#include "sys.h"

#define BLOCK PGW_RESERVE_BLOCK_MIN

static struct {
	unsigned marks;
	unsigned fail_at; /* this mark and all after it, if it is not 0 */
	uint64_t least, most, last_end;
	uint64_t mapped; /* how much was asked for; nothing is mapped if fake */
	bool fake;
	int map_err;
} sim;

/* What is between two marks is a block as well. */
static int sim_madvise(void *addr, size_t len, int advice)
{
	uint64_t start = (uint64_t)(uintptr_t)addr;

	if (sim.fail_at && sim.marks + 1 >= sim.fail_at)
		return -ENOMEM;
	assert_int_equal(advice, MADV_RANDOM);
	assert_true(len > 0);
	if (sim.marks++) {
		uint64_t gap = start - sim.last_end;

		sim.least = gap < sim.least ? gap : sim.least;
		sim.most = gap > sim.most ? gap : sim.most;
	} else {
		sim.least = sim.most = len;
	}
	sim.most = len > sim.most ? len : sim.most;
	sim.last_end = start + len;
	return sim.fake ? 0 : pgw__sys_real.madvise(addr, len, advice);
}

static int sim_map(void *addr, size_t len, int prot, int flags, void **out)
{
	if (sim.map_err)
		return sim.map_err;
	sim.mapped = len;
	if (!sim.fake)
		return pgw__sys_real.map_anon(addr, len, prot, flags, out);
	*out = (void *)(uintptr_t)(7 * pgw_page_size());
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	memset(&sim, 0, sizeof(sim));
	pgw__sys = pgw__sys_real;
	pgw__sys.madvise = sim_madvise;
	pgw__sys.map_anon = sim_map;
	return 0;
}

/* Asked of the kernel in a way that emulators know: what it cannot read it cannot write to a pipe. */
static bool is_mapped(const void *addr)
{
	bool mapped;
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	mapped = write(fd[1], addr, 1) == 1;
	assert_true(mapped || errno == EFAULT);
	close(fd[0]);
	close(fd[1]);
	return mapped;
}

static void is_memory(void **state)
{
	uint64_t bytes = 5 * BLOCK / 2;
	void *p = NULL;
	char *c;

	(void)state;
	assert_int_equal(pgw_reserve(bytes - 1, &p), 0);
	c = p;
	assert_int_equal((uintptr_t)p % pgw_page_size(), 0);
	for (uint64_t at = 0; at < bytes; at += BLOCK / 2) {
		assert_int_equal(c[at], 0);
		c[at] = 1;
	}
	assert_int_equal(c[bytes - 1], 0);
	assert_true(sim.marks >= 1 && sim.marks <= 2);
	/* A part, and then the rest around it. */
	assert_int_equal(pgw_release(c + BLOCK, BLOCK), 0);
	assert_false(is_mapped(c + BLOCK));
	assert_false(is_mapped(c + 2 * BLOCK - 1));
	assert_int_equal(c[0], 1);
	assert_int_equal(c[2 * BLOCK], 1);
	assert_int_equal(pgw_release(p, bytes), 0);
}

static void small_is_one_mapping(void **state)
{
	void *p = NULL;

	(void)state;
	sim.fake = true;
	assert_int_equal(pgw_reserve(BLOCK / 2, &p), 0);
	assert_int_equal(sim.marks, 0);
}

/* Whatever the size: blocks of one size, and some thousand of them at most. */
static void blocks_are_few(void **state)
{
	(void)state;
	if (sizeof(void *) < 8)
		skip();
	for (unsigned lg = 29; lg < 47; lg++) {
		uint64_t bytes = UINT64_C(3) << (lg - 1);
		void *p = NULL;

		memset(&sim, 0, sizeof(sim));
		sim.fake = true;
		assert_int_equal(pgw_reserve(bytes, &p), 0);
		assert_int_equal(sim.mapped, bytes);
		assert_true(sim.most >= BLOCK);
		assert_true(sim.most <= BLOCK || sim.most <= bytes / 512);
		assert_true(sim.marks <= 513);
		assert_int_equal(sim.least, sim.most);
		/* All of it is cut. */
		assert_true(sim.last_end + sim.most >= (uint64_t)(uintptr_t)p + bytes);
	}
}

static void marks_refused(void **state)
{
	void *p = NULL;
	char *c;

	(void)state;
	sim.fail_at = 1;
	assert_int_equal(pgw_reserve(4 * BLOCK, &p), 0);
	assert_int_equal(sim.marks, 0);
	c = p;
	c[3 * BLOCK] = 1;
	assert_int_equal(pgw_release(p, 4 * BLOCK), 0);
}

static void errors(void **state)
{
	char at[16] = "";
	void *p = at;

	(void)state;
	errno = 42;
	assert_int_equal(pgw_reserve(0, &p), -EINVAL);
	assert_int_equal(pgw_reserve(UINT64_MAX, &p), -EINVAL);
	sim.map_err = -ENOMEM;
	assert_int_equal(pgw_reserve(BLOCK, &p), -ENOMEM);
	assert_ptr_equal(p, at);
	p = (void *)(uintptr_t)(64 * pgw_page_size());
	assert_int_equal(pgw_release((char *)p + 1, BLOCK), -EINVAL);
	assert_int_equal(pgw_release(p, 0), -EINVAL);
	assert_int_equal(pgw_release(p, UINT64_MAX), -EINVAL);
	assert_int_equal(pgw_release(p, UINT64_MAX - pgw_page_size() + 1), -EINVAL);
	assert_int_equal(errno, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(is_memory, set_up),
		cmocka_unit_test_setup(small_is_one_mapping, set_up),
		cmocka_unit_test_setup(blocks_are_few, set_up),
		cmocka_unit_test_setup(marks_refused, set_up),
		cmocka_unit_test_setup(errors, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
