/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_insert.c - a page goes into LMDB's list of dirty pages as by LMDB's own function.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../store/seam.h"

/* As LMDB's lists: that many entries, and the one that counts them. */
enum { LIST_SIZE = 1 << 17 };

static struct pgw__lmdb_dirty_page ours[LIST_SIZE], theirs[LIST_SIZE];

static int insert_both(size_t pgno)
{
	struct pgw__lmdb_dirty_page page = { .pgno = pgno, .page = (void *)(pgno * 16) };
	int rc = pgw__seam_mid2l_insert(ours, &page);

	assert_int_equal(rc, mdb_mid2l_insert(theirs, &page));
	return rc;
}

static void assert_same(void)
{
	assert_int_equal(ours->pgno, theirs->pgno);
	assert_memory_equal(ours, theirs, (theirs->pgno + 1) * sizeof(*theirs));
}

static int empty(void **state)
{
	memset(ours, 0, sizeof(ours));
	memset(theirs, 0, sizeof(theirs));
	return 0;
}

static void any_order(void **state)
{
	uint64_t x = 88172645463325252u;

	for (int i = 0; i < 3000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		(void)insert_both(2 + x % 4000); /* some are there already */
		if (i < 100 || i % 100 == 0)
			assert_same();
	}
	assert_same();
}

static void before_and_behind(void **state)
{
	for (size_t n = 0; n < 500; n++) {
		assert_int_equal(insert_both(1000 + n), 0);
		assert_int_equal(insert_both(1000 - 1 - n), 0);
	}
	assert_int_equal(insert_both(1000), -1);
	assert_same();
}

/* From there on LMDB refuses. */
static void full(void **state)
{
	for (size_t n = 1; n < LIST_SIZE; n++)
		assert_int_equal(insert_both(2 * n), 0);
	assert_int_equal(insert_both(2 * LIST_SIZE), -2);
	assert_int_equal(insert_both(3), -2);
	assert_same();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(any_order, empty),
		cmocka_unit_test_setup(before_and_behind, empty),
		cmocka_unit_test_setup(full, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
