/* SPDX-License-Identifier: BSD-2-Clause
 *
 * readers.c - who keeps old snapshots, and what that costs.
 *
 * LMDB tells its table of readers as lines of text: process, thread, transaction. The pins of group and
 * relaxed (pin.h) are in it too; they are known, and left out.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "env.h"
#include "format.h"
#include "gate.h"
#include "pin.h"

#define PUBLIC	 __attribute__((visibility("default")))
#define FREE_DBI 0

struct table {
	struct pgw_readers *out;
	uint64_t own[3]; /* snapshots of pins; 0: none, or met already */
};

static bool is_own(struct table *t, int pid, uint64_t txnid)
{
	if (pid != getpid())
		return false;
	for (unsigned i = 0; i < 3; i++) {
		if (t->own[i] == txnid) {
			t->own[i] = 0;
			return true;
		}
	}
	return false;
}

static int note_reader(const char *line, void *arg)
{
	struct table *t = arg;
	char thread[32], txn[32], *end;
	uint64_t txnid;
	int pid;

	if (sscanf(line, "%d %31s %31s", &pid, thread, txn) != 3)
		return 0; /* the title */
	txnid = strtoull(txn, &end, 10);
	if (*end || end == txn || is_own(t, pid, txnid))
		return 0; /* a slot that is not in use shows "-" */
	if (!t->out->readers++ || txnid < t->out->oldest_txnid) {
		t->out->oldest_txnid = txnid;
		t->out->oldest_pid = pid;
	}
	return 0;
}

/* The table, without our pins: they do not move meanwhile. */
static int list(struct pgw__env *e, MDB_env *env, struct pgw_readers *out)
{
	struct pgw__checkpointer *c = pgw__checkpointer_of(e);
	struct table t = { .out = out };
	int rc;

	if (!c || c->pid != getpid()) {
		rc = mdb_reader_list(env, note_reader, &t);
		return rc < 0 ? rc : 0;
	}
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < 3; i++)
		if (c->pins[i].active)
			t.own[i] = mdb_txn_id(c->pins[i].txn);
	rc = mdb_reader_list(env, note_reader, &t);
	pthread_mutex_unlock(&c->lock);
	return rc < 0 ? rc : 0;
}

/* Pages that transactions have given back which come after what a reader at snapshot `from` lets LMDB
 * recycle, and before what LMDB keeps anyway. */
static int count_held(MDB_txn *txn, uint64_t from, uint64_t newest, uint64_t *pages)
{
	MDB_val key = { .mv_size = sizeof(from), .mv_data = &from }, data;
	MDB_cursor *cursor;
	uint64_t n = 0;
	int rc = mdb_cursor_open(txn, FREE_DBI, &cursor);

	if (rc)
		return rc;
	rc = mdb_cursor_get(cursor, &key, &data, MDB_SET_RANGE);
	while (!rc && pgw__get64(key.mv_data, 0) < newest) {
		n += data.mv_size < sizeof(n) ? 0 : pgw__get64(data.mv_data, 0);
		rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	if (rc && rc != MDB_NOTFOUND)
		return rc;
	*pages = n;
	return 0;
}

/* With a slot of its own: the thread may be in a read transaction. */
static int measure(MDB_env *env, struct pgw_readers *out)
{
	struct pgw__pin pin = { 0 };
	uint64_t newest;
	int rc = pgw__pin_take(&pin, env, &newest);

	if (rc)
		return rc;
	out->newest_txnid = newest;
	if (out->readers) {
		out->age = newest - out->oldest_txnid;
		rc = count_held(pin.txn, out->oldest_txnid, newest, &out->held_pages);
	}
	pgw__pin_finish(&pin);
	return rc;
}

PUBLIC int pgw_env_readers(MDB_env *env, struct pgw_readers *out)
{
	struct pgw__env *e = pgw__env_by_lmdb(env);
	struct pgw_readers r = { 0 };
	int rc, dead = 0;

	if (!e || !out)
		return EINVAL;
	rc = mdb_reader_check(env, &dead);
	PGW__ENV_COUNT(e, dead_readers, dead);
	if (!rc)
		rc = list(e, env, &r);
	if (!rc)
		rc = measure(env, &r);
	if (!rc)
		*out = r;
	return rc;
}
