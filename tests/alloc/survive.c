/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive.c CASE: what programs do to a malloc, and what is done to them. Linked to the library;
 * run with MALLOC_CONF=dirty_decay_ms:0, so that everything is purged.
 *
 * Each case does its thing and then checks that memory works: blocks keep what is written to them,
 * calloc is zero, and a purge still goes through (or the reason why not is what it should be).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "survive.h"

/* ---- cases: descriptors ---- */

static int closed_descriptors(void)
{
	if (!memory_works(500, 1))
		return wrong("memory");
	closefrom(3);
	if (!memory_works(2000, 2))
		return wrong("after closefrom");
	/* Files of the program take the numbers; nothing of ours may close or use them. */
	for (int i = 0; i < 50; i++)
		(void)open("/dev/null", O_RDONLY);
	if (!memory_works(2000, 3))
		return wrong("with the numbers taken");
	for (int fd = 3; fd < 53; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return wrong("a descriptor of the program was closed");
	return pgw_alloc_purge() ? wrong("purge") : 0;
}

/* ---- cases: locked memory ---- */

static int locked(void)
{
	struct rlimit r = { RLIM_INFINITY, RLIM_INFINITY };
	int err = 0;

	(void)setrlimit(RLIMIT_MEMLOCK, &r);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return skip("memory cannot be locked here");
	if (!memory_works(3000, 1))
		return wrong("memory");
	for (int tries = 0; tries < 100 && !err;
	     tries++) { /* the purger may have tried it before */
		if (!memory_works(20, (uint64_t)tries))
			return wrong("memory");
		err = pgw_alloc_purge();
	}
	if (err != -EAGAIN)
		return wrong("locked memory must be reported as not given back");
	if (!stats().stale_bytes || stats().purged_bytes == 0)
		return wrong("it should have been tried, and be stale");
	if (!memory_works(3000, 2))
		return wrong("stale memory reused");
	if (!stats().stale_hits)
		return wrong("stale memory was not reused");
	munlockall();
	return memory_works(3000, 3) && !pgw_alloc_purge() ? 0 : wrong("after munlockall");
}

/* ---- cases: limits ---- */

/* Fill an address space that is limited, free every other block, go on with other sizes. */
static int address_limit(void)
{
	struct rlimit r = { 512u << 20, 512u << 20 };
	static void *v[4000];
	size_t n = 0, again = 0;

	if (setrlimit(RLIMIT_AS, &r))
		return skip("no limit can be set");
	while (n < 4000 && (v[n] = malloc(200 << 10)))
		memset(v[n++], 1, 200 << 10);
	if (n == 4000 || n < 1000)
		return wrong("the limit is not where it should be");
	for (size_t i = 0; i < n; i += 2)
		free(v[i]);
	for (size_t i = 0; i < n; i += 2)
		again += (v[i] = malloc(190 << 10)) != NULL;
	if (again < n / 2 * 9 / 10)
		return wrong("freed memory cannot be had again");
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	/* All in pieces; one large block needs them unmapped. */
	v[0] = malloc(300 << 20);
	if (!v[0])
		return wrong("no large block after everything was freed");
	memset(v[0], 1, 300 << 20);
	free(v[0]);
	return memory_works(1000, 1) ? 0 : wrong("memory");
}

/* More than there is memory, of which little is touched: allowed unless overcommit is forbidden. */
static int sparse(void)
{
	size_t pages = (size_t)sysconf(_SC_PHYS_PAGES), page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = 16 * pages * page;
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = f ? fgetc(f) : '2';
	char *p;

	if (f)
		fclose(f);
	if (mode == '2')
		return skip("overcommit is forbidden here");
	p = malloc(size);
	if (!p)
		return wrong("no large block");
	for (size_t i = 0; i < size; i += size / 16)
		p[i] = 1;
	free(p);
	p = calloc(1, size);
	if (!p)
		return wrong("no large block of zeroes");
	for (size_t i = 0; i < size; i += size / 16)
		if (p[i])
			return wrong("not zero");
	free(p);
	if (pgw_alloc_purge())
		return wrong("purge");
	return stats().clean_bytes <= 1u << 30 ? 0 : wrong("address space is kept without bound");
}

/* ---- cases: an idle process ---- */

/* It gives its memory back, without another call of malloc. No time is asserted but a generous
 * end: 30 s, where the age is 0.1 s. */
static int idle(void)
{
	enum { N = 1000 };
	static void *v[N];
	size_t full;

	for (int i = 0; i < N; i++)
		memset(v[i] = malloc(40000), 1, 40000);
	full = resident();
	for (int i = 0; i < N; i++)
		free(v[i]);
	for (int i = 0; i < 600; i++) {
		struct timespec t = { 0, 50 * 1000 * 1000 };

		if (stats().pending_bytes + stats().in_flight_bytes == 0)
			break;
		nanosleep(&t, NULL);
	}
	if (stats().pending_bytes)
		return wrong("memory is still pending");
	return resident() + 9000 * 4096 < full ? 0 : wrong("memory is still resident");
}

/* ---- cases: before everything ---- */

static void *early[100];

__attribute__((constructor(101))) static void before_all(int argc, char **argv)
{
	if (argc != 2 || strcmp(argv[1], "constructors"))
		return;
	for (int i = 0; i < 100; i++)
		early[i] = calloc(1, 30000 + 100 * (size_t)i);
	for (int i = 0; i < 100; i += 2)
		free(early[i]);
}

static int constructors(void)
{
	for (int i = 1; i < 100; i += 2) {
		if (!early[i] || !is(early[i], 30000, 0))
			return wrong("memory from a constructor");
		free(early[i]);
	}
	return memory_works(1000, 1) ? 0 : wrong("memory");
}

static const struct test_case cases[] = {
	{ "fork-threads", fork_threads },
	{ "fork-flush", fork_flush },
	{ "fork-alone", fork_alone },
	{ "fork-deep", fork_deep },
	{ "vfork-exec", vfork_exec },
	{ "raw-fork", raw_fork },
	{ "closed-descriptors", closed_descriptors },
	{ "locked", locked },
	{ "filter-enosys", filter_enosys },
	{ "filter-eperm", filter_eperm },
	{ "filter-zero", filter_zero },
	{ "filter-late", filter_late },
	{ "filter-madvise-zero", filter_madvise_zero },
	{ "filter-kill", filter_kill },
	{ "no-threads", no_threads },
	{ "address-limit", address_limit },
	{ "sparse", sparse },
	{ "many-short-threads", many_short_threads },
	{ "main-leaves", main_leaves },
	{ "main-leaves-first", main_leaves_first },
	{ "main-leaves-child", main_leaves_child },
	{ "main-ends-raw", main_ends_raw },
	{ "exit-while-purging", exit_while_purging },
	{ "exit-in-handler", exit_in_handlers },
	{ "exit-child", exit_child },
	{ "signals", signals },
	{ "idle", idle },
	{ "constructors", constructors },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
