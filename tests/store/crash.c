/* SPDX-License-Identifier: BSD-2-Clause
 *
 * crash.c - see crash.h.
 *
 * After a crash the file must open, and hold exactly what the transaction of its newest meta page
 * had committed. That transaction must not be older than the floor: the last one that was
 * acknowledged as durable (with MDB_NOMETASYNC, the one before). Between a commit that synced
 * nothing (MDB_NOSYNC, or another program's whose syncs the simulated disk does not see) and the
 * next one that is acknowledged, nothing is promised, and nothing judged.
 *
 * A call may be made to fail. A failed sync must end the environment, with the error; reading goes
 * on, and after it is opened again the promises hold as before. A failed write must cost the
 * transaction only.
 */
#define LMDB_API_LINKED
#include "crash.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env.h"

#define MAP_SIZE  (12u << 20)
#define MAP_LIMIT (64u << 20)
#define KEPT	  8 /* models of the last transactions */

struct run {
	const struct history *h;
	struct verdict *v;
	const struct lmdb_api *stock;
	struct lmdb_api linked;
	struct rng rng;
	char dir[512], file[1024], image_dir[512], image[1024];

	struct work ours, other; /* other: the system's LMDB on the same file, as another process */
	size_t map;
	unsigned flags;
	struct model now, kept[KEPT];
	uint64_t newest;  /* committed */
	uint64_t pending; /* being committed, else newest */
	uint64_t floor;
	bool judged;
	bool over; /* nothing is promised any more */
};

static void violation(struct run *r, const char *what, const char *detail, uint64_t txnid)
{
	if (!r->v->violations++)
		snprintf(r->v->first, sizeof(r->v->first),
		    "seed %llu%s, image at transaction %llu (floor %llu, newest %llu): %s %s",
		    (unsigned long long)r->h->seed, r->h->writemap ? ", writemap" : "",
		    (unsigned long long)txnid, (unsigned long long)r->floor,
		    (unsigned long long)r->pending, what, detail);
}

static void remove_lock(const char *dir)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/lock.mdb", dir);
	unlink(path);
}

static int open_env(struct work *w, const char *dir, unsigned flags, size_t map)
{
	int rc = w->api->env_create(&w->env);

	if (!rc)
		rc = w->api->env_set_maxdbs(w->env, 4);
	if (!rc)
		rc = w->api->env_set_mapsize(w->env, map);
	if (!rc)
		rc = w->api->env_open(w->env, dir, flags, 0600);
	return rc;
}

/* It must also take another transaction. */
static int write_once(struct work *w)
{
	MDB_val k = { 1, "z" }, v = { 1, "z" };
	MDB_txn *txn;
	int rc = w->api->txn_begin(w->env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = w->api->put(txn, w->dbi[0], &k, &v, 0);
	if (rc) {
		w->api->txn_abort(txn);
		return rc;
	}
	return w->api->txn_commit(txn);
}

/* Judge the image at r->image. Returns its transaction id, 0 if it does not open. */
static uint64_t judge(struct run *r)
{
	struct work w = { .api = r->stock, .rng = &r->rng };
	char why[256] = "";
	MDB_envinfo info = { 0 };
	int rc;

	r->v->images++;
	remove_lock(r->image_dir);
	rc = open_env(&w, r->image_dir, MDB_NOSYNC, r->map);
	if (rc) {
		violation(r, "does not open:", w.api->strerror(rc), 0);
		goto out;
	}
	w.api->env_info(w.env, &info);
	if (info.me_last_txnid < r->floor || info.me_last_txnid > r->pending) {
		violation(r, "what was acknowledged is missing", "", info.me_last_txnid);
		goto out;
	}
	rc = work_open_dbis(&w, false);
	if (rc)
		violation(r, "databases:", w.api->strerror(rc), info.me_last_txnid);
	else if (!work_verify(&w, &r->kept[info.me_last_txnid % KEPT], why, sizeof(why)))
		violation(r, "holds something else:", why, info.me_last_txnid);
	else if ((rc = write_once(&w)))
		violation(r, "cannot be written:", w.api->strerror(rc), info.me_last_txnid);
out:
	w.api->env_close(w.env);
	return info.me_last_txnid;
}

static enum sim_image any_image(struct run *r)
{
	return (enum sim_image[]){ SIM_NOTHING_MORE, SIM_ANYTHING, SIM_ANYTHING,
		SIM_ALL }[rng_below(&r->rng, 4)];
}

static void power_cut(struct run *r)
{
	if (!r->judged || r->v->violations)
		return;
	sim_write_image(r->image, any_image(r));
	judge(r);
}

static void at_barrier(void *arg)
{
	struct run *r = arg;

	if (rng_chance(&r->rng, 15))
		power_cut(r);
}

static void close_all(struct run *r)
{
	r->other.api->env_close(r->other.env);
	r->ours.api->env_close(r->ours.env);
	r->other.env = r->ours.env = NULL;
}

static int open_all(struct run *r, bool create)
{
	unsigned base = r->h->writemap ? MDB_WRITEMAP : 0;
	int rc = open_env(&r->ours, r->dir, base | r->flags, r->map);

	if (!rc)
		rc = open_env(&r->other, r->dir, base | MDB_NOSYNC, r->map);
	if (!rc)
		rc = work_open_dbis(&r->ours, create);
	if (!rc)
		rc = work_open_dbis(&r->other, false);
	return rc;
}

/* What a commit with these flags promises, once it is acknowledged. */
static void acknowledged(struct run *r, uint64_t txnid, unsigned flags)
{
	r->newest = r->pending = txnid;
	if (flags & MDB_NOSYNC) {
		r->judged = false;
		return;
	}
	r->judged = true;
	r->floor = flags & MDB_NOMETASYNC ? txnid - 1 : txnid;
}

/* The process is killed. */
static int reopen(struct run *r)
{
	close_all(r);
	remove_lock(r->dir);
	return open_all(r, false);
}

#define MUST(cond, what)                                   \
	do {                                               \
		if (!(cond))                               \
			violation(r, what, "", r->newest); \
	} while (0)

/* The environment must have ended. Whether the last transaction is in the file is open: its meta
 * page may have been written. */
static int ended(struct run *r, int sync_error)
{
	const struct lmdb_api *api = r->ours.api;
	MDB_envinfo info;
	char why[256];
	MDB_txn *txn;
	int rc;

	r->v->ended++;
	MUST(!sync_error || api->env_sync(r->ours.env, 1) == sync_error, "a later sync succeeds");
	/* LMDB itself allows no reading once a meta page has failed. */
	MUST(api->txn_begin(r->ours.env, NULL, MDB_RDONLY, &txn) == MDB_PANIC ||
		 (api->txn_abort(txn), work_verify(&r->ours, &r->now, why, sizeof(why))),
	    "cannot be read");
	/* What nobody had synced is lost for good, and what is committed on top of it. */
	r->over = !r->judged;
	for (int i = 0; i < 2; i++)
		power_cut(r);
	rc = reopen(r);
	if (rc)
		return rc;
	r->ours.api->env_info(r->ours.env, &info);
	MUST(info.me_last_txnid == r->newest || info.me_last_txnid == r->pending,
	    "lost on reopening");
	r->newest = r->pending = info.me_last_txnid;
	r->now = r->kept[info.me_last_txnid % KEPT];
	return 0;
}

/* A commit or sync of ours returned an error. */
static int after_failure(struct run *r, int rc)
{
	struct pgw_env_stats st;
	MDB_txn *txn;

	if (!sim.fired || r->v->fired)
		return rc;
	r->v->fired = true;
	MUST(rc == -r->h->fail_with, "another error than the call's");
	MUST(!pgw_env_stats(r->ours.env, &st), "no statistics");
	MUST(!st.failed || st.failed == rc, "another error in the statistics");
	rc = r->ours.api->txn_begin(r->ours.env, NULL, 0, &txn);
	MUST(!st.failed || rc == MDB_PANIC, "goes on writing");
	if (rc == MDB_PANIC) /* LMDB itself gives up if a meta page cannot be written */
		return ended(r, st.failed);
	r->ours.api->txn_abort(txn);
	r->v->continued++;
	r->pending = r->newest;
	return rc;
}

static int transaction(struct run *r, struct work *w, unsigned flags)
{
	struct model before = r->now;
	MDB_envinfo info;
	uint64_t txnid;
	MDB_txn *txn;
	int rc = w->api->txn_begin(w->env, NULL, 0, &txn);

	if (rc)
		return rc;
	txnid = w->api->txn_id(txn);
	rc = work_step(w, txn, &r->now);
	if (rc || rng_chance(&r->rng, 12)) {
		w->api->txn_abort(txn);
		r->now = before;
		return rc == MDB_MAP_FULL ? 0 : rc;
	}
	if (r->h->blind_trust && w == &r->ours) {
		struct pgw__env *e = pgw__env_by_lmdb(w->env);

		e->trusted = true;
		e->base = txnid - 1;
	}
	r->kept[txnid % KEPT] = r->now;
	r->pending = txnid;
	rc = w->api->txn_commit(txn);
	if (rc) {
		r->now = before;
		return after_failure(r, rc);
	}
	w->api->env_info(w->env, &info);
	if (info.me_last_txnid != txnid) { /* nothing had changed: LMDB commits nothing */
		r->pending = r->newest;
		return 0;
	}
	r->v->commits++;
	acknowledged(r, txnid, flags);
	return 0;
}

static int commit_other(struct run *r)
{
	r->v->foreign++;
	return transaction(r, &r->other, MDB_NOSYNC);
}

static int change_flags(struct run *r)
{
	static const unsigned choices[] = { 0, 0, MDB_NOMETASYNC, MDB_NOMETASYNC, MDB_NOSYNC };
	unsigned flags = choices[rng_below(&r->rng, 5)];
	int rc = r->ours.api->env_set_flags(r->ours.env, MDB_NOMETASYNC | MDB_NOSYNC, 0);

	if (!rc)
		rc = r->ours.api->env_set_flags(r->ours.env, flags, 1);
	r->flags = flags;
	return rc;
}

static int grow(struct run *r)
{
	int rc;

	if (r->map + (1u << 20) > MAP_LIMIT)
		return 0;
	r->map += 1u << 20;
	rc = r->ours.api->env_set_mapsize(r->ours.env, r->map);
	return rc ? rc : r->other.api->env_set_mapsize(r->other.env, r->map);
}

static int sync_by_hand(struct run *r)
{
	int rc = r->ours.api->env_sync(r->ours.env, 1);

	if (rc)
		return after_failure(r, rc);
	r->floor = r->newest;
	r->judged = true;
	return 0;
}

/* The power fails, and the machine comes back. */
static int reboot(struct run *r)
{
	uint64_t txnid;

	if (!r->judged)
		return reopen(r);
	sim_write_image(r->image, any_image(r));
	sim_reboot(r->image);
	txnid = judge(r);
	if (r->v->violations)
		return 0;
	r->v->reboots++;
	close_all(r);
	remove_lock(r->dir);
	r->now = r->kept[txnid % KEPT];
	r->newest = r->pending = r->floor = txnid;
	return open_all(r, false);
}

static int step(struct run *r)
{
	uint32_t what = rng_below(&r->rng, 100);
	int rc;

	if (what < 5)
		return change_flags(r);
	if (what < 7)
		return grow(r);
	if (what < 10)
		return sync_by_hand(r);
	if (what < 12)
		return reopen(r);
	if (what < 15)
		return reboot(r);
	if (what < 21)
		return commit_other(r);
	rc = transaction(r, &r->ours, r->flags);
	if (!rc && rng_chance(&r->rng, 25))
		power_cut(r);
	return rc;
}

static int set_up(struct run *r, const char *dir)
{
	int rc;

	snprintf(r->dir, sizeof(r->dir), "%s/db", dir);
	snprintf(r->file, sizeof(r->file), "%s/data.mdb", r->dir);
	snprintf(r->image_dir, sizeof(r->image_dir), "%s/image", dir);
	snprintf(r->image, sizeof(r->image), "%s/data.mdb", r->image_dir);
	mkdir(r->dir, 0700);
	mkdir(r->image_dir, 0700);
	unlink(r->file);
	remove_lock(r->dir);
	sim_start(r->file, MAP_LIMIT, r->h->seed);
	sim.plant = r->h->plant;
	sim.at_barrier = at_barrier;
	sim.arg = r;
	r->map = MAP_SIZE;
	rc = open_all(r, true);
	if (rc)
		return rc;
	acknowledged(r, 1, 0); /* the transaction that made the databases */
	r->flags = r->h->flags;
	return r->ours.api->env_set_flags(r->ours.env, r->flags, 1);
}

int history_run(
    const struct history *h, const char *dir, const struct lmdb_api *stock, struct verdict *v)
{
	struct run *r = &(struct run){ .h = h, .v = v, .stock = stock, .rng.state = h->seed };
	int rc;

	r->linked = lmdb_api_linked();
	r->ours = (struct work){ .api = &r->linked, .rng = &r->rng, .nested = !h->writemap };
	r->other = (struct work){ .api = stock, .rng = &r->rng, .nested = !h->writemap };
	rc = set_up(r, dir);
	sim.fail_at = h->fail_at;
	sim.fail_with = h->fail_with;
	sim.short_write = h->short_write;
	for (unsigned i = 0; i < h->transactions && !rc && !v->violations && !r->over; i++) {
		rc = step(r);
		if (rc && !v->violations)
			snprintf(v->first, sizeof(v->first), "seed %llu%s, step %u: %s",
			    (unsigned long long)h->seed, h->writemap ? ", writemap" : "", i,
			    stock->strerror(rc));
	}
	if (r->ours.env)
		close_all(r);
	sim_stop();
	/* A planted bug may also stop the history itself; that is a find, too. */
	return v->violations ? 0 : rc;
}
