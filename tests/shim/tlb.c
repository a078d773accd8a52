/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tlb.c - what batching is for: 8192 separate pages are purged with few TLB flushes, while another
 * thread of the process runs. Counted by the kernel's tracepoint tlb:tlb_flush, not timed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagewise/advise.h>

#include "../spin.h"
#include "tlbcount.h"

#define RANGES	    8192
#define FLUSHES_MAX 64

static struct pgw_range ranges[RANGES];
static unsigned char *area;
static atomic_bool stop;

static int skip(const char *why)
{
	fprintf(stderr, "%s\n", why);
	return 77;
}

static int fail(const char *what, uint64_t n)
{
	fprintf(stderr, "FAIL: %s: %" PRIu64 "\n", what, n);
	return 1;
}

static void *run(void *arg)
{
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		spin();
	return NULL;
}

static void dirty(void)
{
	memset(area, 1, 2 * RANGES * pgw_page_size());
}

static uint64_t flushes_of_madvise(int counter)
{
	uint64_t before;

	dirty();
	before = tlbcount_read(counter);
	for (size_t i = 0; i < RANGES; i++)
		madvise((void *)(uintptr_t)ranges[i].start, (size_t)ranges[i].len, MADV_DONTNEED);
	return tlbcount_read(counter) - before;
}

static uint64_t flushes_of_advise(int counter, struct pgw_advise_report *report)
{
	uint64_t before;

	dirty();
	before = tlbcount_read(counter);
	if (pgw_advise(ranges, RANGES, PGW_DONTNEED, NULL, report))
		abort();
	return tlbcount_read(counter) - before;
}

int main(void)
{
	size_t page = pgw_page_size();
	struct pgw_advise_report report;
	uint64_t looped, batched;
	struct pgw_probe probe;
	const char *why;
	pthread_t thread;
	int counter;

	setenv("PAGEWISE_KERNEL", "auto", 1);
	pgw_probe(PGW_DONTNEED, &probe);
	if (probe.route != PGW_ROUTE_VECTORED)
		return skip(probe.reason);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return skip("one processor: there is no other to flush");
	counter = tlbcount_open(&why);
	if (counter < 0)
		return skip(why);

	area = mmap(NULL, 2 * RANGES * page, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return skip("no memory");
	madvise(area, 2 * RANGES * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < RANGES; i++)
		ranges[i] = (struct pgw_range){ (uintptr_t)area + 2 * i * page, page };
	if (pthread_create(&thread, NULL, run, NULL))
		return skip("no second thread");

	looped = flushes_of_madvise(counter);
	batched = flushes_of_advise(counter, &report);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	printf("%d ranges: %" PRIu64 " flushes by madvise, %" PRIu64 " by pgw_advise in %" PRIu64
	       " calls\n",
	    RANGES, looped, batched, report.vectored_calls);

	if (report.vectored_calls != RANGES / 1024 || report.single_calls)
		return fail("calls", report.vectored_calls + report.single_calls);
	if (looped < RANGES)
		return skip("the tracepoint does not count here");
	if (batched >= RANGES)
		return skip("this kernel takes vectors, and flushes for each range (before 6.16)");
	if (batched > FLUSHES_MAX)
		return fail("flushes", batched);
	return 0;
}
