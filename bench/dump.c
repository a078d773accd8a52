/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dump.c - how long the kernel takes to dump a process that has reserved much and written one page:
 * pgw_reserve beside one plain mapping. Half a minute for a plain TiB: by default 64 GiB are
 * measured, and what 1 TiB would take is calculated.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <pagewise/reserve.h>

#include "coredump.h"

#define GIB UINT64_C(1073741824)

struct reservation {
	const char *name;
	uint64_t bytes;
	bool plain;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void reserve_and_write(void *arg)
{
	struct reservation *r = arg;
	void *p;
	int err;

	if (r->plain) {
		p = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			fail("mmap");
	} else {
		err = pgw_reserve(r->bytes, &p);
		if (err) {
			fprintf(stderr, "pgw_reserve: %s\n", strerror(-err));
			exit(1);
		}
	}
	((char *)p)[r->bytes / 3] = 1;
}

static double measure(struct reservation *r, uint64_t *dumped)
{
	struct timespec a, b;
	struct coredump c;

	clock_gettime(CLOCK_MONOTONIC, &a);
	coredump_make(&c, reserve_and_write, r);
	clock_gettime(CLOCK_MONOTONIC, &b);
	*dumped = c.bytes;
	coredump_remove(&c);
	return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

static int usage(void)
{
	fprintf(stderr, "usage: bench-dump [--json] [--reserve-gib=N] [--plain-gib=N]\n");
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t reserve = 1024, plain = 64;
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			json = true;
		else if (sscanf(argv[i], "--reserve-gib=%" SCNu64, &reserve) != 1 &&
			 sscanf(argv[i], "--plain-gib=%" SCNu64, &plain) != 1)
			return usage();
	}
	if (!reserve || !plain)
		return usage();
	struct reservation side[] = {
		{ "pgw_reserve", reserve * GIB, false },
		{ "mmap", plain * GIB, true },
	};

	if (!json)
		printf("%-12s %8s %10s %14s\n", "", "GiB", "seconds", "dumped, MiB");
	for (int i = 0; i < 2; i++) {
		uint64_t dumped;
		double s = measure(&side[i], &dumped);

		printf(json ? "{\"how\": \"%s\", \"gib\": %" PRIu64 ", \"seconds\": %.4f, "
			      "\"dumped_mib\": %" PRIu64 "}\n"
			    : "%-12s %8" PRIu64 " %10.4f %14" PRIu64 "\n",
		    side[i].name, side[i].bytes / GIB, s, dumped >> 20);
		if (side[i].plain && !json)
			printf("%-12s %8d %10.1f (calculated)\n", side[i].name, 1024,
			    s * 1024 / (double)plain);
	}
	return 0;
}
