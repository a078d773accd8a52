/* SPDX-License-Identifier: BSD-2-Clause
 *
 * change.c - the functions of LMDB that change data, answered here first.
 *
 * In a writable map, each is told apart by what it is for, and how large a run of pages it can take
 * (space.h).
 */
#include "seam.h"

#include <errno.h>

#include "env.h"
#include "space.h"
#include "update.h"

#define PUBLIC __attribute__((visibility("default")))

/* Call LMDB with room made for it, if e is not NULL. */
#define WITH_ROOM(e, what, run, more, expr)                                            \
	({                                                                             \
		int result = (e) ? pgw__space_prepare((e), (what), (run), (more)) : 0; \
		if (!result)                                                           \
			result = (expr);                                               \
		(e) ? pgw__space_result((e), result) : result;                         \
	})

/* The environment, if it has a writable map and txn is its write transaction. */
static struct pgw__env *writing_map(MDB_txn *txn)
{
	MDB_env *env = txn ? mdb_txn_env(txn) : NULL;
	struct pgw__env *e = env ? pgw__env_by_lmdb(env) : NULL;

	if (!e || !e->writemap || atomic_load_explicit(&e->writer, memory_order_relaxed) != txn)
		return NULL;
	return e;
}

/* Pages of a run that holds so many bytes behind a page header. */
static uint64_t run_of(const struct pgw__env *e, uint64_t bytes)
{
	return bytes / e->psize + 2;
}

static uint64_t run_of_value(const struct pgw__env *e, const MDB_val *data)
{
	return e && data ? run_of(e, data->mv_size) : 0;
}

/* MDB_MULTIPLE: data[1].mv_size items of data[0].mv_size bytes. Each may change pages of its own,
 * but not more than there are; new ones are at least half full. */
static uint64_t pages_of_items(const struct pgw__env *e, const MDB_val *data)
{
	uint64_t bytes, changed;

	if (!e || !data || __builtin_mul_overflow(data[0].mv_size, data[1].mv_size, &bytes) ||
	    __builtin_mul_overflow(data[1].mv_size, 16, &changed))
		return 0;
	if (changed > e->space.end)
		changed = e->space.end;
	return changed + 4 * run_of(e, bytes);
}

PUBLIC int mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags)
{
	struct pgw__env *e = writing_map(txn);

	return WITH_ROOM(e, PGW__SPACE_TO_TAKE, run_of_value(e, data), 0,
	    pgw__lmdb_put(txn, dbi, key, data, flags));
}

PUBLIC int mdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned flags)
{
	struct pgw__env *e = writing_map(cursor ? mdb_cursor_txn(cursor) : NULL);
	uint64_t more = flags & MDB_MULTIPLE ? pages_of_items(e, data) : 0;

	return WITH_ROOM(e, PGW__SPACE_TO_TAKE, run_of_value(e, data), more,
	    pgw__lmdb_cursor_put(cursor, key, data, flags));
}

PUBLIC int mdb_dbi_open(MDB_txn *txn, const char *name, unsigned flags, MDB_dbi *dbi)
{
	struct pgw__env *e = flags & MDB_CREATE ? writing_map(txn) : NULL;

	return WITH_ROOM(e, PGW__SPACE_TO_TAKE, 1, 0, pgw__lmdb_dbi_open(txn, name, flags, dbi));
}

PUBLIC int mdb_del(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	struct pgw__env *e = writing_map(txn);

	return WITH_ROOM(e, PGW__SPACE_TO_FREE, 1, 0, pgw__lmdb_del(txn, dbi, key, data));
}

PUBLIC int mdb_cursor_del(MDB_cursor *cursor, unsigned flags)
{
	struct pgw__env *e = writing_map(cursor ? mdb_cursor_txn(cursor) : NULL);

	return WITH_ROOM(e, PGW__SPACE_TO_FREE, 1, 0, pgw__lmdb_cursor_del(cursor, flags));
}

PUBLIC int mdb_drop(MDB_txn *txn, MDB_dbi dbi, int del)
{
	struct pgw__env *e = writing_map(txn);

	if (pgw__updating)
		return PGW_NOT_POSSIBLE;
	return WITH_ROOM(e, PGW__SPACE_TO_FREE, 1, 0, pgw__lmdb_drop(txn, dbi, del));
}
