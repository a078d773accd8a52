/* SPDX-License-Identifier: BSD-2-Clause
 *
 * explore - look for a crash that the store does not survive.
 *
 * A random workload runs on the store in this process, on a file in memory. Everything it writes
 * and every barrier is recorded (record.c) on a model of a disk that may lose or tear whatever no
 * completed barrier covers (disk.c). Before each barrier and after each acknowledgement, images of
 * what a cut at that moment may leave are made and judged (judge.c). A run ends with a cut: it goes
 * on from one of the images, as after a reboot.
 *
 * Exit status: 0 as expected, 1 not, 2 wrong use, 77 cannot run here.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/store.h>

#include "audit.h"
#include "checkpoint.h"
#include "disk.h"
#include "judge.h"
#include "model.h"
#include "record.h"
#include "recovering.h"
#include "switching.h"

#define FILE_MAX_BYTES (16u << 20)
#define MAP_BYTES      (12u << 20)
#define TXNS_PER_BOOT  40
#define BOOTS_PER_RUN  4
#define HISTORY_MAX    (TXNS_PER_BOOT * BOOTS_PER_RUN * 2 + 2)

struct options {
	uint64_t seed, images;
	double seconds;
	unsigned flags; /* of mdb_env_open */
	uint64_t magic;
	enum plant plant;
	enum pgw_durability durability;
	bool switches, nosync_relaxed;
	bool early_drop, trust_digests; /* bugs planted in the store */
	bool keep_nosync, trust_nosync;
	const char *keep;
};

struct explorer {
	struct options opt;
	char dir[64], path[96], lock_path[112];
	struct judge judge;
	struct recovering recovering;
	struct switching switching;
	struct disk disk;
	struct rng rng;	    /* of the workload */
	struct rng cut_rng; /* of the cuts: the workload must not depend on how many were made */
	uint8_t *image;

	uint64_t seed; /* of this run */
	struct model model;
	/* By transaction since the run began: what the state was. */
	struct model past[HISTORY_MAX];
	struct audit_digest digest[HISTORY_MAX];
	struct history history;
	MDB_env *env;

	double start;
	uint64_t barriers, commits, reboots, violations;
};

/* ---- images ---- */

static void violation(struct explorer *x, enum disk_cut how, size_t len, const char *why)
{
	x->violations++;
	fprintf(stderr,
	    "seed %" PRIu64 ", transaction %" PRIu64 " (%" PRIu64
	    " acknowledged), %zu writes not durable, cut %s:\n  %s\n",
	    x->seed, x->history.last, x->history.acknowledged, x->disk.n, disk_cut_name(how), why);
	if (x->opt.keep) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/violation-%" PRIu64 "-%" PRIu64, x->opt.keep,
		    x->seed, x->violations);
		judge_save(path, x->image, len);
		fprintf(stderr, "  kept as %s\n", path);
	}
}

/* Can the file be fenced? */
static bool fences(const struct explorer *x)
{
	return x->opt.durability != PGW_DURABILITY_STRICT || x->opt.nosync_relaxed;
}

/* One image. *txnid: what it holds. False: a violation. */
static bool try_cut(struct explorer *x, enum disk_cut how, uint64_t *txnid, size_t *len)
{
	bool write = rng_below(&x->cut_rng, 16) == 0;
	const char *why = NULL;

	*len = disk_cut(&x->disk, how, &x->cut_rng, x->image);
	if (fences(x))
		why = recovering_image(&x->recovering, x->image, len, FILE_MAX_BYTES,
		    rng_below(&x->cut_rng, 8) == 0, &x->cut_rng);
	if (!why)
		why = judge_image(&x->judge, x->image, *len, &x->history, write, txnid);
	if (why)
		violation(x, how, *len, why);
	return !why;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Time to stop, in the middle of a run too. */
static bool enough(const struct explorer *x)
{
	return x->violations || x->judge.images >= x->opt.images ||
	       (x->opt.seconds > 0 && now() - x->start > x->opt.seconds);
}

static void before_barrier(void *arg)
{
	struct explorer *x = arg;
	uint64_t txnid;
	size_t len;

	if (x->switching.at_risk)
		return;
	for (int how = 0; how < CUT_COUNT && !enough(x); how++)
		try_cut(x, (enum disk_cut)how, &txnid, &len);
	for (int i = 0; i < 4 && !enough(x); i++) {
		try_cut(x, CUT_SECTORS, &txnid, &len);
		try_cut(x, CUT_PREFIX, &txnid, &len);
	}
}

static void after_acknowledgement(struct explorer *x)
{
	uint64_t txnid;
	size_t len;

	if (x->switching.at_risk)
		return;
	record_lock();
	if (!enough(x))
		try_cut(x, CUT_NOTHING, &txnid, &len);
	if (!enough(x))
		try_cut(x, CUT_SECTORS, &txnid, &len);
	record_unlock();
}

/* ---- the workload ---- */

static void die(struct explorer *x, const char *what, int rc)
{
	fprintf(stderr, "seed %" PRIu64 ": %s: %s%s%s\n", x->seed, what, mdb_strerror(rc),
	    model_disagreement ? ": " : "", model_disagreement ? model_disagreement : "");
	exit(1);
}

/* A checkpoint is made when the workload says so: the thread that would make them has no time. */
static struct pgw_env_options options_of(const struct explorer *x)
{
	struct pgw_env_options o;

	pgw_env_options_init(&o);
	o.durability = x->opt.durability;
	o.nosync_relaxed = x->opt.nosync_relaxed;
	o.checkpoint_ms = 24 * 3600 * 1000;
	o.checkpoint_bytes = UINT64_C(1) << 40;
	return o;
}

static void open_env(struct explorer *x)
{
	struct pgw_env_options o = options_of(x);
	struct pgw__checkpointer *c;
	unsigned flags = MDB_NOSUBDIR | x->opt.flags;
	int rc = mdb_env_create(&x->env);

	if (x->opt.switches)
		flags |= switching_open(&x->switching, &x->rng);
	if (!rc)
		rc = mdb_env_set_maxdbs(x->env, 16);
	if (!rc)
		rc = mdb_env_set_mapsize(x->env, MAP_BYTES);
	if (!rc)
		rc = mdb_env_open(x->env, x->path, flags, 0600);
	if (!rc)
		rc = pgw_env_attach(x->env, &o);
	if (rc)
		die(x, "open", rc);
	c = pgw__env_by_lmdb(x->env)->checkpointer;
	if (x->opt.early_drop && c)
		pgw__pin_drop(c->durable_pin);
}

/* A transaction begins. All are small: do as if some were not, and as if memory ran out. Then a checkpoint
 * takes two barriers, as its ranges do not fit a record, or are not known. */
static void tune(struct explorer *x)
{
	struct pgw__checkpointer *c = pgw__env_by_lmdb(x->env)->checkpointer;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	if (x->reboots & 1)
		c->start_early = 1;
	c->record_ranges = x->history.last & 4 ? 0 : SIZE_MAX;
	if (x->history.last % 32 == 5)
		c->next.incomplete = true;
	pthread_mutex_unlock(&c->lock);
}

/* What must be found after a cut, now that transaction id has been committed. */
static uint64_t promised(struct explorer *x, uint64_t id, bool async)
{
	uint64_t durable = 0;

	if (x->opt.durability == PGW_DURABILITY_RELAXED || async || x->switching.flags) {
		(void)pgw_env_durable_txnid(x->env, &durable);
		return durable;
	}
	if (!(x->opt.flags & MDB_NOMETASYNC) || x->opt.durability == PGW_DURABILITY_GROUP)
		return id;
	return id - 1; /* the last one may be lost, by contract */
}

/* Changes inside of a nested transaction, kept or not. */
static int nested(struct explorer *x, MDB_txn *parent)
{
	struct model before = x->model;
	MDB_txn *txn;
	int rc = mdb_txn_begin(x->env, parent, 0, &txn);

	for (uint64_t n = 1 + rng_below(&x->rng, 4); n && !rc; n--)
		rc = model_change(&x->model, txn, &x->rng, false);
	if (rc)
		return rc;
	if (rng_next(&x->rng) & 1)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	x->model = before;
	return 0;
}

static int changes(struct explorer *x, MDB_txn *txn)
{
	uint64_t n = rng_below(&x->rng, 12) ? 1 + rng_below(&x->rng, 4) : 60;
	int rc = 0;

	while (n-- && !rc) {
		if (!(x->opt.flags & MDB_WRITEMAP) && rng_below(&x->rng, 8) == 0)
			rc = nested(x, txn);
		else
			rc = model_change(&x->model, txn, &x->rng, true);
		if (rng_below(&x->rng, 8) == 0)
			record_look();
	}
	return rc;
}

/* Note what transaction txnid will hold, before it is committed. */
static void remember(struct explorer *x, uint64_t txnid)
{
	size_t i = txnid - x->history.first;

	if (i >= HISTORY_MAX)
		die(x, "more transactions than the history has room for", 0);
	x->past[i] = x->model;
	x->digest[i] = x->model.digest;
	x->history.last = txnid;
}

static void one_transaction(struct explorer *x)
{
	struct model before = x->model;
	MDB_txn *txn;
	uint64_t id;
	bool async;
	int rc = mdb_txn_begin(x->env, NULL, 0, &txn);

	if (rc)
		die(x, "begin", rc);
	id = mdb_txn_id(txn);
	tune(x);
	rc = changes(x, txn);
	if (rc || rng_below(&x->rng, 10) == 0) {
		mdb_txn_abort(txn);
		if (rc && rc != MDB_MAP_FULL)
			die(x, "change", rc);
		x->model = before;
		return;
	}
	remember(x, id);
	async = x->opt.durability == PGW_DURABILITY_GROUP && rng_below(&x->rng, 2);
	rc = async ? pgw_txn_commit_async(txn, NULL) : mdb_txn_commit(txn);
	if (rc)
		die(x, "commit", rc);
	/* A transaction that changed nothing is not written: its number is used again. */
	if (audit_digest_equal(before.digest, x->model.digest)) {
		MDB_envinfo info;

		mdb_env_info(x->env, &info);
		if (info.me_last_txnid < id)
			return;
	}
	x->commits++;
	switching_committed(&x->switching, x->env, id);
	id = promised(x, id, async);
	if (id > x->history.acknowledged)
		x->history.acknowledged = id;
	after_acknowledgement(x);
}

/* Everything that was committed is durable. */
static void all_acknowledged(struct explorer *x)
{
	MDB_envinfo info;

	mdb_env_info(x->env, &info);
	if (info.me_last_txnid)
		x->history.acknowledged = info.me_last_txnid;
	after_acknowledgement(x);
}

static void force_sync(struct explorer *x)
{
	int rc = x->opt.switches ? switching_sync(&x->switching, x->env, &x->rng)
				 : mdb_env_sync(x->env, 1);

	if (rc)
		die(x, "sync", rc);
	all_acknowledged(x);
}

static void switch_durability(struct explorer *x)
{
	bool synced;
	int rc = switching_step(&x->switching, x->env, &x->rng, &synced);

	if (rc)
		die(x, "switching", rc);
	if (synced)
		all_acknowledged(x);
}

static void boot(struct explorer *x)
{
	MDB_txn *reader = NULL;

	open_env(x);
	for (int i = 0; i < TXNS_PER_BOOT && !enough(x); i++) {
		one_transaction(x);
		if (x->opt.switches)
			switch_durability(x);
		switch (rng_below(&x->rng, 24)) {
		case 0:
			if (reader)
				mdb_txn_abort(reader);
			reader = NULL;
			mdb_env_close(x->env);
			open_env(x);
			break;
		case 1:
			force_sync(x);
			break;
		case 2: /* a reader holds pages back for a while */
			if (!reader && mdb_txn_begin(x->env, NULL, MDB_RDONLY, &reader))
				reader = NULL;
			break;
		case 3:
			if (reader)
				mdb_txn_abort(reader);
			reader = NULL;
		}
		if (record_failure())
			violation(x, CUT_EVERYTHING, 0, record_failure());
	}
	if (reader)
		mdb_txn_abort(reader);
	if (x->switching.at_risk) /* what a cut leaves has to be gone on from */
		force_sync(x);
}

/* The power goes: what is left becomes the file, and the disk holds just that. */
static void cut_and_reboot(struct explorer *x)
{
	enum disk_cut how = (enum disk_cut)rng_below(&x->rng, CUT_COUNT);
	uint64_t txnid = 0;
	size_t len = 0;
	bool good;

	record_lock();
	good = try_cut(x, how, &txnid, &len);
	record_unlock();
	x->barriers += record_counts().barriers;
	record_stop(); /* what closing writes comes after the cut */
	mdb_env_close(x->env);
	if (!good)
		return;
	unlink(x->lock_path);
	judge_save(x->path, x->image, len);
	disk_finish(&x->disk);
	disk_init(&x->disk, FILE_MAX_BYTES);
	disk_write(&x->disk, 0, x->image, len);
	disk_written(&x->disk, 0, FILE_MAX_BYTES);
	disk_flush(&x->disk);
	x->reboots++;
	x->model = x->past[txnid - x->history.first];
	x->history.last = txnid;
	if (x->history.acknowledged < txnid)
		x->history.acknowledged = txnid;
}

static void run(struct explorer *x, uint64_t seed)
{
	struct record_options rec = { .path = x->path,
		.fs_magic = x->opt.magic,
		.writemap = x->opt.flags & MDB_WRITEMAP,
		.plant = x->opt.plant,
		.before_barrier = before_barrier,
		.arg = x };

	x->seed = seed;
	x->rng = (struct rng){ seed };
	x->cut_rng = (struct rng){ ~seed };
	model_init(&x->model);
	memset(&x->past[0], 0, sizeof(x->past[0]));
	memset(&x->digest[0], 0, sizeof(x->digest[0]));
	x->history = (struct history){ .digest = x->digest };
	x->switching.pending = x->switching.at_risk = false;
	unlink(x->path);
	unlink(x->lock_path);
	disk_init(&x->disk, FILE_MAX_BYTES);
	for (int i = 0; i < BOOTS_PER_RUN && !enough(x); i++) {
		record_start(&rec, &x->disk);
		boot(x);
		/* A file that is no database yet cannot be opened again: start over. */
		if (!x->history.acknowledged && !enough(x)) {
			mdb_env_close(x->env);
			record_stop();
			break;
		}
		cut_and_reboot(x);
	}
	disk_finish(&x->disk);
}

/* ---- the command ---- */

static const char usage[] =
    "usage: explore [--seed N] [--images N] [--seconds S | --hours H] [--writemap] [--nometasync]\n"
    "               [--fs ext4|xfs|btrfs] [--durability strict|group|relaxed]\n"
    "               [--switch] [--nosync-relaxed] [--keep DIR]\n"
    "               [--plant BUG | --early-drop | --trust-digests | --keep-nosync | "
    "--trust-nosync]\n"
    "\n"
    "  --images N   stop after so many crash images (2000)\n"
    "  --seconds S  or after this time, if it comes first\n"
    "  --switch     set and clear MDB_NOSYNC, or MDB_MAPASYNC in a writable map, meanwhile\n"
    "  --nosync-relaxed  and have them served as relaxed\n"
    "  --plant BUG  leave out what the store asked for; the exit status is 0 if that was noticed\n"
    "  --early-drop, --trust-digests  bugs in the store: the pin of the durable snapshot is\n"
    "               dropped; recovery does not look at digests\n"
    "  --keep-nosync, --trust-nosync  and with --switch: the flag is not cleared; what was\n"
    "               committed with it is taken for durable\n"
    "  --keep DIR   put images that show a violation there\n"
    "BUG:";

static int wrong_use(void)
{
	fputs(usage, stderr);
	for (int p = 1; p < PLANT_COUNT; p++)
		fprintf(stderr, " %s", plant_name((enum plant)p));
	fputc('\n', stderr);
	return 2;
}

static bool parse_durability(const char *s, enum pgw_durability *out)
{
	for (int d = 0; d <= PGW_DURABILITY_RELAXED; d++) {
		if (!strcmp(s, pgw_durability_name((enum pgw_durability)d))) {
			*out = (enum pgw_durability)d;
			return true;
		}
	}
	return false;
}

static bool parse_plant(const char *s, enum plant *out)
{
	for (int p = 0; p < PLANT_COUNT; p++) {
		if (!strcmp(s, plant_name((enum plant)p))) {
			*out = (enum plant)p;
			return true;
		}
	}
	return false;
}

static bool parse_fs(const char *s, uint64_t *magic)
{
	*magic = !strcmp(s, "ext4")    ? 0xef53
		 : !strcmp(s, "xfs")   ? 0x58465342
		 : !strcmp(s, "btrfs") ? 0x9123683e
				       : 0;
	return *magic != 0;
}

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option options[] = { { "seed", required_argument, NULL, 's' },
		{ "images", required_argument, NULL, 'i' },
		{ "seconds", required_argument, NULL, 't' },
		{ "hours", required_argument, NULL, 'h' }, { "writemap", no_argument, NULL, 'w' },
		{ "nometasync", no_argument, NULL, 'm' }, { "fs", required_argument, NULL, 'f' },
		{ "plant", required_argument, NULL, 'p' }, { "keep", required_argument, NULL, 'k' },
		{ "durability", required_argument, NULL, 'd' },
		{ "early-drop", no_argument, NULL, 'e' },
		{ "trust-digests", no_argument, NULL, 'g' }, { "switch", no_argument, NULL, 'S' },
		{ "nosync-relaxed", no_argument, NULL, 'r' },
		{ "keep-nosync", no_argument, NULL, 'K' },
		{ "trust-nosync", no_argument, NULL, 'T' }, { 0 } };
	int c;

	*o = (struct options){ .images = 2000, .magic = 0xef53 };
	o->seed = (uint64_t)time(NULL);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			o->seed = strtoull(optarg, NULL, 0);
			break;
		case 'i':
			o->images = strtoull(optarg, NULL, 0);
			break;
		case 't':
			o->seconds = strtod(optarg, NULL);
			break;
		case 'h':
			o->seconds = strtod(optarg, NULL) * 3600;
			o->images = UINT64_MAX;
			break;
		case 'w':
			o->flags |= MDB_WRITEMAP;
			break;
		case 'm':
			o->flags |= MDB_NOMETASYNC;
			break;
		case 'f':
			if (!parse_fs(optarg, &o->magic))
				return false;
			break;
		case 'p':
			if (!parse_plant(optarg, &o->plant))
				return false;
			break;
		case 'k':
			o->keep = optarg;
			break;
		case 'd':
			if (!parse_durability(optarg, &o->durability))
				return false;
			break;
		case 'e':
			o->early_drop = true;
			break;
		case 'g':
			o->trust_digests = true;
			break;
		case 'S':
			o->switches = true;
			break;
		case 'r':
			o->nosync_relaxed = true;
			break;
		case 'K':
			o->keep_nosync = true;
			break;
		case 'T':
			o->trust_nosync = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc && o->images;
}

static int explore(struct explorer *x)
{
	bool planted = x->opt.plant || x->opt.early_drop || x->opt.trust_digests ||
		       x->opt.keep_nosync || x->opt.trust_nosync;
	struct pgw_env_stats total = { 0 };
	bool found;

	x->recovering.trust_digests = x->opt.trust_digests;
	x->switching = (struct switching){ .writemap = x->opt.flags & MDB_WRITEMAP,
		.keep_nosync = x->opt.keep_nosync,
		.trust_nosync = x->opt.trust_nosync };
	x->start = now();
	for (uint64_t i = 0; !enough(x); i++)
		run(x, x->opt.seed + i);
	found = x->violations != 0;
	pgw__env_total(&total);
	printf("seeds %" PRIu64 " to %" PRIu64 ": %" PRIu64 " images (%" PRIu64
	       " read by stock LMDB, %" PRIu64 " written on), %" PRIu64 " commits, %" PRIu64
	       " barriers, %" PRIu64 " reboots, %.1f s: %s\n",
	    x->opt.seed, x->seed, x->judge.images, x->judge.opened, x->judge.written, x->commits,
	    x->barriers, x->reboots, now() - x->start,
	    planted ? found ? "planted bug found" : "PLANTED BUG NOT FOUND"
	    : found ? "VIOLATION"
		    : "no violation");
	if (x->opt.switches)
		printf("%" PRIu64 " times what was committed unsynced was made durable\n",
		    x->switching.times);
	if (fences(x))
		printf("%" PRIu64 " images were restored, %" PRIu64
		       " recoveries interrupted, %" PRIu64 " checkpoints of two barriers\n",
		    x->recovering.recovered, x->recovering.interrupted,
		    total.two_barrier_checkpoints);
	return found == planted ? 0 : 1;
}

/* In a folder of its own, which is removed. */
static int explore_in_memory(struct explorer *x)
{
	int rc;

	snprintf(x->dir, sizeof(x->dir), "%s/explore-XXXXXX",
	    access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(x->dir)) {
		perror(x->dir);
		return 77;
	}
	snprintf(x->path, sizeof(x->path), "%s/data", x->dir);
	snprintf(x->lock_path, sizeof(x->lock_path), "%s-lock", x->path);
	rc = judge_init(&x->judge, x->dir) || recovering_init(&x->recovering, x->dir) ? 77
										      : explore(x);
	judge_finish(&x->judge);
	recovering_finish(&x->recovering);
	unlink(x->path);
	unlink(x->lock_path);
	rmdir(x->dir);
	return rc;
}

int main(int argc, char **argv)
{
	struct explorer *x = calloc(1, sizeof(*x));
	int rc = 1;

	if (x && (x->image = malloc(FILE_MAX_BYTES)))
		rc = parse(argc, argv, &x->opt) ? explore_in_memory(x) : wrong_use();
	else
		fputs("explore: out of memory\n", stderr);
	if (x)
		free(x->image);
	free(x);
	return rc;
}
