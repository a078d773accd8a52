/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stats.c - counters, the table of fallbacks, and the JSON builder.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report.h"
#include "stats.h"

static int fresh(void **state)
{
	pgw__stats_reset();
	return 0;
}

static void counters(void **state)
{
	struct pgw_stats s;

	PGW__COUNT(short_returns, 3);
	PGW__COUNT(short_returns, 1);
	PGW__COUNT(advice[PGW_FREE].bytes, 1 << 20);
	pgw_stats_get(&s);
	assert_int_equal(s.short_returns, 4);
	assert_int_equal(s.advice[PGW_FREE].bytes, 1 << 20);
	assert_int_equal(s.advice[PGW_COLD].bytes, 0);
	pgw__stats_reset();
	pgw_stats_get(&s);
	assert_int_equal(s.short_returns, 0);
}

static void the_same_fallback_is_counted(void **state)
{
	char copy[] = "because"; /* the text counts, not where it lies */
	struct pgw_stats s;

	pgw__note_fallback("a", "because");
	pgw__note_fallback("b", "because");
	pgw__note_fallback("a", copy);
	pgw_stats_get(&s);
	assert_string_equal(s.fallback[0].what, "a");
	assert_string_equal(s.fallback[0].reason, "because");
	assert_int_equal(s.fallback[0].count, 2);
	assert_string_equal(s.fallback[1].what, "b");
	assert_int_equal(s.fallback[1].count, 1);
	assert_null(s.fallback[2].reason);
}

static void the_last_slot_takes_the_rest(void **state)
{
	static char what[PGW_STATS_FALLBACKS + 10][4];
	struct pgw_stats s;
	uint64_t sum = 0;

	for (size_t i = 0; i < PGW_STATS_FALLBACKS + 10; i++) {
		snprintf(what[i], sizeof(what[i]), "%zu", i);
		pgw__note_fallback(what[i], "because");
		pgw__note_fallback(what[i], "because");
	}
	pgw_stats_get(&s);
	for (size_t i = 0; i < PGW_STATS_FALLBACKS; i++) {
		assert_non_null(s.fallback[i].reason);
		sum += s.fallback[i].count;
	}
	assert_int_equal(sum, 2 * (PGW_STATS_FALLBACKS + 10));
	assert_int_equal(s.fallback[PGW_STATS_FALLBACKS - 1].count, 2 * 11);
}

static pthread_barrier_t together;

static void *note(void *arg)
{
	static const char *const what[] = { "a", "b", "c", "d", "e" };

	pthread_barrier_wait(&together);
	for (size_t i = 0; i < 1000; i++) {
		pgw__note_fallback(what[i % 5], "because");
		PGW__COUNT(probe_calls, 1);
	}
	return NULL;
}

static void from_many_threads(void **state)
{
	pthread_t threads[4];
	struct pgw_stats s;

	pthread_barrier_init(&together, NULL, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, note, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	pgw_stats_get(&s);
	assert_int_equal(s.probe_calls, 4000);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(s.fallback[i].count, 800);
	assert_null(s.fallback[5].reason);
}

/* --- JSON --- */

static char text[4096];

static void begin(struct pgw__json *j)
{
	pgw__json_init(j, text, sizeof(text) - 1);
	pgw__json_open(j, NULL, '{');
}

static const char *end(struct pgw__json *j)
{
	pgw__json_close(j, '}');
	assert_false(j->full);
	text[j->len] = '\0';
	return text;
}

static void json_of_everything(void **state)
{
	struct pgw__json j;

	begin(&j);
	pgw__json_u64(&j, "zero", 0);
	pgw__json_u64(&j, "most", UINT64_MAX);
	pgw__json_bool(&j, "yes", true);
	pgw__json_bool(&j, "no", false);
	pgw__json_str(&j, "null", NULL);
	pgw__json_open(&j, "list", '[');
	pgw__json_u64(&j, NULL, 1);
	pgw__json_open(&j, NULL, '{');
	pgw__json_close(&j, '}');
	pgw__json_open(&j, NULL, '[');
	pgw__json_close(&j, ']');
	pgw__json_close(&j, ']');
	pgw__json_u64(&j, "last", 1);
	assert_string_equal(end(&j), "{\"zero\":0,\"most\":18446744073709551615,\"yes\":true,"
				     "\"no\":false,\"null\":null,\"list\":[1,{},[]],\"last\":1}");
}

static void json_ratios(void **state)
{
	struct pgw__json j;

	begin(&j);
	pgw__json_ratio(&j, "a", 1, 3);
	pgw__json_ratio(&j, "b", 200, 100);
	pgw__json_ratio(&j, "c", 5, 0);
	pgw__json_ratio(&j, "d", UINT64_MAX, UINT64_MAX - 1);
	pgw__json_ratio(&j, "e", UINT64_MAX - 1, UINT64_MAX);
	pgw__json_ratio(&j, "f", 7, 100);
	assert_string_equal(
	    end(&j), "{\"a\":0.33,\"b\":2.00,\"c\":null,\"d\":1.00,\"e\":0.99,\"f\":0.07}");
}

static void json_escapes(void **state)
{
	struct pgw__json j;

	begin(&j);
	pgw__json_str(&j, "a\"b", "\\ \n\x01\x7f \xc3\xa4");
	assert_string_equal(end(&j), "{\"a\\\"b\":\"\\\\ \\u000a\\u0001\\u007f \\ufffd\\ufffd\"}");
}

static void json_that_does_not_fit(void **state)
{
	for (size_t cap = 0; cap < 40; cap++) {
		struct pgw__json j;

		memset(text, '#', sizeof(text));
		pgw__json_init(&j, text, cap);
		pgw__json_open(&j, NULL, '{');
		pgw__json_str(&j, "key", "a value that is long");
		pgw__json_u64(&j, "n", 12345);
		pgw__json_close(&j, '}');
		assert_int_equal(
		    j.full, cap < strlen("{\"key\":\"a value that is long\",\"n\":12345}"));
		assert_true(j.len <= cap);
		assert_int_equal(text[cap], '#');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(counters, fresh),
		cmocka_unit_test_setup(the_same_fallback_is_counted, fresh),
		cmocka_unit_test_setup(the_last_slot_takes_the_rest, fresh),
		cmocka_unit_test_setup(from_many_threads, fresh),
		cmocka_unit_test(json_of_everything),
		cmocka_unit_test(json_ratios),
		cmocka_unit_test(json_escapes),
		cmocka_unit_test(json_that_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
