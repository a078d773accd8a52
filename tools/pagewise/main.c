/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c - the pagewise command: finds the subcommand.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagewise/version.h>

#include "standard_numbers.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "probe", command_probe, "what this kernel and these file systems take, and why" },
	{ "run", command_run, "run a program with the pagewise libraries" },
	{ "bench", command_bench, "measure advice, or model the kernels of others" },
#ifdef PGW_HAVE_STORE
	{ "recover", command_recover, "bring back an LMDB environment that was not closed" },
	{ "stat", command_stat, "the state of an LMDB environment, and who reads it" },
#endif
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

void complain(const char *format, ...)
{
	va_list args;

	fputs("pagewise: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

int usage_error(const char *subcommand)
{
	fprintf(stderr, "Try 'pagewise%s%s --help'.\n", subcommand ? " " : "",
	    subcommand ? subcommand : "");
	return EXIT_USAGE;
}

static void help(void)
{
	puts("usage: pagewise COMMAND [ARGUMENT...]\n");
	for (size_t i = 0; i < NCOMMANDS; i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].summary);
	puts("\n"
	     "  --help     this text; 'pagewise help COMMAND' for a command\n"
	     "  --version  the version\n\n"
	     "See pagewise(1), and pagewise(7) for the environment variables.");
}

/* A report that did not reach the disk or the pipe is a failure, not a success. */
static int finish_output(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	complain("cannot write the output: %s", strerror(errno));
	return code ? code : EXIT_FAILURE;
}

/* argv[0] is the name of a command. */
static int run_command(int argc, char **argv)
{
	char title[32];

	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (strcmp(argv[0], commands[i].name))
			continue;
		/* What getopt's messages begin with. */
		snprintf(title, sizeof(title), "pagewise %s", commands[i].name);
		argv[0] = title;
		optind =
		    0; /* glibc: start anew, with the order of options as the command wants it */
		return finish_output(commands[i].run(argc, argv));
	}
	complain("there is no command '%s'", argv[0]);
	return usage_error(NULL);
}

/* pagewise help [COMMAND]: the same as --help behind it. */
static int help_command(int argc, char **argv)
{
	char option[] = "--help", *request[] = { argv[1], option, NULL };

	if (argc > 2) {
		complain("help takes one command");
		return usage_error(NULL);
	}
	if (argc == 2)
		return run_command(2, request);
	help();
	return finish_output(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	static char name[] = "pagewise";

	hold_standard_numbers();
	if (argc > 0)
		argv[0] =
		    name; /* what getopt's messages begin with, wherever this was started from */
	for (int c; (c = getopt_long(argc, argv, "+hV", options, NULL)) != -1;) {
		switch (c) {
		case 'h':
			help();
			return finish_output(EXIT_SUCCESS);
		case 'V':
			puts("pagewise " PGW_VERSION);
			return finish_output(EXIT_SUCCESS);
		default:
			return usage_error(NULL);
		}
	}
	argc -= optind;
	argv += optind;
	if (argc < 1) {
		complain("no command given");
		return usage_error(NULL);
	}
	return strcmp(argv[0], "help") ? run_command(argc, argv) : help_command(argc, argv);
}
