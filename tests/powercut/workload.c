/* SPDX-License-Identifier: BSD-2-Clause
 *
 * workload - what runs in the guest whose power is cut; and, outside, the check of pages and the
 * store's recovery.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagewise/store.h>

#include "ack.h"
#include "model.h"
#include "pages.h"

static const char usage[] =
    "usage: workload pages TASK DEVICE FILE STRATEGY SEED ROUNDS pwrite|map\n"
    "       workload store TASK DEVICE DIR  MODE     SEED TXNS   pwrite|map\n"
    "       workload check FILE\n"
    "       workload recover DIR\n"
    "STRATEGY: auto, writeout, span, fdatasync, per-range, none, no-wait\n"
    "MODE: strict, group, relaxed, none\n"
    "      nosync: strict, the first half with MDB_NOSYNC, acknowledged once it was made durable\n"
    "      nosync-relaxed: strict, with MDB_NOSYNC for four of eight transactions, served as "
    "relaxed\n";

static void lmdb(const char *what, int rc)
{
	if (!rc)
		return;
	fprintf(stderr, "workload: %s: %s\n", what, pgw_strerror(rc));
	exit(1);
}

static void fsync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsync(fd))
		fail(path, errno);
	close(fd);
}

/* A directory that is there after a cut: that much is not the store's business. */
static void make_dir(const char *dir)
{
	char *parent = strdup(dir);

	if (mkdir(dir, 0700) && errno != EEXIST)
		fail(dir, errno);
	*strrchr(parent, '/') = '\0';
	fsync_path(parent);
	free(parent);
}

static MDB_env *open_env(const char *dir, const char *mode, unsigned flags)
{
	struct pgw_env_options o;
	MDB_env *env;

	pgw_env_options_init(&o);
	o.flags = flags;
	o.mode = 0600;
	o.max_dbs = 16;
	o.map_size = 16u << 20;
	o.checkpoint_ms = 30;
	if (!strcmp(mode, "none"))
		o.flags |= MDB_NOSYNC;
	else if (!strcmp(mode, "group"))
		o.durability = PGW_DURABILITY_GROUP;
	else if (!strcmp(mode, "relaxed"))
		o.durability = PGW_DURABILITY_RELAXED;
	else if (!strcmp(mode, "nosync-relaxed"))
		o.nosync_relaxed = true;
	else if (strcmp(mode, "strict") && strcmp(mode, "nosync"))
		fail(mode, EINVAL);
	make_dir(dir);
	lmdb("open", pgw_env_open(dir, &o, &env));
	if (o.flags & MDB_NOSYNC) { /* so that it loses transactions, and not only the file */
		lmdb("sync", mdb_env_sync(env, 1));
		fsync_path(dir);
	}
	return env;
}

/* One transaction of a few changes; now and then a large one. Its number, or 0 if it was none. tell: that
 * it is tried. */
static uint64_t one_transaction(MDB_env *env, struct model *m, struct rng *r, bool tell)
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
		return 0;
	}
	if (tell)
		ack_send(ACK_TRY, id, m->digest.sum, NULL, 0);
	lmdb("commit", mdb_txn_commit(txn));
	return id;
}

/* In relaxed mode a commit promises nothing; what is durable has to be asked for. */
static void acknowledge(MDB_env *env, bool relaxed, uint64_t id, uint64_t *acknowledged)
{
	if (relaxed)
		lmdb("durable_txnid", pgw_env_durable_txnid(env, &id));
	if (id > *acknowledged) {
		ack_send(ACK_DONE, id, NULL, NULL, 0);
		*acknowledged = id;
	}
}

/* Make what was committed with MDB_NOSYNC durable, in one of four ways. The number of the last transaction. */
static uint64_t leave_nosync(MDB_env *env, struct model *m, struct rng *r, uint64_t seed)
{
	MDB_envinfo info;
	uint64_t id = 0;

	if (seed % 4 == 0)
		lmdb("checkpoint", pgw_env_checkpoint(env));
	if (seed % 4 == 1)
		lmdb("sync", mdb_env_sync(env, 1));
	lmdb("set_flags", mdb_env_set_flags(env, MDB_NOSYNC, 0));
	if (seed % 4 == 2)
		lmdb("sync", mdb_env_sync(env, 0));
	while (seed % 4 == 3 && !id) /* by the next commit */
		id = one_transaction(env, m, r, false);
	lmdb("info", mdb_env_info(env, &info));
	return info.me_last_txnid;
}

/* The first half of a load, of which nothing is promised before its end. Nothing is judged either: nothing is
 * told before. */
static uint64_t load_unsynced(
    MDB_env *env, struct model *m, struct rng *r, uint64_t seed, uint64_t txns)
{
	uint64_t id;

	lmdb("set_flags", mdb_env_set_flags(env, MDB_NOSYNC, 1));
	while (txns--)
		one_transaction(env, m, r, false);
	id = leave_nosync(env, m, r, seed);
	ack_send(ACK_TRY, id, m->digest.sum, NULL, 0);
	ack_send(ACK_DONE, id, NULL, NULL, 0);
	return id;
}

_Noreturn static void finish_run(MDB_env *env)
{
	struct pgw_env_stats stats;

	lmdb("stats", pgw_env_stats(env, &stats));
	printf("%" PRIu64 " commits, %" PRIu64 " barriers, %" PRIu64 " bytes in ranges, %s (%s)\n",
	    stats.commits, stats.barriers, stats.synced_bytes,
	    pgw_sync_strategy_name(stats.strategy), stats.fs);
	fflush(stdout);
	_exit(0); /* not closed: the power goes while it runs */
}

_Noreturn static void store_run(
    const char *dir, const char *mode, uint64_t seed, uint64_t txns, unsigned flags)
{
	bool relaxed = !strcmp(mode, "relaxed"), switches = !strcmp(mode, "nosync-relaxed");
	MDB_env *env = open_env(dir, mode, flags);
	static struct model m;
	struct rng r = { seed };
	uint64_t acknowledged = 0;

	model_init(&m);
	if (!strcmp(mode, "nosync")) {
		acknowledged = load_unsynced(env, &m, &r, seed, txns / 2);
		txns -= txns / 2;
	} else {
		ack_send(ACK_START, 0, NULL, NULL, 0);
	}
	while (txns--) {
		if (switches) {
			relaxed = txns & 4;
			lmdb("set_flags", mdb_env_set_flags(env, MDB_NOSYNC, relaxed));
		}
		acknowledge(env, relaxed, one_transaction(env, &m, &r, true), &acknowledged);
		if (relaxed && txns % 4 == 0)
			usleep(20000); /* a checkpoint now and then, not one for all */
	}
	if (relaxed || switches) {
		lmdb("checkpoint", pgw_env_checkpoint(env));
		acknowledge(env, true, 0, &acknowledged);
	}
	finish_run(env);
}

/* What the next open would do. The first word of what it prints says what it did. */
static int recover(const char *dir)
{
	struct pgw_recover_report r = { 0 };
	int rc = pgw_env_recover(dir, 0, &r);

	printf("%s: %s; records: %s of %" PRIu64 ", %s of %" PRIu64 "; newest %" PRIu64 "%s%s\n",
	    pgw_recover_action_name(r.action), pgw_strerror(rc),
	    pgw_record_state_name(r.record[0].state), r.record[0].txnid,
	    pgw_record_state_name(r.record[1].state), r.record[1].txnid, r.newest_txnid,
	    r.reason ? "; " : "", r.reason ? r.reason : "");
	return rc != 0;
}

int main(int argc, char **argv)
{
	bool map = argc == 9 && !strcmp(argv[8], "map");
	uint64_t seed, n;

	if (argc == 3 && !strcmp(argv[1], "check"))
		return pages_check(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "recover"))
		return recover(argv[2]);
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
		store_run(argv[4], argv[5], seed, n, map ? MDB_WRITEMAP : 0);
	fputs(usage, stderr);
	return 2;
}
