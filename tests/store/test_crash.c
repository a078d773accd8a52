/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_crash.c - nothing acknowledged is lost in a power cut, and the file is never damaged.
 *
 * test_crash [SEED [HISTORIES]]: more of it, or one again.
 */
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
static uint64_t first_seed = 1;
static unsigned histories = 16;

static struct verdict run(const struct history *h)
{
	struct verdict v = { 0 };

	if (history_run(h, dir, &stock, &v))
		fail_msg("%s", v.first);
	return v;
}

static void sound(bool writemap)
{
	unsigned images = 0, commits = 0, foreign = 0, reboots = 0;

	for (unsigned i = 0; i < histories; i++) {
		struct history h = {
			.seed = first_seed + i, .transactions = 120, .writemap = writemap
		};
		struct verdict v = run(&h);

		if (v.violations)
			fail_msg("%s", v.first);
		images += v.images;
		commits += v.commits;
		foreign += v.foreign;
		reboots += v.reboots;
	}
	print_message("%u histories from seed %llu: %u commits, %u by another writer, %u reboots, "
		      "%u images\n",
	    histories, (unsigned long long)first_seed, commits, foreign, reboots, images);
	assert_true(images > histories * 10);
	assert_true(foreign > histories && reboots > histories / 4);
}

static void nothing_is_lost_by_write(void **state)
{
	sound(false);
}

static void nothing_is_lost_by_map(void **state)
{
	sound(true);
}

/* The judge must find the bugs that it is for. */
static void planted_bug(struct history h)
{
	struct verdict v = { 0 };

	for (unsigned i = 0; i < 40 && !v.violations; i++) {
		h.seed = first_seed + i;
		h.transactions = 120;
		h.writemap = i & 1;
		(void)history_run(&h, dir, &stock, &v);
	}
	if (!v.violations)
		fail_msg("not found in 40 histories");
	print_message("found: %s\n", v.first);
}

static void finds_a_lost_page(void **state)
{
	planted_bug((struct history){ .plant = SIM_LOSE_A_PAGE });
}

static void finds_a_lost_meta_page(void **state)
{
	planted_bug((struct history){ .plant = SIM_LOSE_META });
}

static void finds_a_full_sync_that_is_none(void **state)
{
	planted_bug((struct history){ .plant = SIM_LOSE_FULL });
}

static void finds_blind_trust(void **state)
{
	planted_bug((struct history){ .blind_trust = true });
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost_by_write),
		cmocka_unit_test(nothing_is_lost_by_map),
		cmocka_unit_test(finds_a_lost_page),
		cmocka_unit_test(finds_a_lost_meta_page),
		cmocka_unit_test(finds_a_full_sync_that_is_none),
		cmocka_unit_test(finds_blind_trust),
	};
	const char *why;
	int failed;

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		histories = (unsigned)strtoul(argv[2], NULL, 0);
	if (!lmdb_api_load_stock(&stock, &why)) {
		fprintf(stderr, "liblmdb.so.0, the judge: %s\n", why);
		return 77;
	}
	scratch_make(dir, sizeof(dir));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	scratch_remove(dir);
	return failed;
}
