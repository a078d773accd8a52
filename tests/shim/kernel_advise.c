/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kernel_advise.c - pgw_advise on the real kernel, by its effects on memory. Run once for each value
 * of PAGEWISE_KERNEL: the effects are the same, whatever the calls.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <pagewise/advise.h>

#include "probe.h"

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define GOOD 1000

static size_t page;
static unsigned char *area; /* 2 * (GOOD + 2) pages, all written */
static struct pgw_range ranges[GOOD + 1];
static int status[GOOD + 1];
static struct pgw_advise_report report;

/* Past the sanitizers' runtimes, whose mlock does nothing. */
static int lock_pages(void *p, size_t pages)
{
	return (int)syscall(SYS_mlock, p, pages * page);
}

static int unlock_pages(void *p, size_t pages)
{
	return (int)syscall(SYS_munlock, p, pages * page);
}

static unsigned char *map(size_t pages, int prot, int flags)
{
	void *p = mmap(NULL, pages * page, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static struct pgw_range range_of(const void *p, size_t pages)
{
	return (struct pgw_range){ (uintptr_t)p, pages * page };
}

static int set_up(void **state)
{
	page = pgw_page_size();
	area = map(2 * (GOOD + 2), PROT_READ | PROT_WRITE, MAP_NORESERVE);
	madvise(area, 2 * (GOOD + 2) * page, MADV_NOHUGEPAGE);
	memset(area, 0xa5, 2 * (GOOD + 2) * page);
	for (size_t i = 0; i <= GOOD; i++)
		ranges[i] = range_of(area + 2 * i * page, 1);
	memset(status, 0x55, sizeof(status));
	return 0;
}

static int tear_down(void **state)
{
	unlock_pages(area, 2 * (GOOD + 2));
	munmap(area, 2 * (GOOD + 2) * page);
	return 0;
}

static bool all(const unsigned char *p, unsigned char value)
{
	for (size_t i = 0; i < page; i++)
		if (p[i] != value)
			return false;
	return true;
}

static bool is_vectored(enum pgw_advice advice)
{
	struct pgw_probe p;

	assert_int_equal(pgw_probe(advice, &p), 0);
	return p.route == PGW_ROUTE_VECTORED;
}

/* An emulator (qemu-user) answers 0 to most advice and does nothing: what is tested is the kernel. */
static bool is_emulated(void)
{
	unsigned char *p = map(1, PROT_READ, 0);
	uintptr_t gone = (uintptr_t)p;

	munmap(p, page);
	return !madvise((void *)gone, page, MADV_COLD);
}

/* Asked without the shim, which does not know in the modes that do not probe. */
static bool known(enum pgw_advice advice)
{
	size_t len = 8u << 20; /* room for a huge page of any kind: COLLAPSE takes nothing less */
	unsigned char *p = map(len / page, PROT_READ | PROT_WRITE, MAP_NORESERVE);
	unsigned char *at = (unsigned char *)(((uintptr_t)p + len / 2 - 1) & -(uintptr_t)(len / 2));
	bool refused;

	*at = 1;
	refused = madvise(at, len / 2, pgw__advice_number(advice)) && errno == EINVAL;
	munmap(p, len);
	if (refused)
		print_message("%s: this kernel does not know it\n", pgw_advice_name(advice));
	return !refused && !is_emulated();
}

/* --- each advice --- */

static void assert_zeroed(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(status[i], 0);
		assert_true(all((void *)(uintptr_t)ranges[i].start, 0));
		assert_true(all((unsigned char *)(uintptr_t)ranges[i].start + page, 0xa5));
	}
}

static void dontneed_zeroes(void **state)
{
	assert_int_equal(pgw_advise(ranges, GOOD, PGW_DONTNEED, status, &report), 0);
	assert_zeroed(GOOD);
	assert_int_equal(report.done_bytes, GOOD * page);
	if (is_vectored(PGW_DONTNEED)) {
		assert_int_equal(report.vectored_calls, 1);
		assert_int_equal(report.single_calls, 0);
	} else {
		assert_int_equal(report.vectored_calls, 0);
		assert_int_equal(report.single_calls, GOOD);
	}
}

static void dontneed_locked_zeroes_locked_pages(void **state)
{
	if (!known(PGW_DONTNEED_LOCKED))
		skip();
	assert_int_equal(lock_pages(area, 100), 0);
	assert_int_equal(pgw_advise(ranges, GOOD, PGW_DONTNEED_LOCKED, status, NULL), 0);
	assert_zeroed(GOOD);
}

static void free_keeps_or_zeroes(void **state)
{
	assert_int_equal(pgw_advise(ranges, GOOD, PGW_FREE, status, NULL), 0);
	for (size_t i = 0; i < GOOD; i++) {
		unsigned char *p = (unsigned char *)(uintptr_t)ranges[i].start;

		assert_true(all(p, 0xa5) || all(p, 0));
		assert_true(all(p + page, 0xa5));
	}
}

static void hints_change_nothing(void **state)
{
	static const enum pgw_advice hints[] = { PGW_COLD, PGW_PAGEOUT, PGW_WILLNEED };

	for (size_t h = 0; h < 3; h++) {
		if (!known(hints[h]))
			continue;
		assert_int_equal(pgw_advise(ranges, GOOD, hints[h], status, NULL), 0);
		for (size_t i = 0; i < 2 * GOOD; i++)
			assert_true(all(area + i * page, 0xa5));
	}
}

static bool resident(void *p)
{
	unsigned char vec = 0;

	assert_int_equal(mincore(p, page, &vec), 0);
	return vec & 1;
}

static void populate_maps(void **state)
{
	static const enum pgw_advice advices[] = { PGW_POPULATE_READ, PGW_POPULATE_WRITE };

	for (size_t a = 0; a < 2; a++) {
		unsigned char *p = map(200, PROT_READ | PROT_WRITE, MAP_NORESERVE);

		if (!known(advices[a]))
			skip();
		madvise(p, 200 * page, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < 100; i++)
			ranges[i] = range_of(p + 2 * i * page, 1);
		assert_int_equal(pgw_advise(ranges, 100, advices[a], status, NULL), 0);
		for (size_t i = 0; i < 200; i++)
			assert_int_equal(resident(p + i * page), i % 2 == 0);
		munmap(p, 200 * page);
	}
}

/* The flags of the mapping at p, from smaps. */
static bool left_out_of_dumps(void *p)
{
	char line[512];
	bool here = false, found = false;
	FILE *f = fopen("/proc/self/smaps", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *dash;
		unsigned long from = strtoul(line, &dash, 16), to;

		if (*dash == '-') {
			to = strtoul(dash + 1, NULL, 16);
			here = (uintptr_t)p >= from && (uintptr_t)p < to;
		} else if (here && !strncmp(line, "VmFlags:", 8)) {
			found = strstr(line, " dd") != NULL;
		}
	}
	fclose(f);
	return found;
}

static void dump_flags(void **state)
{
	if (!known(PGW_DONTDUMP))
		skip();
	ranges[1] = range_of(area + 8 * page, 2);
	assert_int_equal(pgw_advise(ranges, 2, PGW_DONTDUMP, status, NULL), 0);
	assert_true(left_out_of_dumps(area));
	assert_false(left_out_of_dumps(area + page));
	assert_true(left_out_of_dumps(area + 9 * page));
	assert_int_equal(pgw_advise(ranges, 2, PGW_DODUMP, status, NULL), 0);
	assert_false(left_out_of_dumps(area));
}

static void collapse_keeps_contents(void **state)
{
	size_t huge = 2u << 20;
	unsigned char *p = map(4 * huge / page, PROT_READ | PROT_WRITE, MAP_NORESERVE);
	struct pgw_range r[2];
	int err;

	p = (unsigned char *)(((uintptr_t)p + huge - 1) & ~(uintptr_t)(huge - 1));
	if (page != 4096 || !known(PGW_COLLAPSE))
		skip();
	memset(p, 0xa5, 3 * huge);
	r[0] = range_of(p, huge / page);
	r[1] = range_of(p + 2 * huge, huge / page);
	err = pgw_advise(r, 2, PGW_COLLAPSE, status, &report);
	if (err && err != -ENOMEM && err != -EAGAIN) /* no huge page to be had is no failure */
		fail_msg("collapse: %d", err);
	assert_int_equal(report.vectored_calls, 0);
	for (size_t i = 0; i < 3 * huge / page; i++)
		assert_true(all(p + i * page, 0xa5));
}

/* --- one bad range among a thousand --- */

static void one_bad(int err, void (*spoil)(unsigned char *p), void (*mend)(unsigned char *p))
{
	static const size_t places[] = { 0, 1, 499, GOOD - 1, GOOD };

	for (size_t i = 0; i < 5; i++) {
		unsigned char *bad = area + 2 * places[i] * page;

		memset(area, 0xa5, (2 * GOOD + 1) * page);
		spoil(bad);
		assert_int_equal(pgw_advise(ranges, GOOD + 1, PGW_DONTNEED, status, &report), err);
		for (size_t k = 0; k <= GOOD; k++) {
			assert_int_equal(status[k], k == places[i] ? err : 0);
			if (k != places[i])
				assert_true(all(area + 2 * k * page, 0));
		}
		assert_int_equal(report.failed_ranges, 1);
		assert_int_equal(report.done_bytes, GOOD * page);
		if (is_vectored(PGW_DONTNEED)) {
			assert_true(report.vectored_calls <= 2);
			assert_true(report.single_calls <= 2);
		}
		if (mend)
			mend(bad);
		else
			return; /* it stays */
	}
}

static void lock(unsigned char *p)
{
	assert_int_equal(lock_pages(p, 1), 0);
}

static void unlock(unsigned char *p)
{
	assert_true(all(p, 0xa5));
	assert_int_equal(unlock_pages(p, 1), 0);
}

static void one_locked(void **state)
{
	one_bad(-EINVAL, lock, unlock);
}

static void unmap(unsigned char *p)
{
	assert_int_equal(munmap(p, page), 0);
}

static void remap(unsigned char *p)
{
	assert_ptr_equal(mmap(p, page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0),
	    p);
}

static void one_unmapped(void **state)
{
	if (is_emulated())
		skip();
	one_bad(-ENOMEM, unmap, remap);
}

/* A sealed page that is not writable cannot be dropped. (One that is writable can: a write would
 * do as much.) It stays, and with it the area: in a process of its own. */
static void seal(unsigned char *p)
{
	assert_int_equal(mprotect(p, page, PROT_READ), 0);
	if (syscall(SYS_mseal, p, page, 0))
		_exit(errno == ENOSYS ? 77 : 1);
}

static void one_sealed(void **state)
{
	int ws;
	pid_t pid = fork();

	if (!pid) {
		size_t places[] = { 0, 499, GOOD };

		for (size_t i = 0; i < 3; i++) {
			set_up(NULL);
			seal(area + 2 * places[i] * page);
			if (pgw_advise(ranges, GOOD + 1, PGW_DONTNEED, status, &report) != -EPERM)
				_exit(2);
			for (size_t k = 0; k <= GOOD; k++) {
				bool sealed = k == places[i];

				if (status[k] != (sealed ? -EPERM : 0) ||
				    !all(area + 2 * k * page, sealed ? 0xa5 : 0))
					_exit(3);
			}
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &ws, 0), pid);
	if (WIFEXITED(ws) && WEXITSTATUS(ws) == 77)
		skip();
	assert_int_equal(ws, 0);
}

static void inaccessible_ranges_are_fine(void **state)
{
	assert_int_equal(mprotect(area + 10 * page, page, PROT_NONE), 0);
	assert_int_equal(mprotect(area + 20 * page, page, PROT_READ), 0);
	assert_int_equal(pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL), 0);
	assert_int_equal(mprotect(area, 30 * page, PROT_READ | PROT_WRITE), 0);
	assert_zeroed(GOOD);
}

static void kernel_addresses(void **state)
{
	if (is_emulated())
		skip();
	ranges[500] = (struct pgw_range){ UINT64_C(0xffff800000000000), page };
	assert_true(pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL) < 0);
	for (size_t i = 0; i < GOOD; i++) {
		assert_int_equal(status[i] != 0, i == 500);
		if (i != 500)
			assert_true(all(area + 2 * i * page, 0));
	}
}

/* --- sizes and orders --- */

/* Above what one process_madvise takes (2 GiB less a page). */
static void gigabytes(void **state)
{
	size_t pages = (size_t)((UINT64_C(3) << 30) / page);
	struct pgw_range r[3];
	unsigned char *p;

	if (sizeof(void *) < sizeof(uint64_t))
		skip(); /* no room for them */
	p = map(2 * pages, PROT_READ | PROT_WRITE, MAP_NORESERVE);
	r[0] = range_of(p, pages);
	r[1] = range_of(p + (pages + 1) * page, pages - 2);
	r[2] = range_of(area, 1);
	madvise(p, 2 * pages * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < 2; i++) {
		*(unsigned char *)(uintptr_t)r[i].start = 1;
		*((unsigned char *)(uintptr_t)pgw_range_end(r[i]) - 1) = 1;
	}
	p[pages * page] = 1;
	assert_int_equal(pgw_advise(r, 3, PGW_DONTNEED, status, &report), 0);
	assert_int_equal(report.done_bytes, (2 * pages - 2 + 1) * page);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(*(unsigned char *)(uintptr_t)r[i].start, 0);
		assert_int_equal(*((unsigned char *)(uintptr_t)pgw_range_end(r[i]) - 1), 0);
	}
	assert_int_equal(p[pages * page], 1);
	munmap(p, 2 * pages * page);
}

static void descending_and_overlapping(void **state)
{
	static struct pgw_range many[5000];
	unsigned char *p = map(10002, PROT_READ | PROT_WRITE, MAP_NORESERVE);

	madvise(p, 10002 * page, MADV_NOHUGEPAGE);
	memset(p, 0xa5, 10002 * page);
	for (size_t i = 0; i < 5000; i++)
		many[i] = range_of(p + 2 * (4999 - i) * page, i % 100 ? 1 : 2);
	assert_int_equal(pgw_advise(many, 5000, PGW_DONTNEED, NULL, &report), 0);
	for (size_t i = 0; i < 5000; i++) {
		assert_true(all(p + 2 * i * page, 0));
		assert_true(all(p + (2 * i + 1) * page, (4999 - i) % 100 ? 0xa5 : 0));
	}
	if (is_vectored(PGW_DONTNEED))
		assert_int_equal(report.vectored_calls, 5);
	munmap(p, 10002 * page);
}

/* --- processes and threads --- */

static void a_child_advises_its_own_memory(void **state)
{
	int ws;
	pid_t pid;

	is_vectored(PGW_DONTNEED);
	is_vectored(PGW_COLD);
	pid = fork();
	if (!pid) {
		bool ok = !pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL);

		for (size_t i = 0; i < GOOD; i++)
			ok = ok && all(area + 2 * i * page, 0);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &ws, 0), pid);
	assert_int_equal(ws, 0);
	for (size_t i = 0; i < 2 * GOOD; i++)
		assert_true(all(area + i * page, 0xa5));
}

/* In a child that has done something to itself. */
static void in_child(void (*prepare)(void))
{
	int ws;
	pid_t pid = fork();

	if (!pid) {
		prepare();
		if (pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL))
			_exit(1);
		_exit(all(area + 10 * page, 0) && all(area + 11 * page, 0xa5) ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &ws, 0), pid);
	assert_int_equal(ws, 0);
}

static void no_descriptors(void)
{
	struct rlimit r = { 0, 0 };

	setrlimit(RLIMIT_NOFILE, &r);
}

static void no_address_space(void)
{
	struct rlimit r = { 0, 0 };

	setrlimit(RLIMIT_AS, &r);
}

static void close_everything(void)
{
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
}

static void limits(void **state)
{
	in_child(no_descriptors);
	in_child(no_address_space);
	in_child(close_everything);
}

static void everything_locked(void **state)
{
	int ws;
	pid_t pid;

	if (SANITIZED)
		skip(); /* their shadow memory would be locked with it */
	pid = fork();
	if (!pid) {
		if (mlockall(MCL_CURRENT | MCL_FUTURE))
			_exit(77);
		set_up(NULL);
		if (pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL) != -EINVAL ||
		    !all(area, 0xa5))
			_exit(1);
		munlockall();
		if (pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL))
			_exit(2);
		_exit(all(area, 0) ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &ws, 0), pid);
	if (WIFEXITED(ws) && WEXITSTATUS(ws) == 77)
		skip();
	assert_int_equal(ws, 0);
}

static void *advise_unsorted(void *arg)
{
	struct pgw_range r[60];
	int *result = arg;

	for (size_t i = 0; i < 60; i++)
		r[i] = range_of(area + 2 * (i * 7 % 60) * page, 1);
	*result = pgw_advise(r, 60, PGW_DONTNEED, NULL, NULL);
	return NULL;
}

/* The smallest stack a thread can have. */
static void small_stack(void **state)
{
	pthread_attr_t attr;
	pthread_t thread;
	int result = 1;
	size_t stack = (size_t)sysconf(_SC_THREAD_STACK_MIN);

	assert_int_equal(pthread_attr_init(&attr), 0);
	if (SANITIZED)
		stack += 256 << 10; /* theirs */
	assert_int_equal(pthread_attr_setstacksize(&attr, stack), 0);
	assert_int_equal(pthread_create(&thread, &attr, advise_unsorted, &result), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	assert_int_equal(result, 0);
	assert_true(all(area, 0));
}

static pthread_barrier_t together;

static void *advise_part(void *arg)
{
	size_t part = (size_t)(uintptr_t)arg;
	intptr_t failed = 0;

	pthread_barrier_wait(&together);
	for (int a = 0; a < PGW_ADVICE_COUNT; a++) {
		struct pgw_probe p;

		failed |= pgw_probe((enum pgw_advice)a, &p);
	}
	failed |= pgw_advise(ranges + part * 250, 250, PGW_DONTNEED, status + part * 250, NULL);
	return (void *)failed;
}

static void threads_at_once(void **state)
{
	pthread_t threads[4];

	pthread_barrier_init(&together, NULL, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(
		    pthread_create(&threads[i], NULL, advise_part, (void *)(uintptr_t)i), 0);
	for (size_t i = 0; i < 4; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_zeroed(GOOD);
}

static void errno_stays(void **state)
{
	errno = 12345;
	ranges[3].start++;
	lock_pages(area, 1);
	pgw_advise(ranges, GOOD, PGW_DONTNEED, status, NULL);
	assert_int_equal(errno, 12345);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(threads_at_once), /* while nothing is decided yet */
		TEST(dontneed_zeroes),
		TEST(dontneed_locked_zeroes_locked_pages),
		TEST(free_keeps_or_zeroes),
		TEST(hints_change_nothing),
		TEST(populate_maps),
		TEST(dump_flags),
		TEST(collapse_keeps_contents),
		TEST(one_locked),
		TEST(one_unmapped),
		TEST(one_sealed),
		TEST(inaccessible_ranges_are_fine),
		TEST(kernel_addresses),
		TEST(gigabytes),
		TEST(descending_and_overlapping),
		TEST(a_child_advises_its_own_memory),
		TEST(limits),
		TEST(everything_locked),
		TEST(small_stack),
		TEST(errno_stays),
	};

	if (!pgw_dontneed_zeroes()) {
		fprintf(stderr, "madvise(MADV_DONTNEED) does nothing here: an emulator?\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
