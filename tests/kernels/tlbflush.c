/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tlbflush.c - how many TLB flushes it costs to drop separate pages, by batch size, as JSON.
 *
 * A second thread of the process runs on another CPU, so each flush is an interrupt of that CPU.
 * They are counted with the tracepoint tlb:tlb_flush, in the dropping thread alone; times in an
 * emulated guest mean nothing, counts are exact.
 *
 *   tlbflush [PAGES [SECONDS]]
 *
 * Where a flush is slow (two emulated CPUs on a busy one), fewer pages than PAGES are used, and rows
 * left out, so that it ends soon after SECONDS. Leaves with 77 where the tracepoint cannot be had, or
 * there is one CPU.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/advise.h>

#include "../spin.h"

enum { SKIP = 77, MAX_BATCH = 1024, PIDFD_SELF_VALUE = -10000, NR_PROCESS_MADVISE_VALUE = 440 };

/* In the tracepoint's reason: 0 is a task switch, which nobody asked for; 4 is a flush sent to
 * other CPUs. (Some CPUs flush others without an interrupt; then there is none with 4.) */
#define FILTER_ALL    "reason != 0"
#define FILTER_REMOTE "reason == 4"

static size_t page, pages = 8192;
static unsigned char *area; /* 2 * pages pages; every second one is used, so none are neighbours */
static struct pgw_range ranges[MAX_BATCH];
static struct iovec vec[MAX_BATCH];

static unsigned char *nth(size_t i)
{
	return area + 2 * i * page;
}

static int tracepoint_id(void)
{
	static const char *const paths[] = { "/sys/kernel/tracing/events/tlb/tlb_flush/id",
		"/sys/kernel/debug/tracing/events/tlb/tlb_flush/id" };

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		FILE *f = fopen(paths[i], "r");
		char line[32] = "";

		if (!f)
			continue;
		(void)fgets(line, sizeof line, f);
		(void)fclose(f);
		return line[0] ? (int)strtol(line, NULL, 10) : -1;
	}
	return -1;
}

static int counter(int id, const char *filter)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof a, .config = (uint64_t)id
	};
	int fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static uint64_t count(int fd)
{
	uint64_t v;

	if (read(fd, &v, sizeof v) != sizeof v) {
		perror("tlbflush: read of a counter");
		exit(1);
	}
	return v;
}

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static int cpus[2];
static atomic_int state; /* 1: the other thread runs; 2: it may end; 3: it could not be pinned */

/* Keeps its CPU in this address space: an idle CPU is not flushed, only marked. */
static void *busy(void *arg)
{
	int pinned = pin(cpus[1]);

	atomic_store(&state, pinned ? 3 : 1);
	while (atomic_load_explicit(&state, memory_order_relaxed) == 1)
		spin();
	return NULL;
}

/* Drops the first n separate pages from page i on. 0 or an errno. */
typedef int drop_fn(size_t i, size_t n);

static int drop_madvise(size_t i, size_t n)
{
	for (; n; i++, n--)
		if (madvise(nth(i), page, MADV_DONTNEED))
			return errno;
	return 0;
}

static int drop_vectored(size_t i, size_t n)
{
	long r;

	for (size_t k = 0; k < n; k++)
		vec[k] = (struct iovec){ nth(i + k), page };
	r = syscall(NR_PROCESS_MADVISE_VALUE, PIDFD_SELF_VALUE, vec, n, (long)MADV_DONTNEED, 0ul);
	if (r < 0)
		return errno;
	return (size_t)r == n * page ? 0 : EIO;
}

static int drop_pgw(size_t i, size_t n)
{
	for (size_t k = 0; k < n; k++)
		ranges[k] = (struct pgw_range){ (uintptr_t)nth(i + k), page };
	return -pgw_advise(ranges, n, PGW_DONTNEED, NULL, NULL);
}

static int verify_zero(void)
{
	for (size_t i = 0; i < pages; i++)
		if (*nth(i))
			return EIO;
	return 0;
}

static int row(const char *method, drop_fn *drop, size_t batch, int all, int remote, int first)
{
	uint64_t a, r;
	int err = 0;

	for (size_t i = 0; i < pages; i++)
		*nth(i) = 1;
	a = count(all);
	r = count(remote);
	for (size_t i = 0; i < pages && !err; i += batch)
		err = drop(i, batch);
	a = count(all) - a;
	r = count(remote) - r;
	if (!err)
		err = verify_zero();
	printf("%s\n\t\t{\"method\": \"%s\", \"batch\": %zu, ", first ? "" : ",", method, batch);
	if (err)
		printf("\"error\": \"%s\"}", strerrorname_np(err));
	else
		printf("\"flushes\": %" PRIu64 ", \"remote\": %" PRIu64 "}", a, r);
	return err;
}

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Halves the number of pages until the rows fit into the time. Six is about the sum of what the
 * rows cost, each page once in the rows without batches and half of them in the next. */
static void fit_into(double seconds)
{
	enum { SAMPLE = 512 };
	double one;

	for (size_t i = 0; i < SAMPLE; i++)
		*nth(i) = 1;
	one = now();
	(void)drop_madvise(0, SAMPLE);
	one = (now() - one) / SAMPLE;
	while (pages > MAX_BATCH && 6 * one * (double)pages > seconds)
		pages /= 2;
}

/* Rows are left out once the time is over: few show as much. */
static void measure(int all, int remote, double seconds)
{
	double end = now() + seconds;
	size_t step = 2;

	(void)row("madvise", drop_madvise, 1, all, remote, 1);
	for (size_t b = 1; b <= MAX_BATCH; b *= now() < end ? 2 : 32) {
		if (row("process_madvise", drop_vectored, b, all, remote, 0)) {
			step = 32; /* refused once, refused always; few rows show the loop */
			break;
		}
	}
	for (size_t b = 1; b <= MAX_BATCH; b *= now() < end ? step : 32)
		(void)row("pgw_advise", drop_pgw, b, all, remote, 0);
}

static int skip(const char *why)
{
	fprintf(stderr, "tlbflush: skipped: %s\n", why);
	return SKIP;
}

static int two_cpus(void)
{
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof set, &set))
		return 0;
	for (int c = 0; c < CPU_SETSIZE && n < 2; c++)
		if (CPU_ISSET(c, &set))
			cpus[n++] = c;
	return n == 2;
}

static int wrong_usage(void)
{
	fprintf(stderr, "usage: tlbflush [PAGES [SECONDS]], PAGES a power of two, at least %d\n",
	    MAX_BATCH);
	return 2;
}

static int open_counters(int *all, int *remote)
{
	int id = tracepoint_id();

	if (id < 0)
		return skip("no tracepoint tlb:tlb_flush (is tracefs mounted?)");
	*all = counter(id, FILTER_ALL);
	*remote = counter(id, FILTER_REMOTE);
	if (*all < 0 || *remote < 0)
		return skip("perf_event_open refuses the tracepoint tlb:tlb_flush");
	return 0;
}

static int start_busy(pthread_t *other)
{
	if (pin(cpus[0]) || pthread_create(other, NULL, busy, NULL))
		return skip("a thread cannot be pinned to a CPU");
	while (!atomic_load(&state))
		sched_yield();
	if (atomic_load(&state) == 3)
		return skip("a thread cannot be pinned to a CPU");
	return 0;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 1e9;
	pthread_t other;
	int all, remote, err;

	if (argc > 1)
		pages = strtoul(argv[1], NULL, 10);
	if (pages < MAX_BATCH || (pages & (pages - 1)) || seconds <= 0)
		return wrong_usage();
	page = pgw_page_size();
	if (!two_cpus())
		return skip("there is one CPU; nothing has to be told of a flush");
	err = open_counters(&all, &remote);
	if (err)
		return err;
	area = mmap(NULL, 2 * pages * page, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED || madvise(area, 2 * pages * page, MADV_NOHUGEPAGE)) {
		perror("tlbflush: mmap");
		return 1;
	}
	err = start_busy(&other);
	if (err)
		return err;
	fit_into(seconds);
	printf("{\n\t\"pages\": %zu,\n\t\"rows\": [", pages);
	measure(all, remote, seconds);
	printf("\n\t]\n}\n");
	atomic_store(&state, 2);
	(void)pthread_join(other, NULL);
	return 0;
}
