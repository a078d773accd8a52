/* SPDX-License-Identifier: BSD-2-Clause
 *
 * writer.c - commits records of its own, one a transaction. Built twice: as store_writer with the
 * library under test, and as plain_writer with the system's liblmdb.
 *
 *   writer DIR COUNT [writemap] [nometasync] [nosync] [nolock] [map=GIB] [acks] [again] [error=FILE]
 *
 * The first transaction is set apart, for what comes before it is not the steady state: "begin" is
 * written to standard output after it, "end" after COUNT more. With acks, the number of each
 * transaction is written once it is durable, and COUNT 0 means for ever. Keys are numbers, counted
 * on from what is there. again: close it at the end, and do everything once more. error: standard error is
 * this file before the environment is opened.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lmdb.h>

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
	exit(1);
}

static void say(const char *line)
{
	if (write(STDOUT_FILENO, line, strlen(line)) < 0)
		exit(1);
}

static uint64_t commit_one(MDB_env *env)
{
	char value[100];
	uint64_t number = 0;
	MDB_cursor *cursor;
	MDB_val k, v;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	check(mdb_txn_begin(env, NULL, 0, &txn), "begin");
	check(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi), "dbi_open");
	check(mdb_cursor_open(txn, dbi, &cursor), "cursor_open");
	rc = mdb_cursor_get(cursor, &k, &v, MDB_LAST);
	if (!rc)
		memcpy(&number, k.mv_data, sizeof(number));
	else if (rc != MDB_NOTFOUND)
		check(rc, "last");
	mdb_cursor_close(cursor);
	number++;
	memset(value, (int)(number % 251), sizeof(value));
	k = (MDB_val){ sizeof(number), &number };
	v = (MDB_val){ sizeof(value), value };
	check(mdb_put(txn, dbi, &k, &v, 0), "put");
	check(mdb_txn_commit(txn), "commit");
	return number;
}

static void move_errors_to(const char *path)
{
	if (!freopen(path, "w", stderr))
		exit(1);
}

static void write_all(const char *dir, uint64_t count, unsigned flags, uint64_t map_gib, int acks)
{
	MDB_env *env;

	check(mdb_env_create(&env), "create");
	check(mdb_env_set_mapsize(env, map_gib << 30), "set_mapsize");
	check(mdb_env_open(env, dir, flags, 0600), dir);
	commit_one(env);
	say("begin\n");
	for (uint64_t i = 0; i < count || (acks && !count); i++) {
		uint64_t number = commit_one(env);
		char line[32];

		if (acks) {
			snprintf(line, sizeof(line), "%" PRIu64 "\n", number);
			say(line);
		}
	}
	say("end\n");
	mdb_env_close(env);
}

int main(int argc, char **argv)
{
	unsigned flags = 0;
	uint64_t count, map = 1;
	int acks = 0, times = 1;

	if (argc < 3)
		return 2;
	count = strtoull(argv[2], NULL, 0);
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "writemap"))
			flags |= MDB_WRITEMAP;
		else if (!strcmp(argv[i], "nometasync"))
			flags |= MDB_NOMETASYNC;
		else if (!strcmp(argv[i], "nosync"))
			flags |= MDB_NOSYNC;
		else if (!strncmp(argv[i], "map=", 4))
			map = strtoull(argv[i] + 4, NULL, 0);
		else if (!strcmp(argv[i], "nolock"))
			flags |= MDB_NOLOCK;
		else if (!strcmp(argv[i], "acks"))
			acks = 1;
		else if (!strcmp(argv[i], "again"))
			times++;
		else if (!strncmp(argv[i], "error=", 6))
			move_errors_to(argv[i] + 6);
		else
			return 2;
	}
	while (times--)
		write_all(argv[1], count, flags, map, acks);
	return 0;
}
