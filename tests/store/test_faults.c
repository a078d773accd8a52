/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_faults.c - any system call of the store may fail: clear errors, nothing acknowledged lost.
 *
 * The n-th call is made to fail, for n from 1 until none is left.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crash.h"
#include "scratch.h"

static struct lmdb_api stock;
static char dir[512];

static void sweep(struct history h)
{
	unsigned fired = 0, ended = 0, continued = 0, images = 0;

	for (h.seed = 1; h.seed <= 2; h.seed++) {
		/* Every call at first, then every seventeenth: histories repeat themselves. */
		for (h.fail_at = 1;; h.fail_at += h.fail_at < 24 ? 1 : 17) {
			struct verdict v = { 0 };
			int rc = history_run(&h, dir, &stock, &v);

			if (rc || v.violations)
				fail_msg("call %llu fails with %d: %s",
				    (unsigned long long)h.fail_at, h.fail_with, v.first);
			images += v.images;
			ended += v.ended;
			continued += v.continued;
			if (!v.fired)
				break;
			fired++;
		}
	}
	print_message("%u failures: %u ended the environment, %u a transaction; %u images\n", fired,
	    ended, continued, images);
	assert_true(ended > 10);
	if (!h.writemap)
		assert_true(continued > 10);
}

static void write_eio(void **state)
{
	sweep((struct history){ .transactions = 25, .fail_with = -EIO });
}

static void write_enospc_after_a_short_write(void **state)
{
	sweep((struct history){ .transactions = 25, .fail_with = -ENOSPC, .short_write = true });
}

static void map_eio(void **state)
{
	sweep((struct history){ .transactions = 25, .fail_with = -EIO, .writemap = true });
}

static void map_enospc(void **state)
{
	sweep((struct history){ .transactions = 25, .fail_with = -ENOSPC, .writemap = true });
}

static void meta_pages_left_to_the_next_commit(void **state)
{
	sweep((struct history){ .transactions = 25, .fail_with = -EIO, .flags = MDB_NOMETASYNC });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_eio),
		cmocka_unit_test(write_enospc_after_a_short_write),
		cmocka_unit_test(map_eio),
		cmocka_unit_test(map_enospc),
		cmocka_unit_test(meta_pages_left_to_the_next_commit),
	};
	const char *why;
	int failed;

	if (!lmdb_api_load_stock(&stock, &why)) {
		fprintf(stderr, "liblmdb.so.0, the judge: %s\n", why);
		return 77;
	}
	scratch_make(dir, sizeof(dir));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	scratch_remove(dir);
	return failed;
}
