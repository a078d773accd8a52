/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pressure.c - the purger when memory is short, with files of our own for the kernel's, and something
 * in jemalloc's place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "pressure.h"
#include "purge.h"
#include "purger.h"
#include "space.h"

#define PAGE ((size_t)4096)

static char dir[] = "/tmp/pagewise-pressure.XXXXXX";
static char file[64];

/* Only the second source is there. */
static bool our_path(unsigned source, char *path, unsigned cap)
{
	return source == 1 && snprintf(path, cap, "%s", file) < (int)cap;
}

static void set_total(uint64_t us)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
	    "some avg10=0.00 avg60=0.00 avg300=0.00 total=%lu\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
	    (unsigned long)us);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(pwrite(fd, text, (size_t)n, 0), n); /* never shorter than before */
	close(fd);
}

/* ---- upstream ---- */

static atomic_int decays, decays_of_all;

static bool unused(struct pgw__unused *u)
{
	*u = (struct pgw__unused){ .bytes = 8 << 20, .step_ms = 50 };
	return true;
}

static void decay(bool all, struct pgw__unused *u)
{
	(void)unused(u);
	atomic_fetch_add(&decays, 1);
	atomic_fetch_add(&decays_of_all, all);
}

static const struct pgw__upstream upstream = { unused, decay };

static void nap(void)
{
	struct timespec t = { 0, 20 * 1000 * 1000 };

	nanosleep(&t, NULL);
}

/* ---- tests ---- */

static void parse(void **state)
{
	static const char *const bad[] = { "", "some", "some avg10=0.00",
		"some total=", "full avg10=0.00 total=5\n", "some avg10=1.0\nfull total=5\n",
		"some total=x" };
	uint64_t v = 1;

	(void)state;
	assert_true(pgw__pressure_parse("some avg10=0.00 total=123456789012\nfull total=5\n", &v));
	assert_int_equal(v, 123456789012);
	assert_true(pgw__pressure_parse("full total=5\nsome avg10=0.00 total=0\n", &v));
	assert_int_equal(v, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(pgw__pressure_parse(bad[i], &v));
	assert_int_equal(v, 0);
}

/* The thread is made as ever; calm as long as nobody waits, everything goes when somebody does. The
 * program's descriptors stay what they are. */
static void purger(void **state)
{
	struct pgw_alloc_stats s;
	struct pgw__space_view v;
	bool zero = false;
	uint64_t total = 1000000000000;
	void *p;
	int fd;

	(void)state;
	pgw__option_set(PGW_ALLOC_AGE, 3600 * 1000);
	pgw__option_set(PGW_ALLOC_PENDING, 1 << 30);
	p = pgw__space_alloc(NULL, 64 * PAGE, PAGE, &zero);
	assert_non_null(p);
	memset(p, 1, 64 * PAGE);
	assert_int_equal(pgw__space_give(p, 64 * PAGE, &v), 0);
	set_total(total);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pgw__purger_poll(true, 1 << 20);
	assert_true(pgw__purger_running());
	for (int i = 0; i < 3000 && atomic_load(&decays) < 5; i++)
		nap();
	assert_true(atomic_load(&decays) >= 5);
	pgw_alloc_stats_get(&s);
	assert_int_equal(s.pressure_purges, 0);
	assert_int_equal(s.pending_bytes, 64 * PAGE);
	assert_int_equal(atomic_load(&decays_of_all), 0);
	for (int i = 0; i < 3000 && !s.pressure_purges; i++) {
		set_total(
		    total += 1000000); /* a second each 20 ms: at any load more than a tenth */
		nap();
		pgw_alloc_stats_get(&s);
	}
	if (!s.pressure_purges) {
		/* No table of its own, so no files: Linux before 5.9, or a filter. */
		print_message("the purger opens no files here\n");
		skip();
	}
	assert_true(atomic_load(&decays_of_all) > 0);
	assert_int_equal(s.pending_bytes, 0);
	assert_int_equal(s.purged_bytes, 64 * PAGE);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* only the thread's table was emptied */
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse),
		cmocka_unit_test(purger),
	};
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(file, sizeof(file), "%s/memory.pressure", dir);
	pgw__pressure_path = our_path;
	pgw__purger_upstream = &upstream;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(file);
	rmdir(dir);
	return failed;
}
