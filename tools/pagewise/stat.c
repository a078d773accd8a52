/* SPDX-License-Identifier: BSD-2-Clause
 *
 * stat.c - `pagewise stat`: the state of an LMDB environment, and who reads it. Changes nothing but
 * that it makes a lock file where there is none, as every reader does, and gives back the slots of
 * readers that have ended without doing so.
 */
#include "command.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"

static const char usage[] =
    "usage: pagewise stat ENVIRONMENT\n"
    "\n"
    "Print the state of an LMDB environment (a directory, or its data file), in use or not.\n";

struct readers {
	size_t newest;
	unsigned n;
};

/* LMDB hands out its table as lines of text: a title, then process, thread, transaction. */
static int reader(const char *line, void *arg)
{
	struct readers *r = arg;
	char thread[32], txn[32];
	int pid;

	if (sscanf(line, "%d %31s %31s", &pid, thread, txn) != 3 || !strcmp(txn, "-"))
		return 0;
	if (!r->n++)
		puts("readers:   process  transaction  behind");
	printf(
	    "           %7d  %11s  %6zu\n", pid, txn, r->newest - (size_t)strtoull(txn, NULL, 10));
	return 0;
}

/* What the one costs that is furthest behind. */
static int print_oldest(MDB_env *env, unsigned page_size)
{
	struct pgw_readers r;
	int rc = pgw_env_readers(env, &r);

	if (rc == MDB_READERS_FULL) {
		puts("held:      not known, the table of readers is full");
		return 0;
	}
	if (!rc && r.readers)
		printf("held:      %" PRIu64 " pages (%" PRIu64 " KiB) by process %d, %" PRIu64
		       " transactions behind\n",
		    r.held_pages, r.held_pages * page_size >> 10, (int)r.oldest_pid, r.age);
	return rc;
}

static int print_environment(MDB_env *env)
{
	struct readers readers = { 0 };
	MDB_envinfo info;
	MDB_stat st;
	int rc = mdb_env_info(env, &info);

	if (!rc)
		rc = mdb_env_stat(env, &st);
	if (rc)
		return rc;
	printf("pages:     %zu of %u bytes, last transaction %zu\n", info.me_last_pgno + 1,
	    st.ms_psize, info.me_last_txnid);
	printf("map:       %zu MiB\n", info.me_mapsize >> 20);
	printf("slots:     %u of %u\n", info.me_numreaders, info.me_maxreaders);
	readers.newest = info.me_last_txnid;
	rc = mdb_reader_list(env, reader, &readers);
	if (rc < 0)
		return rc;
	return readers.n ? print_oldest(env, st.ms_psize) : 0;
}

/* An environment that was not closed is not opened: that would recover it. */
static int print_stat(const char *path)
{
	unsigned flags = environment_flags(path);
	struct pgw_recover_report report;
	MDB_env *env;
	int rc = pgw_env_recover(path, flags | PGW_RECOVER_CHECK, &report);

	if (!rc || report.fenced)
		environment_print(&report, true);
	if (rc || (report.fenced && report.action != PGW_RECOVER_IN_USE))
		return rc;
	rc = mdb_env_create(&env);
	if (rc)
		return rc;
	rc = mdb_env_open(
	    env, path, MDB_RDONLY | (flags & PGW_RECOVER_NOSUBDIR ? MDB_NOSUBDIR : 0), 0664);
	if (!rc)
		rc = print_environment(env);
	mdb_env_close(env);
	return rc;
}

int command_stat(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	int rc;

	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return usage_error("stat");
		}
	}
	if (argc - optind != 1) {
		complain("stat takes one environment");
		return usage_error("stat");
	}
	rc = print_stat(argv[optind]);
	if (rc)
		complain("%s: %s", argv[optind], pgw_strerror(rc));
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
