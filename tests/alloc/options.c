/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - PAGEWISE_ALLOC: what is taken, what is refused, and that one bad item spoils nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "options.h"

static uint64_t value(enum pgw_alloc_option o)
{
	uint64_t v = 0;

	assert_int_equal(pgw_alloc_option_get(o, &v), 0);
	return v;
}

static void good(const char *text)
{
	const char *bad = NULL, *why;
	size_t len = 0;

	why = pgw__options_parse(&text, &bad, &len);
	if (why)
		fail_msg("%s: %.*s %s", text, (int)len, bad, why);
}

/* The next of what is wrong in *text. */
static void next_bad(const char **text, const char *item)
{
	const char *got = NULL;
	size_t len = 0;

	assert_non_null(pgw__options_parse(text, &got, &len));
	assert_int_equal(len, strlen(item));
	assert_memory_equal(got, item, len);
}

static void bad(const char *text, const char *item)
{
	next_bad(&text, item);
	good(text);
}

static void values(void **state)
{
	(void)state;
	good("");
	good(",,");
	good("pending:5m,share:7,ranges:100,age:250,clean:3g,chunk:128k,thread:off");
	assert_int_equal(value(PGW_ALLOC_PENDING), 5 << 20);
	assert_int_equal(value(PGW_ALLOC_SHARE), 7);
	assert_int_equal(value(PGW_ALLOC_RANGES), 100);
	assert_int_equal(value(PGW_ALLOC_AGE), 250);
	assert_int_equal(value(PGW_ALLOC_CLEAN), UINT64_C(3) << 30);
	assert_int_equal(value(PGW_ALLOC_CHUNK), 128 << 10);
	assert_int_equal(value(PGW_ALLOC_THREAD), 0);
	good("advice:free,lazy:250");
	assert_int_equal(value(PGW_ALLOC_ADVICE), 1);
	assert_int_equal(value(PGW_ALLOC_LAZY), 250);
	good("deepbind:keep");
	assert_int_equal(value(PGW_ALLOC_DEEPBIND), 1);
	good("deepbind:drop");
	assert_int_equal(value(PGW_ALLOC_DEEPBIND), 0);
	good("thread:on,pending:0,clean:0,clean:1T");
	assert_int_equal(value(PGW_ALLOC_THREAD), 1);
	assert_int_equal(value(PGW_ALLOC_PENDING), 0);
	assert_int_equal(value(PGW_ALLOC_CLEAN), UINT64_C(1) << 40);
}

static void refused(void **state)
{
	static const char *const items[] = { "pending", "pending:", "pending:x", "pending:4q",
		"pending:4mm", "pending:m", "pending:-1", "pending:2t", "share:101", "age:0",
		"chunk:1k", "thread:yes", "thread:1", "hooks:", "deepbind:on",
		"deepbind:", "nonsense:1", "nonsense", ":", "PENDING:1",
		"pending:99999999999999999999", "pending:18446744073709551615k", " pending:1" };

	(void)state;
	good("pending:1m");
	for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++)
		bad(items[i], items[i]);
	assert_int_equal(value(PGW_ALLOC_PENDING), 1 << 20);
}

static void the_rest_counts(void **state)
{
	const char *text = "pending:2m,nonsense:1,age:77,share:200,";

	(void)state;
	next_bad(&text, "nonsense:1");
	next_bad(&text, "share:200");
	good(text);
	assert_int_equal(value(PGW_ALLOC_PENDING), 2 << 20);
	assert_int_equal(value(PGW_ALLOC_AGE), 77);
}

static void set_by_number(void **state)
{
	uint64_t untouched = 42;

	(void)state;
	assert_int_equal(pgw__option_set(PGW_ALLOC_AGE, 5), 0);
	assert_int_equal(value(PGW_ALLOC_AGE), 5);
	assert_int_equal(pgw__option_set(PGW_ALLOC_AGE, 0), -ERANGE);
	assert_int_equal(value(PGW_ALLOC_AGE), 5);
	assert_int_equal(pgw__option_set(PGW_ALLOC_OPTION_COUNT, 1), -EINVAL);
	assert_int_equal(pgw_alloc_option_get(PGW_ALLOC_OPTION_COUNT, &untouched), -EINVAL);
	assert_int_equal(untouched, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(refused),
		cmocka_unit_test(the_rest_counts),
		cmocka_unit_test(set_by_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
