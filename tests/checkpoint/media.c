/* SPDX-License-Identifier: BSD-2-Clause
 *
 * media.c - for media.sh.
 *
 *   media leave PATH        write in relaxed durability, make some of it durable, and end without closing
 *   media expect PATH LEAST the counter is at least this; write one more
 *   media own PATH          write, say so on standard output, wait for standard input to end, write, close
 *
 * PATH is a directory. Exit status: 0, or 1 with the reason on standard error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagewise/store.h>

static void ok(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "media: %s: %s\n", what, pgw_strerror(rc));
	exit(1);
}

static MDB_env *open_env(const char *path, enum pgw_durability d)
{
	struct pgw_env_options o;
	MDB_env *env;

	pgw_env_options_init(&o);
	o.durability = d;
	o.checkpoint_ms = 3600 * 1000;
	o.map_size = 1 << 20;
	ok(pgw_env_open(path, &o, &env), "open");
	return env;
}

/* The counter, after adding n. */
static unsigned add(MDB_env *env, unsigned n)
{
	MDB_val k = { 7, "counter" }, v;
	unsigned now = 0;
	MDB_txn *txn;
	MDB_dbi dbi;

	ok(mdb_txn_begin(env, NULL, 0, &txn), "begin");
	ok(mdb_dbi_open(txn, NULL, 0, &dbi), "dbi_open");
	if (!mdb_get(txn, dbi, &k, &v))
		memcpy(&now, v.mv_data, sizeof(now));
	now += n;
	v = (MDB_val){ sizeof(now), &now };
	ok(mdb_put(txn, dbi, &k, &v, 0), "put");
	ok(mdb_txn_commit(txn), "commit");
	return now;
}

static int leave(const char *path)
{
	MDB_env *env = open_env(path, PGW_DURABILITY_RELAXED);

	(void)add(env, 1);
	ok(mdb_env_sync(env, 1), "sync");
	(void)add(env, 1);
	_exit(0);
}

static int expect(const char *path, unsigned least)
{
	MDB_env *env = open_env(path, PGW_DURABILITY_STRICT);
	unsigned n = add(env, 1) - 1;

	mdb_env_close(env);
	if (n >= least)
		return 0;
	fprintf(stderr, "media: the counter is %u, and %u was durable\n", n, least);
	return 1;
}

static int own(const char *path)
{
	MDB_env *env = open_env(path, PGW_DURABILITY_GROUP);

	(void)add(env, 1);
	if (write(STDOUT_FILENO, "x", 1) != 1 || read(STDIN_FILENO, &(char){ 0 }, 1) != 0)
		return 1;
	(void)add(env, 1);
	mdb_env_close(env);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "leave"))
		return leave(argv[2]);
	if (argc == 4 && !strcmp(argv[1], "expect"))
		return expect(argv[2], (unsigned)atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[1], "own"))
		return own(argv[2]);
	return 2;
}
