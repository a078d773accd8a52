/* SPDX-License-Identifier: BSD-2-Clause
 *
 * shapes.c - databases of every shape, made with stock LMDB.
 */
#include "shapes.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define TRY(expr)                                                                     \
	do {                                                                          \
		int rc_ = (expr);                                                     \
		if (rc_) {                                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #expr, \
			    mdb_strerror(rc_));                                       \
			return rc_;                                                   \
		}                                                                     \
	} while (0)

/* A permutation of 32 bits, so that keys come in no order. */
static uint32_t scatter(uint32_t i)
{
	return i * 2654435761u;
}

/* Key and value of a string database. value_len: bytes of the value, at least 1. */
static int put_text(MDB_txn *txn, MDB_dbi dbi, uint32_t i, size_t value_len)
{
	static char value[1 << 18];
	char key[64];
	MDB_val k = { 0, key }, v = { value_len, value };

	k.mv_size = (size_t)snprintf(key, sizeof(key), "key-%08x-%.*s", scatter(i), (int)(i % 23),
	    "abcdefghijklmnopqrstuvwxyz");
	memset(value, (int)i, value_len);
	return mdb_put(txn, dbi, &k, &v, 0);
}

static int delete_text(MDB_txn *txn, MDB_dbi dbi, uint32_t i)
{
	char key[64];
	MDB_val k = { 0, key };

	k.mv_size = (size_t)snprintf(key, sizeof(key), "key-%08x-%.*s", scatter(i), (int)(i % 23),
	    "abcdefghijklmnopqrstuvwxyz");
	return mdb_del(txn, dbi, &k, NULL);
}

/* One transaction around fn. */
static int with_txn(MDB_env *env, const char *name, unsigned flags,
    int (*fn)(MDB_txn *, MDB_dbi, uint32_t), uint32_t arg)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	TRY(mdb_txn_begin(env, NULL, 0, &txn));
	TRY(mdb_dbi_open(txn, name, flags | MDB_CREATE, &dbi));
	TRY(fn(txn, dbi, arg));
	return mdb_txn_commit(txn);
}

static int fill_nothing(MDB_env *env)
{
	return 0;
}

static int put_n(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		TRY(put_text(txn, dbi, i, 1 + i % 100));
	return 0;
}

static int fill_one(MDB_env *env)
{
	return with_txn(env, NULL, 0, put_n, 1);
}

static int fill_main(MDB_env *env)
{
	return with_txn(env, NULL, 0, put_n, 5000);
}

static int put_big(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	static const size_t sizes[] = { 1, 2037, 2040, 4080, 4081, 8176, 8177, 100000, 262144 };

	for (uint32_t i = 0; i < n; i++)
		TRY(put_text(txn, dbi, i, sizes[i % 9]));
	/* Shorter values that keep a longer run. */
	for (uint32_t i = 7; i < n; i += 18)
		TRY(put_text(txn, dbi, i, 5000));
	return 0;
}

static int fill_overflow(MDB_env *env)
{
	return with_txn(env, "big", 0, put_big, 60);
}

static int fill_named(MDB_env *env)
{
	for (int i = 0; i < 100; i++) {
		char name[32];

		snprintf(name, sizeof(name), "database %d", i);
		TRY(with_txn(env, name, i % 3 ? 0 : MDB_REVERSEKEY, put_n, (uint32_t)i * 7));
	}
	return 0;
}

/* n keys; key i has i * i % 977 values of 4 + i % 60 bytes (all 8 with fixed). */
static int put_dups(MDB_txn *txn, MDB_dbi dbi, uint32_t n, bool fixed)
{
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j <= i * i % 977; j++) {
			char value[64] = { 0 };
			uint64_t number = scatter(j);
			char key[16];
			MDB_val k = { (size_t)snprintf(key, sizeof(key), "k%u", scatter(i)), key };
			MDB_val v = { fixed ? 8 : 4 + i % 60, fixed ? (void *)&number : value };

			memcpy(value, &number, 4);
			TRY(mdb_put(txn, dbi, &k, &v, 0));
		}
	}
	return 0;
}

static int put_dups_text(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	return put_dups(txn, dbi, n, false);
}

static int put_dups_fixed(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	return put_dups(txn, dbi, n, true);
}

static int fill_dups(MDB_env *env)
{
	TRY(with_txn(env, "dup small", MDB_DUPSORT, put_dups_text, 5));
	TRY(with_txn(env, "dup", MDB_DUPSORT, put_dups_text, 60));
	return with_txn(
	    env, "dup reverse", MDB_DUPSORT | MDB_REVERSEDUP | MDB_REVERSEKEY, put_dups_text, 40);
}

static int fill_dups_fixed(MDB_env *env)
{
	TRY(with_txn(env, "fixed small", MDB_DUPSORT | MDB_DUPFIXED, put_dups_fixed, 5));
	TRY(with_txn(env, "fixed", MDB_DUPSORT | MDB_DUPFIXED, put_dups_fixed, 60));
	return with_txn(
	    env, "fixed integer", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, put_dups_fixed, 60);
}

static int put_integers(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t number = (uint64_t)scatter(i) << 17 | i;
		MDB_val k = { 8, &number },
			v = { 4 + i % 40, "0123456789012345678901234567890123456789012345" };

		TRY(mdb_put(txn, dbi, &k, &v, 0));
	}
	return 0;
}

static int fill_integers(MDB_env *env)
{
	return with_txn(env, "integers", MDB_INTEGERKEY, put_integers, 4000);
}

/* Fixed values of one byte: the page's free-space bound then passes its end. */
static int put_bytes(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint8_t byte = (uint8_t)(i * 7);
		MDB_val k = { 3, "one" }, v = { 1, &byte };

		TRY(mdb_put(txn, dbi, &k, &v, 0));
	}
	return 0;
}

static int fill_bytes(MDB_env *env)
{
	return with_txn(env, "bytes", MDB_DUPSORT | MDB_DUPFIXED, put_bytes, 256);
}

/* Rewrites and deletes over many transactions: a long free list with overflow records. */
static int churn(MDB_txn *txn, MDB_dbi dbi, uint32_t round)
{
	for (uint32_t i = 0; i < 200; i++)
		TRY(put_text(txn, dbi, scatter(round * 200 + i) % 3000, 1 + (round * i) % 9000));
	for (uint32_t i = 0; i < 120; i++) {
		int rc = delete_text(txn, dbi, scatter(round * 311 + i) % 3000);

		if (rc && rc != MDB_NOTFOUND)
			return rc;
	}
	return 0;
}

static int fill_churn(MDB_env *env)
{
	for (uint32_t round = 0; round < 60; round++)
		TRY(with_txn(env, round % 2 ? "a" : "b", 0, churn, round));
	return 0;
}

static int drop(MDB_txn *txn, MDB_dbi dbi, uint32_t del)
{
	return mdb_drop(txn, dbi, (int)del);
}

static int fill_drop(MDB_env *env)
{
	TRY(with_txn(env, "emptied", 0, put_n, 3000));
	TRY(with_txn(env, "deleted", 0, put_big, 60));
	TRY(with_txn(env, "dups", MDB_DUPSORT, put_dups_text, 60));
	TRY(with_txn(env, "emptied", 0, drop, 0));
	TRY(with_txn(env, "deleted", 0, drop, 1));
	return with_txn(env, "dups", MDB_DUPSORT, drop, 0);
}

/* A reader that stays: freed pages wait in the list. */
static int fill_pinned(MDB_env *env)
{
	MDB_txn *reader;

	TRY(with_txn(env, "a", 0, put_n, 2000));
	TRY(mdb_txn_begin(env, NULL, MDB_RDONLY, &reader));
	for (uint32_t round = 0; round < 40; round++)
		TRY(with_txn(env, "a", 0, churn, round));
	mdb_txn_abort(reader);
	return with_txn(env, "a", 0, churn, 99);
}

/* More dirty pages than a transaction may hold in memory. */
static int fill_spill(MDB_env *env)
{
	return with_txn(env, "spilled", 0, put_n, 500000);
}

static int fill_nested(MDB_env *env)
{
	MDB_txn *txn, *child;
	unsigned flags;
	MDB_dbi dbi;

	TRY(mdb_env_get_flags(env, &flags));
	TRY(mdb_txn_begin(env, NULL, 0, &txn));
	TRY(mdb_dbi_open(txn, "nested", MDB_CREATE, &dbi));
	TRY(put_n(txn, dbi, 1000));
	for (uint32_t i = 0; i < 6 && !(flags & MDB_WRITEMAP); i++) { /* refused with it */
		TRY(mdb_txn_begin(env, txn, 0, &child));
		TRY(churn(child, dbi, i));
		if (i % 2)
			mdb_txn_abort(child);
		else
			TRY(mdb_txn_commit(child));
	}
	return mdb_txn_commit(txn);
}

/* Delete almost everything: trees shrink, pages merge, roots collapse. */
static int thin_out(MDB_txn *txn, MDB_dbi dbi, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (i % 97)
			TRY(delete_text(txn, dbi, i));
	}
	return 0;
}

static int fill_thinned(MDB_env *env)
{
	TRY(with_txn(env, "thin", 0, put_n, 5000));
	TRY(with_txn(env, "thin", 0, thin_out, 5000));
	return with_txn(env, "thin", 0, put_n, 10);
}

/* A few pages each: the seeds of the fuzz corpus. */
static int fill_tiny_texts(MDB_env *env)
{
	TRY(with_txn(env, "text", 0, put_n, 60));
	return with_txn(env, "text", 0, thin_out, 60);
}

static int fill_tiny_dups(MDB_env *env)
{
	return with_txn(env, "dup", MDB_DUPSORT | MDB_REVERSEDUP, put_dups_text, 12);
}

static int fill_tiny_fixed(MDB_env *env)
{
	return with_txn(
	    env, "fixed", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, put_dups_fixed, 18);
}

static int fill_tiny_overflow(MDB_env *env)
{
	return with_txn(env, NULL, 0, put_big, 5);
}

/* Some of everything, with one database three levels deep and the main database on one page: what
 * the damage tests cut into. */
static int fill_everything(MDB_env *env)
{
	TRY(with_txn(env, "text", 0, put_n, 20000));
	TRY(with_txn(env, "big", 0, put_big, 30));
	TRY(with_txn(env, "dup", MDB_DUPSORT, put_dups_text, 60));
	TRY(with_txn(env, "fixed", MDB_DUPSORT | MDB_DUPFIXED, put_dups_fixed, 60));
	TRY(with_txn(env, "integers", MDB_INTEGERKEY, put_integers, 1000));
	for (uint32_t round = 0; round < 5; round++)
		TRY(with_txn(env, "churned", 0, churn, round));
	return 0;
}

const struct shape shapes[] = {
	{ "nothing", fill_nothing },
	{ "one", fill_one },
	{ "main", fill_main },
	{ "overflow", fill_overflow },
	{ "named", fill_named },
	{ "dups", fill_dups },
	{ "dups-fixed", fill_dups_fixed },
	{ "integers", fill_integers },
	{ "bytes", fill_bytes },
	{ "churn", fill_churn },
	{ "drop", fill_drop },
	{ "pinned", fill_pinned },
	{ "spill", fill_spill },
	{ "nested", fill_nested },
	{ "thinned", fill_thinned },
	{ "tiny-texts", fill_tiny_texts },
	{ "tiny-dups", fill_tiny_dups },
	{ "tiny-fixed", fill_tiny_fixed },
	{ "tiny-overflow", fill_tiny_overflow },
	{ "everything", fill_everything },
};
const size_t n_shapes = sizeof(shapes) / sizeof(shapes[0]);

const struct shape *shape_find(const char *name)
{
	for (size_t i = 0; i < n_shapes; i++) {
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	}
	return NULL;
}

int shape_create(const struct shape *s, const char *path, unsigned flags)
{
	MDB_env *env;
	int rc;

	TRY(mdb_env_create(&env));
	rc = mdb_env_set_mapsize(env, 512u << 20);
	if (!rc)
		rc = mdb_env_set_maxdbs(env, 128);
	if (!rc)
		rc = mdb_env_open(env, path, flags | MDB_NOSUBDIR | MDB_NOSYNC, 0600);
	if (!rc)
		rc = s->fill(env);
	mdb_env_close(env);
	return rc;
}
