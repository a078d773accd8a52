/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command.h - what the files of the pagewise command share.
 */
#ifndef PGW_TOOLS_COMMAND_H
#define PGW_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include <pagewise/probe.h>
#include <pagewise/sync.h>

/* Exit codes of our own. Those of `run` are env(1)'s and timeout(1)'s: they must not be taken for
 * the command's. */
enum {
	EXIT_USAGE = 2,
	EXIT_RUN_FAILED = 125,	   /* pagewise itself */
	EXIT_NOT_EXECUTABLE = 126, /* the command was found and could not be started */
	EXIT_NOT_FOUND = 127,
};

/* A subcommand: argv[0] is its name, getopt is reset. Returns the exit code of the process. */
int command_probe(int argc, char **argv);
int command_run(int argc, char **argv);
int command_bench(int argc, char **argv);
/* Where the store is built. */
int command_recover(int argc, char **argv);
int command_stat(int argc, char **argv);

/* "pagewise: " and the message, on standard error, with a newline. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* After getopt_long has reported a bad option: say where help is. */
int usage_error(const char *subcommand);

/* ---- probe ---- */

/* How one path would be synced, or why that cannot be told. */
struct path_report {
	const char *path;
	int error;	  /* errno, 0 if file is filled in */
	const char *step; /* what failed, static */
	struct pgw_sync_file file;
};

/* Look at a file, or, for a directory, at a scratch file made in it (it never has a name where the
 * file system knows O_TMPFILE). What is there is not changed. Result in *out, error included. */
void examine_path(const char *path, struct path_report *out);

struct probe_report {
	struct pgw_probe advice[PGW_ADVICE_COUNT];
	size_t npaths;
	struct path_report *paths;
};

void probe_print_json(const struct probe_report *r);

/* ---- run ---- */

enum preload { PRELOAD_ALLOC, PRELOAD_STORE };

/* The absolute path of a library to preload: malloc'd, the caller frees it. On failure NULL, after
 * a message that names the place looked at. */
char *preload_library(enum preload which);

/* The path of a benchmark, there or not: malloc'd, the caller frees it. NULL after a message. */
char *benchmark_program(const char *name);

/* The file that execvp(3) would start for name, malloc'd; NULL if there is none. */
char *program_find(const char *name);

/* What speaks against preloads for a program. */
struct preload_obstacle {
	const char *why; /* static text; NULL: nothing */
	bool store;	 /* that one too, not only alloc */
	bool
	    fatal; /* with them it may crash: they must be left out; else they are just not reached */
};

struct preload_obstacle program_preload_obstacle(const char *path);

/* Could a report be written to the file that this value of PAGEWISE_STATS names, now, by this
 * process? 0 or an errno. Makes no file. */
int stats_file_check(const char *value);

#endif
