/* SPDX-License-Identifier: BSD-2-Clause
 *
 * workload - what runs in the guest whose power is cut, and the check of pages outside.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <pagewise/store.h>

#include "ack.h"
#include "model.h"
#include "pages.h"

static const char usage[] =
    "usage: workload pages TASK DEVICE FILE STRATEGY SEED ROUNDS pwrite|map\n"
    "       workload store TASK DEVICE DIR  MODE     SEED TXNS   pwrite|map\n"
    "       workload check FILE\n"
    "STRATEGY: auto, writeout, span, fdatasync, per-range, none, no-wait; MODE: strict, none\n";

static void lmdb(const char *what, int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "workload: %s: %s\n", what, mdb_strerror(rc));
	exit(1);
}

static MDB_env *open_env(const char *dir, unsigned flags)
{
	MDB_env *env;

	if (mkdir(dir, 0700) && errno != EEXIST)
		fail(dir, errno);
	lmdb("create", mdb_env_create(&env));
	lmdb("set_maxdbs", mdb_env_set_maxdbs(env, 16));
	lmdb("set_mapsize", mdb_env_set_mapsize(env, 16u << 20));
	lmdb("open", mdb_env_open(env, dir, flags, 0600));
	return env;
}

/* One transaction of a few changes; now and then a large one. */
static void one_transaction(MDB_env *env, struct model *m, struct rng *r)
{
	uint64_t n = rng_below(r, 12) ? 1 + rng_below(r, 4) : 40, id;
	struct audit_digest before = m->digest;
	MDB_txn *txn;

	lmdb("begin", mdb_txn_begin(env, NULL, 0, &txn));
	id = mdb_txn_id(txn);
	while (n--)
		lmdb("change", model_change(m, txn, r, true));
	if (audit_digest_equal(before, m->digest)) {
		mdb_txn_abort(txn); /* an empty commit writes nothing and has no number */
		return;
	}
	ack_send(ACK_TRY, id, m->digest.sum, NULL, 0);
	lmdb("commit", mdb_txn_commit(txn));
	ack_send(ACK_DONE, id, NULL, NULL, 0);
}

static int store_run(
    const char *dir, const char *mode, uint64_t seed, uint64_t txns, unsigned flags)
{
	struct pgw_env_stats stats;
	static struct model m;
	struct rng r = { seed };
	MDB_env *env;

	if (!strcmp(mode, "none"))
		flags |= MDB_NOSYNC;
	else if (strcmp(mode, "strict"))
		fail(mode, EINVAL);
	env = open_env(dir, flags);
	model_init(&m);
	ack_send(ACK_START, 0, NULL, NULL, 0);
	while (txns--)
		one_transaction(env, &m, &r);
	lmdb("stats", pgw_env_stats(env, &stats));
	printf("%" PRIu64 " commits, %" PRIu64 " barriers, %" PRIu64 " bytes in ranges, %s (%s)\n",
	    stats.commits, stats.barriers, stats.synced_bytes,
	    pgw_sync_strategy_name(stats.strategy), stats.fs);
	/* Not closed: the power goes while it runs. */
	return 0;
}

int main(int argc, char **argv)
{
	bool map = argc == 9 && !strcmp(argv[8], "map");
	uint64_t seed, n;

	if (argc == 3 && !strcmp(argv[1], "check"))
		return pages_check(argv[2]);
	if (argc != 9 || (!map && strcmp(argv[8], "pwrite"))) {
		fputs(usage, stderr);
		return 2;
	}
	seed = strtoull(argv[6], NULL, 0);
	n = strtoull(argv[7], NULL, 0);
	ack_open(argv[3], strtoull(argv[2], NULL, 0));
	if (!strcmp(argv[1], "pages"))
		return pages_run(argv[4], argv[5], seed, n, map);
	if (!strcmp(argv[1], "store"))
		return store_run(argv[4], argv[5], seed, n, map ? MDB_WRITEMAP : 0);
	fputs(usage, stderr);
	return 2;
}
