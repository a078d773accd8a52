/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c - the speed of the store beside liblmdb, line by line against what it is to reach.
 *
 * usage: bench-store [--json] [--dir=DIR] [--only=PART,...] [--records=N] [--ms=N] [--rounds=N]
 *                    [--mib=N] STORE
 *
 * STORE is libpagewise-store.so; the peer is the system's liblmdb.so.0, beside it in this process, on
 * files in the same folder. Parts: single, threads, batch, append, latency, bytes, foreign, extent. What
 * a barrier costs on the disk comes first: a rate of durable commits means nothing without it. The part null is
 * measured only if it is named: liblmdb on both sides, as strict is measured. Any distance from 1 is the
 * measurement's own.
 */
#include "bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings bench = { .dir = ".", .records = 200000, .ms = 500, .rounds = 9, .mib = 256 };

static double barrier_us;

static void single(void)
{
	measure_single(barrier_us);
}

static struct part {
	const char *name;
	void (*run)(void);
	bool wanted, by_name;
} parts[] = {
	{ .name = "null", .run = measure_null, .by_name = true },
	{ .name = "single", .run = single },
	{ .name = "threads", .run = measure_threads },
	{ .name = "batch", .run = measure_batch },
	{ .name = "append", .run = measure_append },
	{ .name = "latency", .run = measure_latency },
	{ .name = "bytes", .run = measure_bytes },
	{ .name = "foreign", .run = measure_foreign },
	{ .name = "extent", .run = measure_extent },
};

#define PARTS (sizeof(parts) / sizeof(*parts))

static bool want(char *names)
{
	for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
		struct part *p = parts;

		while (p < parts + PARTS && strcmp(p->name, name) != 0)
			p++;
		if (p == parts + PARTS) {
			fprintf(stderr, "bench-store: there is no part %s\n", name);
			return false;
		}
		p->wanted = true;
	}
	return true;
}

static bool count(unsigned *out, unsigned most)
{
	char *end;
	unsigned long n = strtoul(optarg, &end, 10);

	if (*end || !n || n > most)
		return false;
	*out = (unsigned)n;
	return true;
}

static bool parse_option(int o)
{
	unsigned n;

	switch (o) {
	case 'j':
		bench.json = true;
		return true;
	case 'd':
		bench.dir = optarg;
		return true;
	case 'o':
		return want(optarg);
	case 'n':
		if (!count(&n, 100000000))
			return false;
		bench.records = n;
		return true;
	case 'm':
		return count(&bench.ms, 1000000);
	case 'r':
		return count(&bench.rounds, MAX_ROUNDS);
	case 'i':
		return count(&bench.mib, 3000);
	default:
		return false;
	}
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "dir", required_argument, NULL, 'd' },
		{ "only", required_argument, NULL, 'o' },
		{ "records", required_argument, NULL, 'n' },
		{ "ms", required_argument, NULL, 'm' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "mib", required_argument, NULL, 'i' },
		{ NULL, 0, NULL, 0 },
	};
	bool good = true, any = false;
	int o;

	while (good && (o = getopt_long(argc, argv, "", options, NULL)) != -1)
		good = parse_option(o);
	if (!good || optind + 1 != argc) {
		fprintf(stderr,
		    "usage: bench-store [--json] [--dir=DIR] [--only=PART,...] [--records=N] "
		    "[--ms=N]\n"
		    "                   [--rounds=N] [--mib=N] libpagewise-store.so\n"
		    "parts: null single threads batch append latency bytes foreign extent\n");
		exit(2);
	}
	for (size_t i = 0; i < PARTS; i++)
		any |= parts[i].wanted;
	for (size_t i = 0; i < PARTS && !any; i++)
		parts[i].wanted = !parts[i].by_name;
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	peer_load(argv[optind]);
	barrier_us = measure_disk();
	for (size_t i = 0; i < PARTS; i++)
		if (parts[i].wanted)
			parts[i].run();
	report_end();
	return 0;
}
