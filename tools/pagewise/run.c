/* SPDX-License-Identifier: BSD-2-Clause
 *
 * run.c - `pagewise run`: set the preloads, become the command.
 *
 * The command replaces this process, so its exit code, its signals, its process id and its terminal
 * are its own; nothing of ours stays between.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagewise/probe.h>
#include <pagewise/sync.h>

static void help(void)
{
	puts("usage: pagewise run [OPTION...] [--] COMMAND [ARGUMENT...]\n\n"
	     "Run a command with the pagewise libraries preloaded: malloc that gives memory back "
	     "in\n"
	     "batches, and LMDB that syncs what a commit wrote.\n\n"
	     "  --stats[=FILE]  at exit each process writes its counters as a line of JSON, to\n"
	     "                  standard error or at the end of FILE (%p in it: the process id)\n"
	     "  --no-alloc      leave malloc as it is\n"
	     "  --no-store      leave LMDB as it is\n\n"
	     "Exit code: that of the command; 125 if pagewise fails, 126 if the command cannot be\n"
	     "started, 127 if it is not found.");
}

struct run_options {
	bool stats, no_alloc, no_store;
	const char *stats_file;
};

/* Put a library in front of *list, a value of LD_PRELOAD (malloc'd or NULL). 0 or -1, after a
 * message. */
static int prepend(char **list, enum preload which)
{
	char *library = preload_library(which), *joined;
	int r = -1;

	if (!library)
		return -1;
	if (strpbrk(library, ": ")) {
		/* The loader splits LD_PRELOAD there and knows no way to quote. */
		complain("%s has a space or a colon in its path and cannot be preloaded: move it",
		    library);
	} else if (asprintf(&joined, "%s%s%s", library, *list ? ":" : "", *list ? *list : "") < 0) {
		complain("out of memory");
	} else {
		free(*list);
		*list = joined;
		r = 0;
	}
	free(library);
	return r;
}

static int set_preloads(const struct run_options *o)
{
	const char *given = getenv("LD_PRELOAD");
	char *list = NULL;
	int r = 0;

	if (given && *given)
		list = strdup(given);
	if (!o->no_store)
		r = prepend(&list, PRELOAD_STORE);
	if (!r && !o->no_alloc)
		r = prepend(&list, PRELOAD_ALLOC);
	if (!r && list && setenv("LD_PRELOAD", list, 1)) {
		complain("cannot set LD_PRELOAD: %s", strerror(errno));
		r = -1;
	}
	free(list);
	return r;
}

/* A relative FILE is meant from here, wherever the command goes before it exits. */
static int set_stats(const struct run_options *o)
{
	char cwd[PATH_MAX], *path = NULL;
	const char *value = "1";

	if (!o->stats)
		return 0;
	if (o->stats_file && o->stats_file[0] == '/') {
		value = o->stats_file;
	} else if (o->stats_file) {
		if (!getcwd(cwd, sizeof(cwd)) || asprintf(&path, "%s/%s", cwd, o->stats_file) < 0) {
			complain(
			    "cannot tell where --stats=%s is: %s", o->stats_file, strerror(errno));
			return -1;
		}
		value = path;
	}

	/* Found out at exit it would be too late: the work is done, and its numbers are gone. */
	int error = o->stats_file ? stats_file_check(value) : 0;

	if (error)
		complain("cannot write to --stats=%s: %s", o->stats_file, strerror(error));
	else if (setenv("PAGEWISE_STATS", value, 1))
		complain("cannot set PAGEWISE_STATS: %s", strerror(error = errno));
	free(path);
	return error ? -1 : 0;
}

/* Say what will not be preloaded, and leave out what must not be. */
static void heed_obstacle(struct run_options *o, const char *path)
{
	struct preload_obstacle obstacle = program_preload_obstacle(path);
	bool store = obstacle.store && !o->no_store;

	if (!obstacle.why || (o->no_alloc && !store))
		return;
	complain("warning: %s will run without %s: %s", path,
	    obstacle.store ? "the pagewise libraries" : "the alloc library", obstacle.why);
	if (obstacle.fatal) {
		o->no_alloc = true;
		o->no_store = o->no_store || obstacle.store;
	}
}

/* The shim in this program has complained of settings that it does not know, and taken auto; the libraries in
 * the command need not do it again. */
static void drop_wrong_settings(void)
{
	const char *kernel = getenv("PAGEWISE_KERNEL"), *sync = getenv("PAGEWISE_SYNC");
	enum pgw_sync_strategy ignored;

	if (kernel && strcmp(kernel, pgw_kernel_mode_name(pgw_kernel_mode())))
		unsetenv("PAGEWISE_KERNEL");
	if (sync && pgw_sync_strategy_parse(sync, &ignored))
		unsetenv("PAGEWISE_SYNC");
}

/* Only returns if the command cannot be started. path: what was found for it, or NULL. */
static int become(char **command, const char *path)
{
	execvp(command[0], command);

	int error = errno;

	if (error == ENOENT && !path) {
		complain("%s: command not found", command[0]);
		return EXIT_NOT_FOUND;
	}
	complain("cannot run %s: %s", path ? path : command[0],
	    error == ENOENT ? "its interpreter does not exist" : strerror(error));
	return EXIT_NOT_EXECUTABLE;
}

static int run(struct run_options *o, char **command)
{
	char *path = program_find(command[0]);
	int code = EXIT_RUN_FAILED;

	if (path)
		heed_obstacle(o, path);
	drop_wrong_settings();
	if (!set_preloads(o) && !set_stats(o))
		code = become(command, path);
	free(path);
	return code;
}

int command_run(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "no-alloc", no_argument, NULL, 'A' },
		{ "no-store", no_argument, NULL, 'S' },
		{ "stats", optional_argument, NULL, 's' },
		{ 0 },
	};
	struct run_options o = { 0 };

	for (int c; (c = getopt_long(argc, argv, "+h", options, NULL)) != -1;) {
		switch (c) {
		case 'h':
			help();
			return EXIT_SUCCESS;
		case 'A':
			o.no_alloc = true;
			break;
		case 'S':
			o.no_store = true;
			break;
		case 's':
			o.stats = true;
			o.stats_file = optarg;
			break;
		default:
			usage_error("run");
			return EXIT_RUN_FAILED;
		}
	}
	if (optind == argc) {
		complain("no command to run was given");
		usage_error("run");
		return EXIT_RUN_FAILED;
	}
	if (o.stats_file && !*o.stats_file) {
		complain("--stats= needs the name of a file");
		return EXIT_RUN_FAILED;
	}
	return run(&o, argv + optind);
}
