/* SPDX-License-Identifier: BSD-2-Clause
 *
 * probe.c - `pagewise probe`: every decision of the shim on this machine, with its reason.
 */
#include "command.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static void help(void)
{
	puts("usage: pagewise probe [--json] [PATH...]\n\n"
	     "Print what this kernel takes for each advice, and how files at each PATH (the "
	     "current\n"
	     "directory if none is given) are synced. Every decision has its reason. Exit code 1 "
	     "if\n"
	     "one of the paths cannot be examined.\n\n"
	     "  --json  the same as one JSON object");
}

static const char *yes_no(bool b)
{
	return b ? "yes" : "no";
}

static void print_kernel(void)
{
	const char *set = secure_getenv("PAGEWISE_KERNEL");
	struct utsname u;

	if (uname(&u) == 0)
		printf("kernel  %s %s, %s, pages of %zu bytes\n", u.sysname, u.release, u.machine,
		    pgw_page_size());
	printf("mode    %s", pgw_kernel_mode_name(pgw_kernel_mode()));
	if (set)
		printf(" (PAGEWISE_KERNEL=%s)\n", set);
	else
		puts(" (PAGEWISE_KERNEL is not set)");
	printf("zeroes  memory reads as zero after DONTNEED: %s\n", yes_no(pgw_dontneed_zeroes()));
}

static void print_advice(const struct probe_report *r)
{
	printf("\n%-15s  %-8s  %-10s  %-6s  %s\n", "advice", "route", "self", "proven", "reason");
	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		printf("%-15s  %-8s  %-10s  %-6s  %s\n", pgw_advice_name(a),
		    pgw_route_name(r->advice[a].route), pgw_self_name(r->advice[a].self),
		    yes_no(r->advice[a].proven), r->advice[a].reason);
}

static void print_paths(const struct probe_report *r)
{
	int width = 4;

	for (size_t i = 0; i < r->npaths; i++) {
		int len = (int)strlen(r->paths[i].path);

		width = len > width ? len : width;
	}
	printf("\n%-*s  %-8s  %-10s  %-7s  %s\n", width, "path", "fs", "sync", "barrier", "reason");
	for (size_t i = 0; i < r->npaths; i++) {
		const struct path_report *p = &r->paths[i];

		if (p->error)
			printf("%-*s  %s: %s\n", width, p->path, p->step, strerror(p->error));
		else
			printf("%-*s  %-8s  %-10s  %-7s  %s\n", width, p->path, p->file.fs,
			    pgw_sync_strategy_name(p->file.strategy), yes_no(!p->file.no_barrier),
			    p->file.reason);
	}
}

/* False if one of the paths could not be examined. */
static bool gather(struct probe_report *r, char **paths)
{
	bool ok = true;

	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		pgw_probe(a, &r->advice[a]);
	for (size_t i = 0; i < r->npaths; i++) {
		examine_path(paths[i], &r->paths[i]);
		if (r->paths[i].error)
			ok = false;
	}
	return ok;
}

int command_probe(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	static char *here[] = { "." };
	bool json = false;

	for (int c; (c = getopt_long(argc, argv, "hj", options, NULL)) != -1;) {
		switch (c) {
		case 'h':
			help();
			return EXIT_SUCCESS;
		case 'j':
			json = true;
			break;
		default:
			return usage_error("probe");
		}
	}

	char **paths = optind < argc ? argv + optind : here;
	struct probe_report r = { .npaths = optind < argc ? (size_t)(argc - optind) : 1 };

	r.paths = calloc(r.npaths, sizeof(*r.paths));
	if (!r.paths) {
		complain("out of memory");
		return EXIT_FAILURE;
	}

	bool ok = gather(&r, paths);

	if (json) {
		probe_print_json(&r);
	} else {
		print_kernel();
		print_advice(&r);
		print_paths(&r);
	}
	free(r.paths);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
