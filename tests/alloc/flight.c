/* SPDX-License-Identifier: BSD-2-Clause
 *
 * flight.c - ranges in flight, in this process and in children, and who notices what is given back
 * twice. Without jemalloc.
 */
#include "space_sim.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void take_stops_at_target_and_cutoff(void **state)
{
	struct pgw_range ranges[4];
	int status[4] = { 0 };
	struct pgw__extent *extents[4];
	struct pgw__batch b = { .ranges = ranges, .status = status, .extents = extents, .cap = 4 };
	unsigned char *a = dirty(32 * PAGE);

	(void)state;
	for (size_t i = 0; i < 32; i += 2)
		give(a + (i ^ 2) * PAGE, PAGE); /* each second one before the first */
	assert_int_equal(pgw__space_take(&b, 16 * PAGE, 0), 0);
	assert_int_equal(pgw__space_take(&b, 14 * PAGE, 0), 2);
	assert_int_equal(stats().in_flight_bytes, 2 * PAGE);
	/* The oldest two, in ascending order. */
	assert_int_equal(ranges[0].start, (uint64_t)a);
	assert_int_equal(ranges[1].start, (uint64_t)a + 2 * PAGE);
	memset(a, 0, PAGE); /* what the status says was done */
	memset(a + 2 * PAGE, 0, PAGE);
	pgw__space_put(&b);
	assert_int_equal(pgw__space_take(&b, UINT64_MAX, UINT64_MAX), 4);
	status[1] = -EIO;
	for (size_t i = 0; i < 4; i++)
		memset((void *)ranges[i].start, 0, PAGE);
	pgw__space_put(&b);
	assert_int_equal(stats().stale_ranges, 1);
}

/* More than fits in one batch, without being pending in between; and meanwhile a purge by somebody
 * else, who does without the large batch. */
static void purged_directly(void **state)
{
	enum { N = 1030 };
	unsigned char *a = dirty(2 * N * PAGE), *b = dirty(PAGE);

	(void)state;
	assert_true(pgw__purge_direct_begin());
	assert_false(pgw__purge_direct_begin());
	for (size_t i = 0; i < N; i++)
		assert_int_equal(pgw__purge_direct_add(a + 2 * (i * 7 % N) * PAGE, PAGE), 0);
	assert_int_equal(stats().pending_bytes_peak, 0);
	assert_int_equal(stats().in_flight_bytes, (N - 1024) * PAGE);
	assert_int_equal(stats().purges, 1);
	give(b, PAGE);
	purge();
	assert_int_equal(stats().purged_bytes, 1025 * PAGE);
	pgw__purge_direct_end();
	assert_int_equal(stats().in_flight_bytes, 0);
	assert_int_equal(stats().purged_bytes, (N + 1) * PAGE);
	for (size_t i = 0; i < 2 * N; i++)
		assert_int_equal(a[i * PAGE], i % 2 ? 0xa5 : 0);
	assert_true(pgw__purge_direct_begin());
	pgw__purge_direct_end();
	assert_int_equal(stats().purges, 3);
}

static void *purge_everything(void *done)
{
	pgw__purge_everything();
	atomic_store((_Atomic bool *)done, true);
	return NULL;
}

/* Somebody asks for all memory to be given back while another thread frees some lazily: that is waited for,
 * and then not left to the kernel. */
static void what_becomes_lazy_meanwhile_is_purged(void **state)
{
	struct pgw_range ranges[4];
	int status[4] = { 0 };
	struct pgw__extent *extents[4];
	struct pgw__batch b = {
		.ranges = ranges, .status = status, .extents = extents, .cap = 4, .to_lazy = true
	};
	_Atomic bool done = false;
	pthread_t thread;

	(void)state;
	give(dirty(2 * PAGE), 2 * PAGE);
	assert_int_equal(pgw__space_take(&b, 0, UINT64_MAX), 1);
	assert_int_equal(pthread_create(&thread, NULL, purge_everything, &done), 0);
	usleep(200000); /* it gets to where it waits; if not, nothing is shown, and nothing fails */
	assert_false(done);
	pgw__space_put(&b);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stats().lazy_bytes, 0);
	assert_int_equal(stats().purged_bytes, 2 * PAGE);
}

static void aborts(void (*misuse)(unsigned char *a), unsigned char *a)
{
	pid_t pid = fork();
	int st;

	if (pid == 0) {
		(void)!close(STDERR_FILENO);
		misuse(a);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGABRT);
}

static void give_twice(unsigned char *a)
{
	struct pgw__space_view v;

	(void)pgw__space_give(a, 4 * PAGE, &v);
	(void)pgw__space_give(a + PAGE, PAGE, &v);
}

static void fly_into_the_next(unsigned char *a)
{
	(void)pgw__purge_direct_begin();
	(void)pgw__purge_direct_add(a + 2 * PAGE, PAGE);
	(void)pgw__purge_direct_add(a + PAGE, 2 * PAGE);
}

static void fly_into_the_last(unsigned char *a)
{
	(void)pgw__purge_direct_begin();
	(void)pgw__purge_direct_add(a, 2 * PAGE);
	(void)pgw__purge_direct_add(a + PAGE, PAGE);
}

static void given_twice_aborts(void **state)
{
	unsigned char *a = dirty(4 * PAGE);

	(void)state;
	aborts(give_twice, a);
	aborts(fly_into_the_next, a);
	aborts(fly_into_the_last, a);
}

/* A child goes on with what was in flight in its parent, and does not wait for anybody. */
static void child_has_nothing_in_flight(void **state)
{
	struct pgw_range ranges[4];
	int status[4] = { 0 };
	struct pgw__extent *extents[4];
	struct pgw__batch b = { .ranges = ranges, .status = status, .extents = extents, .cap = 4 };
	unsigned char *a = dirty(8 * PAGE);
	uint64_t generation = pgw__space_generation();
	pid_t pid;
	int st;

	(void)state;
	give(a, 2 * PAGE);
	assert_int_equal(pgw__space_take(&b, 0, 0), 1);
	pgw__space_fork_prepare();
	pid = fork();
	if (pid == 0) {
		struct pgw_alloc_stats s;

		pgw__space_fork_child();
		s = stats();
		pgw__space_drain();
		_exit(s.in_flight_bytes == 0 && s.pending_bytes == 2 * PAGE && s.raw_forks == 0 &&
			      pgw__space_generation() != generation
			  ? 0
			  : 1);
	}
	pgw__space_fork_parent();
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(pgw__space_generation(), generation);
	status[0] = -EIO;
	pgw__space_put(&b);
	assert_int_equal(stats().stale_bytes, 2 * PAGE);
}

/* _Fork, at the worst moment: the lock is held. */
static void raw_child_of_a_locked_parent(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	pid_t pid;
	int st;

	(void)state;
	give(a, 8 * PAGE);
	(void)pgw__space_lock_and_view();
	pid = _Fork();
	if (pid == 0) {
		bool zero = true;
		struct pgw_alloc_stats s;
		unsigned char *p;

		alarm(20);
		s = stats();
		p = pgw__space_alloc(NULL, PAGE, PAGE, &zero);
		_exit(s.raw_forks == 1 && s.pending_bytes == 0 && p && reads_zero(p, PAGE) ? 0 : 1);
	}
	pgw__space_unlock();
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(stats().pending_bytes, 8 * PAGE);
	assert_int_equal(stats().raw_forks, 0);
}

/* _Fork, between two calls: nothing is lost. */
static void raw_child_keeps_what_is_whole(void **state)
{
	unsigned char *a = dirty(8 * PAGE);
	pid_t pid;
	int st;

	(void)state;
	give(a, 8 * PAGE);
	pid = _Fork();
	if (pid == 0) {
		bool zero = false;

		alarm(20);
		_exit(pgw__space_alloc(NULL, 8 * PAGE, PAGE, &zero) == a ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

/* exit in a signal handler, in the middle of a hook: the report must not wait for itself. */
static void counters_at_exit_with_the_lock_held(void **state)
{
	struct pgw_alloc_stats s;

	(void)state;
	give(dirty(8 * PAGE), 8 * PAGE);
	(void)pgw__space_lock_and_view();
	alarm(60);
	assert_false(pgw__space_stats_at_exit(&s));
	alarm(0);
	assert_int_equal(s.held_bytes, pgw__space_held());
	assert_int_equal(s.given, 0);
	pgw__space_unlock();
	assert_true(pgw__space_stats_at_exit(&s));
	assert_int_equal(s.given, 1);
	assert_int_equal(s.pending_bytes, 8 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(take_stops_at_target_and_cutoff, set_up),
		cmocka_unit_test_setup(purged_directly, set_up),
		cmocka_unit_test_setup(what_becomes_lazy_meanwhile_is_purged, set_up),
		cmocka_unit_test_setup(given_twice_aborts, set_up),
		cmocka_unit_test_setup(child_has_nothing_in_flight, set_up),
		cmocka_unit_test_setup(raw_child_of_a_locked_parent, set_up),
		cmocka_unit_test_setup(raw_child_keeps_what_is_whole, set_up),
		cmocka_unit_test_setup(counters_at_exit_with_the_lock_held, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
