/* SPDX-License-Identifier: BSD-2-Clause
 *
 * horizon.c - what a power cut would cost, counted.
 */
#include "horizon.h"
#include "support.h"

static struct horizon h;
static struct horizon_loss worst;

static int start(void **state)
{
	struct chain_error err = { 0 };

	worst = (struct horizon_loss){ 0 };
	return horizon_init(&h, &err);
}

static int finish(void **state)
{
	horizon_finish(&h);
	return 0;
}

static void durable_at_once(void **state)
{
	for (uint64_t i = 1; i < 10000; i++) {
		horizon_commit(&h, i, 10 * i, 1000 * i);
		horizon_durable(&h, i, 1000 * i + 7, &worst);
	}
	assert_int_equal(worst.blocks, 0);
	assert_int_equal(worst.ns, 0);
}

static void some_behind(void **state)
{
	for (uint64_t i = 1; i < 10000; i++) {
		horizon_commit(&h, i, 10 * i, 1000 * i);
		horizon_durable(&h, i > 5 ? i - 5 : 0, 1000 * i + 7, &worst);
	}
	assert_int_equal(worst.blocks, 50);
	/* The oldest of five. */
	assert_int_equal(worst.ns, 4007);
}

/* More than the list holds: it is the oldest that count. */
static void never_durable(void **state)
{
	h.durable_height = 100;
	for (uint64_t i = 1; i <= 10000; i++) {
		horizon_commit(&h, i, 100 + i, 1000 * i);
		horizon_durable(&h, 0, 1000 * i, &worst);
	}
	assert_int_equal(worst.blocks, 10000);
	assert_int_equal(worst.ns, 1000 * 9999);
	horizon_durable(&h, 10000, 1000 * 10000, &worst);
	horizon_commit(&h, 10001, 10101, 0);
	worst = (struct horizon_loss){ 0 };
	horizon_durable(&h, 10000, 0, &worst);
	assert_int_equal(worst.blocks, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(durable_at_once, start, finish),
		cmocka_unit_test_setup_teardown(some_behind, start, finish),
		cmocka_unit_test_setup_teardown(never_durable, start, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
