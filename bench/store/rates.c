/* SPDX-License-Identifier: BSD-2-Clause
 *
 * rates.c - commits per second, and how long one takes.
 */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_SAMPLES 200000

/* Rounds of latencies, in rounds of rates. */
#define LONGER 4

/* From where on a barrier counts as slow. */
#define SLOW_BARRIER_US 300

struct series {
	double rate[MAX_ROUNDS], barriers[MAX_ROUNDS];
};

/* Rounds of a load on all subjects in turn. */
static void run(struct subject *s, struct series *out, size_t n, const struct load *l)
{
	for (unsigned round = 0; round < bench.rounds; round++) {
		for (size_t i = 0; i < n; i++) {
			struct result r = load_run(&s[i], l);

			out[i].rate[round] = r.rate;
			out[i].barriers[round] = r.barriers;
		}
	}
}

static double median(const double *v)
{
	double copy[MAX_ROUNDS];

	for (unsigned i = 0; i < bench.rounds; i++)
		copy[i] = v[i];
	return quantile(copy, bench.rounds, 0.5);
}

/* The median of a round's quotients. */
static double quotient(const double *a, const double *b)
{
	double q[MAX_ROUNDS];

	for (unsigned i = 0; i < bench.rounds; i++)
		q[i] = b[i] > 0 ? a[i] / b[i] : 0;
	return quantile(q, bench.rounds, 0.5);
}

static void line(const char *part, const char *what, const struct series *ours, enum mode peer,
    const struct series *theirs, double target)
{
	report_line(part, what, "commits/s", median(ours->rate), mode_name(peer),
	    median(theirs->rate), quotient(ours->rate, theirs->rate), AT_LEAST, target);
}

static void create(struct subject *s, size_t n, const enum mode *modes)
{
	for (size_t i = 0; i < n; i++) {
		s[i] = (struct subject){ .mode = modes[i] };
		subject_create(&s[i]);
	}
}

static void destroy(struct subject *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		subject_destroy(&s[i]);
}

double measure_disk(void)
{
	static char page[4096];
	double us[100];
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/bench-store-%d-disk", bench.dir, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	unlink(path);
	for (unsigned i = 0; i < 100; i++) {
		double start = now_us();

		if (pwrite(fd, page, sizeof(page), (off_t)(i % 8) * 4096) < 0 || fdatasync(fd)) {
			perror(path);
			exit(EXIT_FAILURE);
		}
		us[i] = now_us() - start;
	}
	close(fd);
	/* The first eight allocate. */
	report_disk(quantile(us + 8, 92, 0.5), quantile(us + 8, 92, 0.9));
	return quantile(us + 8, 92, 0.5);
}

static void report_size(const char *part, struct subject *ours, const struct subject *pinned)
{
	report_line(part, "relaxed, file over live data", "MiB",
	    subject_file_bytes(ours) / (1 << 20), mode_name(PINNED),
	    subject_file_bytes(pinned) / (1 << 20),
	    subject_file_bytes(ours) / subject_live_bytes(ours), AT_MOST, 3);
}

/* Of each engine in a round. */
#define TURNS 4

/* Two engines on one file, opened by each in turn. A commit takes 250 to 450 us as the disk goes, and up to 8 %
 * more or less as the file lies on it, the same for both engines: on files of their own that would be the
 * quotient. The turns of a round are short, and in an order (first, second, second, first, and these four the
 * other way round) in which neither a disk that gets slower nor what one turn leaves to the next favours
 * one of them. */
static void measure_on_one_file(const char *part, const char *what, enum mode ours, enum mode peer)
{
	const struct load l = { .threads = 1, .batch = 1 };
	const enum mode modes[] = { peer, ours };
	static struct series r[2];
	const unsigned ms = bench.ms;
	struct subject s = { .mode = peer };

	subject_create(&s);
	bench.ms = ms / TURNS ? ms / TURNS : 1;
	for (unsigned round = 0; round < bench.rounds; round++) {
		r[0].rate[round] = r[1].rate[round] = 0;
		for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
			unsigned i = (turn ^ turn >> 1 ^ turn >> 2 ^ round) & 1;

			subject_reopen(&s, modes[i]);
			r[i].rate[round] += load_run(&s, &l).rate / TURNS;
		}
	}
	bench.ms = ms;
	line(part, what, &r[1], peer, &r[0], 1.0);
	subject_destroy(&s);
}

void measure_null(void)
{
	measure_on_one_file("null", "the peer itself, 1 thread", DURABLE, DURABLE);
}

void measure_single(double barrier_us)
{
	static const enum mode modes[] = { DURABLE, NOSYNC, PINNED, GROUP, RELAXED };
	enum { DURABLE_AT, NOSYNC_AT, PINNED_AT, GROUP_AT, RELAXED_AT, SUBJECTS };
	const struct load l = { .threads = 1, .batch = 1 };
	static struct series r[SUBJECTS];
	struct subject s[SUBJECTS];

	measure_on_one_file("single", "strict, 1 thread", STRICT, DURABLE);
	create(s, SUBJECTS, modes);
	run(s, r, SUBJECTS, &l);
	report_line("single", "group, 1 thread", "barriers a commit", median(r[GROUP_AT].barriers),
	    mode_name(DURABLE), median(r[DURABLE_AT].barriers), median(r[GROUP_AT].barriers),
	    AT_MOST, 1.0);
	line("single", "group, 1 thread", &r[GROUP_AT], DURABLE, &r[DURABLE_AT],
	    barrier_us > SLOW_BARRIER_US ? 1.7 : 1.25);
	line("single", "relaxed, 1 thread", &r[RELAXED_AT], DURABLE, &r[DURABLE_AT], 8);
	line("single", "relaxed, 1 thread", &r[RELAXED_AT], PINNED, &r[PINNED_AT], 0.9);
	report_size("single", &s[RELAXED_AT], &s[PINNED_AT]);
	destroy(s, SUBJECTS);
}

static void measure_group(unsigned threads, double target)
{
	static const enum mode modes[] = { DURABLE, GROUP };
	const struct load l = { .threads = threads, .batch = 1 };
	static struct series r[2];
	struct subject s[2];
	char what[64];

	create(s, 2, modes);
	run(s, r, 2, &l);
	snprintf(what, sizeof(what), "group, %u threads", threads);
	line("threads", what, &r[1], DURABLE, &r[0], target);
	destroy(s, 2);
}

void measure_threads(void)
{
	measure_group(16, 5);
	measure_group(64, 10);
}

static void measure_relaxed(const char *part, const char *what, bool append, double target)
{
	static const enum mode modes[] = { NOSYNC, PINNED, RELAXED };
	const struct load l = { .threads = 1, .batch = 100, .append = append };
	static struct series r[3];
	struct subject s[3];

	create(s, 3, modes);
	run(s, r, 3, &l);
	line(part, what, &r[2], NOSYNC, &r[0], target);
	line(part, what, &r[2], PINNED, &r[1], 0.9);
	if (!append)
		report_size(part, &s[2], &s[1]);
	destroy(s, 3);
}

void measure_batch(void)
{
	measure_relaxed("batch", "relaxed, 100 records", false, 0.7);
}

void measure_append(void)
{
	measure_relaxed("append", "relaxed, 100 appended", true, 0.9);
}

/* Of all rounds together, and these are long: what makes the 99th percentile is rare, and where locks are
 * not fair, longer than a short round. */
void measure_latency(void)
{
	const unsigned ms = bench.ms;
	static const enum mode modes[] = { DURABLE, GROUP };
	const struct load l = { .threads = 1, .batch = 1, .bulk = 1000 };
	static double us[2][MOST_SAMPLES];
	size_t n[2] = { 0 };
	struct subject s[2];
	double p99[2];

	create(s, 2, modes);
	bench.ms = ms * LONGER;
	for (unsigned round = 0; round < bench.rounds; round++) {
		for (int i = 0; i < 2; i++) {
			struct result r = load_run(&s[i], &l);

			for (size_t k = 0; k < r.n && n[i] < MOST_SAMPLES; k++)
				us[i][n[i]++] = r.us[k];
		}
	}
	bench.ms = ms;
	for (int i = 0; i < 2; i++)
		p99[i] = quantile(us[i], n[i], 0.99);
	report_line("latency", "group, p99 beside a bulk loader", "us", p99[1], mode_name(DURABLE),
	    p99[0], p99[1] / p99[0], AT_MOST, 1.0 / 3);
	destroy(s, 2);
}
