/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report.c - the table, or the same as JSON.
 */
#include "bench.h"

#include <stdio.h>

static bool any;

static void number(char *out, size_t size, double v)
{
	snprintf(out, size, v < 10 ? "%.2f" : v < 100 ? "%.1f" : "%.0f", v);
}

void report_disk(double median_us, double p90_us)
{
	if (bench.json) {
		printf("{\"records\":%llu,\"ms\":%u,\"rounds\":%u,\"barrier_us\":{\"median\":%.0f,"
		       "\"p90\":%.0f},\"lines\":[",
		    (unsigned long long)bench.records, bench.ms, bench.rounds, median_us, p90_us);
		return;
	}
	printf("A write of a page and fdatasync: median %.0f us, 90 %% within %.0f us\n\n",
	    median_us, p90_us);
	printf("%-8s %-44s %10s %-24s %10s %7s %-8s %s\n", "part", "what", "ours", "peer", "",
	    "value", "target", "");
	fflush(stdout);
}

void report_line(const char *part, const char *what, const char *unit, double ours,
    const char *peer, double theirs, double value, enum sense sense, double target)
{
	bool met = sense == AT_LEAST ? value >= target : value <= target;
	char a[32], b[32] = "", text[128], aim[32];

	if (bench.json) {
		printf("%s{\"part\":\"%s\",\"what\":\"%s\",\"unit\":\"%s\",\"ours\":%.3f,"
		       "\"peer\":\"%s\",\"theirs\":%.3f,\"value\":%.3f,\"%s\":%.2f,\"met\":%s}",
		    any ? "," : "", part, what, unit, ours, peer ? peer : "", theirs, value,
		    sense == AT_LEAST ? "at_least" : "at_most", target, met ? "true" : "false");
		any = true;
		return;
	}
	number(a, sizeof(a), ours);
	if (peer)
		number(b, sizeof(b), theirs);
	snprintf(text, sizeof(text), "%s, %s", what, unit);
	snprintf(aim, sizeof(aim), "%s %.4g", sense == AT_LEAST ? ">=" : "<=", target);
	printf("%-8s %-44s %10s %-24s %10s %7.2f %-8s %s\n", part, text, a, peer ? peer : "", b,
	    value, aim, met ? "met" : "missed");
	fflush(stdout);
}

void report_end(void)
{
	if (bench.json)
		puts("]}");
}
