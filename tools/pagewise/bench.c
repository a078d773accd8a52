/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench.c - pagewise bench: becomes one of the benchmarks. Each is a program of its own, with options
 * of its own: most link or load what the command must not.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name, *summary;
} benchmarks[] = {
	{ "advise", "advice by one call a range and by vectors; TLB flushes" },
	{ "dump", "core dumps of reserved address space" },
	{ "model", "what syncing and advice cost on modelled BSD kernels" },
	{ "store", "commits, beside liblmdb's; takes the library to measure" },
};

#define NBENCHMARKS (sizeof(benchmarks) / sizeof(benchmarks[0]))

static void help(void)
{
	puts("usage: pagewise bench NAME [ARGUMENT...]\n\n"
	     "Run a benchmark; 'pagewise bench NAME --help' lists its options.\n");
	for (size_t i = 0; i < NBENCHMARKS; i++)
		printf("  %-8s %s\n", benchmarks[i].name, benchmarks[i].summary);
}

static bool known(const char *name)
{
	for (size_t i = 0; i < NBENCHMARKS; i++)
		if (!strcmp(name, benchmarks[i].name))
			return true;
	return false;
}

static int become(char **argv)
{
	char *path = benchmark_program(argv[0]);

	if (!path)
		return EXIT_RUN_FAILED;
	execv(path, argv);
	if (errno == ENOENT)
		complain("bench: %s is not there: build or install it", path);
	else
		complain("bench: cannot start %s: %s", path, strerror(errno));
	free(path);
	return EXIT_RUN_FAILED;
}

int command_bench(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
		if (c != 'h')
			return usage_error("bench");
		help();
		return EXIT_SUCCESS;
	}
	if (optind == argc) {
		complain("bench: no benchmark given");
		return usage_error("bench");
	}
	if (!known(argv[optind])) {
		complain("bench: there is no benchmark '%s'", argv[optind]);
		return usage_error("bench");
	}
	return become(argv + optind);
}
