/* SPDX-License-Identifier: BSD-2-Clause
 *
 * advise.c - the cost of giving back separate pages, by ranges per call.
 *
 * usage: bench-advise [--json] [--mib=N] [--rounds=N]
 *
 * The peers are madvise once over everything (the neighbours' pages with it: what no allocator can
 * do) and madvise once per range. Rows of the table are interleaved within each round; the numbers
 * are medians over the rounds. With a second CPU, all of it is repeated while another thread of the
 * process keeps that CPU busy, which is when a flush of the TLB costs an interrupt.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/advise.h>

#include "tlbcount.h"

#define ROUNDS_MAX 99

/* What a row hands over in one call of pgw_advise; or one of the peers. */
enum { WHOLE = -2, LOOP = -1 };

static const int batches[] = { WHOLE, LOOP, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };

#define ROWS ((int)(sizeof(batches) / sizeof(*batches)))

struct sample {
	double ms;
	uint64_t calls, flushes;
};

static struct {
	bool json;
	size_t mib, rounds;
	size_t ranges; /* half of the pages of area: every second one */
	unsigned char *area;
	struct pgw_range *v;
	int counter; /* of flushes, or < 0 */
	const char *why_not_counted;
} bench = { .mib = 64, .rounds = 5 };

static struct sample samples[2][ROWS][ROUNDS_MAX];
static atomic_bool stop;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static uint64_t purge(int batch)
{
	size_t page = pgw_page_size(), step;
	uint64_t calls = 0;

	if (batch == WHOLE) {
		if (madvise(bench.area, 2 * bench.ranges * page, MADV_DONTNEED))
			die("madvise");
		return 1;
	}
	if (batch == LOOP) {
		for (size_t i = 0; i < bench.ranges; i++)
			if (madvise(bench.area + 2 * i * page, page, MADV_DONTNEED))
				die("madvise");
		return bench.ranges;
	}
	for (size_t i = 0; i < bench.ranges; i += step) {
		struct pgw_advise_report r;

		step = bench.ranges - i < (size_t)batch ? bench.ranges - i : (size_t)batch;
		if (pgw_advise(bench.v + i, step, PGW_DONTNEED, NULL, &r))
			die("pgw_advise");
		calls += r.vectored_calls + r.single_calls;
	}
	return calls;
}

static struct sample measure(int batch)
{
	struct sample s = { 0 };
	uint64_t before = 0;
	double start;

	memset(bench.area, 1, 2 * bench.ranges * pgw_page_size());
	if (bench.counter >= 0)
		before = tlbcount_read(bench.counter);
	start = now_ms();
	s.calls = purge(batch);
	s.ms = now_ms() - start;
	if (bench.counter >= 0)
		s.flushes = tlbcount_read(bench.counter) - before;
	return s;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(
	    0, sizeof(set), &set); /* worth a try; without it numbers vary more */
}

static void *keep_busy(void *arg)
{
	pin(1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return NULL;
}

static void run(int busy)
{
	pthread_t thread;

	atomic_store(&stop, false);
	if (busy && pthread_create(&thread, NULL, keep_busy, NULL))
		die("pthread_create");
	for (size_t round = 0; round < bench.rounds; round++)
		for (int row = 0; row < ROWS; row++)
			samples[busy][row][round] = measure(batches[row]);
	atomic_store(&stop, true);
	if (busy)
		pthread_join(thread, NULL);
}

static int by_ms(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return (x->ms > y->ms) - (x->ms < y->ms);
}

static struct sample median(int busy, int row)
{
	qsort(samples[busy][row], bench.rounds, sizeof(struct sample), by_ms);
	return samples[busy][row][bench.rounds / 2];
}

static const char *label(int batch, char text[32])
{
	if (batch == WHOLE)
		return "madvise, everything at once";
	if (batch == LOOP)
		return "madvise per range";
	snprintf(text, 32, "pgw_advise, %d at a time", batch);
	return text;
}

static void print_number(uint64_t n, int width)
{
	if (bench.counter >= 0)
		printf("  %*" PRIu64, width, n);
	else
		printf("  %*s", width, "-");
}

static void print_text(int threads)
{
	char text[32];

	printf("%zu ranges of %zu bytes, every second page of %zu MiB; medians of %zu\n\n",
	    bench.ranges, pgw_page_size(), bench.mib, bench.rounds);
	printf("%-28s  %9s  %7s  %7s", "", "ms", "calls", "flushes");
	printf(threads > 1 ? "  %9s  %7s\n" : "\n", "ms, busy", "flushes");
	for (int row = 0; row < ROWS; row++) {
		struct sample s = median(0, row);

		printf("%-28s  %9.2f  %7" PRIu64, label(batches[row], text), s.ms, s.calls);
		print_number(s.flushes, 7);
		if (threads > 1) {
			s = median(1, row);
			printf("  %9.2f", s.ms);
			print_number(s.flushes, 7);
		}
		putchar('\n');
	}
	if (bench.counter < 0)
		printf("\nflushes not counted: %s\n", bench.why_not_counted);
}

static void print_json(int threads)
{
	char text[32];
	struct pgw_probe probe;

	pgw_probe(PGW_DONTNEED, &probe);
	printf("{\"bench\":\"advise\",\"ranges\":%zu,\"page\":%zu,\"rounds\":%zu,\"route\":\"%s\","
	       "\"rows\":[",
	    bench.ranges, pgw_page_size(), bench.rounds, pgw_route_name(probe.route));
	for (int busy = 0; busy < threads; busy++) {
		for (int row = 0; row < ROWS; row++) {
			struct sample s = median(busy, row);

			printf("%s{\"method\":\"%s\",\"batch\":%d,\"busy\":%s,\"ms\":%.3f,"
			       "\"calls\":%" PRIu64 ",\"flushes\":",
			    busy || row ? "," : "", label(batches[row], text),
			    batches[row] > 0 ? batches[row] : 0, busy ? "true" : "false", s.ms,
			    s.calls);
			if (bench.counter >= 0)
				printf("%" PRIu64 "}", s.flushes);
			else
				printf("null}");
		}
	}
	printf("]}\n");
}

static size_t parse(const char *what, const char *value, size_t max)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value == '\0' || *end || !n || n > max) {
		fprintf(stderr, "bench-advise: --%s wants a number from 1 to %zu, not '%s'\n", what,
		    max, value);
		exit(2);
	}
	return n;
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "mib", required_argument, NULL, 'm' },
		{ "rounds", required_argument, NULL, 'r' },
		{ 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'j') {
			bench.json = true;
		} else if (c == 'm') {
			bench.mib = parse("mib", optarg, 65536);
		} else if (c == 'r') {
			bench.rounds = parse("rounds", optarg, ROUNDS_MAX);
		} else {
			fprintf(stderr, "usage: bench-advise [--json] [--mib=N] [--rounds=N]\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	size_t page = pgw_page_size(), bytes;
	int threads = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;

	parse_options(argc, argv);
	bytes = bench.mib << 20;
	bench.ranges = bytes / page / 2;
	bench.area = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bench.v = calloc(bench.ranges, sizeof(*bench.v));
	if (bench.area == MAP_FAILED || !bench.v)
		die("memory");
	(void)madvise(bench.area, bytes, MADV_NOHUGEPAGE); /* else pages come 512 at a time */
	for (size_t i = 0; i < bench.ranges; i++)
		bench.v[i] = (struct pgw_range){ (uintptr_t)(bench.area + 2 * i * page), page };
	bench.counter = tlbcount_open(&bench.why_not_counted);
	pin(0);
	for (int busy = 0; busy < threads; busy++)
		run(busy);
	if (bench.json)
		print_json(threads);
	else
		print_text(threads);
	return 0;
}
