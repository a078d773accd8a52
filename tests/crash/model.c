/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model.c - the content of the crash workload (model.h).
 */
#include "model.h"

#include <stdio.h>
#include <string.h>

#define VALUE_MAX 12288

enum kind { PLAIN, INTEGER, DUPS, FIXED, DROPPED };

static const struct {
	const char *name;
	unsigned flags;
} dbs[MODEL_DBS] = {
	[PLAIN] = { "plain", 0 },
	[INTEGER] = { "integer", MDB_INTEGERKEY },
	[DUPS] = { "dups", MDB_DUPSORT },
	[FIXED] = { "fixed", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP },
	[DROPPED] = { "dropped", MDB_REVERSEKEY },
};

const char *model_disagreement;

/* Where a database's values are in the model. */
static uint32_t *values_of(struct model *m, enum kind k)
{
	return m->value[k == PLAIN ? 0 : k == INTEGER ? 1 : 2];
}

static uint64_t *dups_of(struct model *m, enum kind k, uint32_t key)
{
	return m->dups[k == DUPS ? 0 : 1][key];
}

struct item {
	uint8_t key[48], value[VALUE_MAX];
	MDB_val k, v;
};

static struct audit_bytes bytes(MDB_val v)
{
	return (struct audit_bytes){ v.mv_data, v.mv_size };
}

static struct audit_bytes name_of(enum kind k)
{
	return (struct audit_bytes){ (const uint8_t *)dbs[k].name, strlen(dbs[k].name) };
}

static void make_key(struct item *it, enum kind kind, uint32_t key)
{
	if (kind == INTEGER) {
		uint64_t n = (uint64_t)key * 2654435761u;

		memcpy(it->key, &n, 8);
		it->k.mv_size = 8;
	} else {
		it->k.mv_size = (size_t)snprintf((char *)it->key, sizeof(it->key), "%u-%.*s",
		    key * 2654435761u, (int)(key % 20), "abcdefghijklmnopqrst");
	}
	it->k.mv_data = it->key;
}

/* The bytes of value number n. The integer database has small ones, the others up to three pages.
 */
static void make_value(struct item *it, enum kind kind, uint32_t n)
{
	struct rng r = { n };
	uint64_t class = rng_below(&r, 16);
	size_t len = class < 10 || kind == INTEGER ? 1 + rng_below(&r, 120)
		     : class < 14		   ? 1 + rng_below(&r, 2100)
						   : 2000 + rng_below(&r, VALUE_MAX - 2000);

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = rng_next(&r);

		memcpy(it->value + i, &word, len - i < 8 ? len - i : 8);
	}
	it->v = (MDB_val){ len, it->value };
}

static void make_dup(struct item *it, enum kind kind, uint32_t n)
{
	if (kind == FIXED) {
		uint32_t v = n * 2654435761u;

		memcpy(it->value, &v, 4);
		it->v = (MDB_val){ 4, it->value };
	} else {
		it->v.mv_size = (size_t)snprintf((char *)it->value, VALUE_MAX, "%08x%.*s",
		    n * 2654435761u, (int)(n % 40), "0123456789012345678901234567890123456789");
		it->v.mv_data = it->value;
	}
}

static int disagree(const char *what)
{
	model_disagreement = what;
	return MDB_CORRUPTED;
}

/* ---- databases with one value a key ---- */

static void forget_value(struct model *m, enum kind kind, uint32_t key, struct item *it)
{
	uint32_t *value = &values_of(m, kind)[key];

	if (!*value)
		return;
	make_key(it, kind, key);
	make_value(it, kind, *value);
	audit_digest_sub(&m->digest, name_of(kind), bytes(it->k), bytes(it->v));
	*value = 0;
}

static int put_value(
    struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, uint32_t key, uint32_t n)
{
	static struct item it;
	int rc;

	make_key(&it, kind, key);
	make_value(&it, kind, n);
	rc = mdb_put(txn, dbi, &it.k, &it.v, 0);
	if (rc)
		return rc;
	forget_value(m, kind, key, &it);
	make_value(&it, kind, n);
	audit_digest_add(&m->digest, name_of(kind), bytes(it.k), bytes(it.v));
	values_of(m, kind)[key] = n;
	return 0;
}

static int delete_value(struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, uint32_t key)
{
	static struct item it;
	bool there = values_of(m, kind)[key];
	int rc;

	make_key(&it, kind, key);
	rc = mdb_del(txn, dbi, &it.k, NULL);
	if (rc == MDB_NOTFOUND)
		return there ? disagree("a key is not there that should be") : 0;
	if (rc)
		return rc;
	if (!there)
		return disagree("a key was there that should not be");
	forget_value(m, kind, key, &it);
	return 0;
}

/* ---- databases with sorted values ---- */

static int change_dup(struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, uint32_t key,
    uint32_t n, bool insert)
{
	static struct item it;
	uint64_t *word = &dups_of(m, kind, key)[n / 64], bit = UINT64_C(1) << n % 64;
	int rc;

	make_key(&it, kind, key);
	make_dup(&it, kind, n);
	rc = insert ? mdb_put(txn, dbi, &it.k, &it.v, MDB_NODUPDATA)
		    : mdb_del(txn, dbi, &it.k, &it.v);
	if (rc == (insert ? MDB_KEYEXIST : MDB_NOTFOUND))
		return !(*word & bit) == insert ? disagree("a sorted value is in the wrong state")
						: 0;
	if (rc)
		return rc;
	if (!(*word & bit) != insert)
		return disagree("a sorted value was in the wrong state");
	*word ^= bit;
	make_key(&it, kind, key);
	make_dup(&it, kind, n);
	if (insert)
		audit_digest_add(&m->digest, name_of(kind), bytes(it.k), bytes(it.v));
	else
		audit_digest_sub(&m->digest, name_of(kind), bytes(it.k), bytes(it.v));
	return 0;
}

static void forget_dups(struct model *m, enum kind kind, uint32_t key)
{
	static struct item it;
	uint64_t *words = dups_of(m, kind, key);

	make_key(&it, kind, key);
	for (uint32_t n = 0; n < MODEL_DUP_VALUES; n++) {
		if (!(words[n / 64] >> n % 64 & 1))
			continue;
		make_dup(&it, kind, n);
		audit_digest_sub(&m->digest, name_of(kind), bytes(it.k), bytes(it.v));
	}
	memset(words, 0, MODEL_DUP_VALUES / 8);
}

/* All values of a key at once. */
static int delete_dups(struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, uint32_t key)
{
	static struct item it;
	int rc;

	make_key(&it, kind, key);
	rc = mdb_del(txn, dbi, &it.k, NULL);
	if (rc && rc != MDB_NOTFOUND)
		return rc;
	forget_dups(m, kind, key);
	return 0;
}

/* ---- whole databases ---- */

static bool has_dups(enum kind kind)
{
	return kind == DUPS || kind == FIXED;
}

static int drop(struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, bool delete)
{
	static struct item it;
	int rc = mdb_drop(txn, dbi, delete);

	if (rc)
		return rc;
	for (uint32_t i = 0; has_dups(kind) && i < MODEL_DUP_KEYS; i++)
		forget_dups(m, kind, i);
	for (uint32_t i = 0; !has_dups(kind) && i < MODEL_KEYS; i++)
		forget_value(m, kind, i, &it);
	if (delete) {
		audit_digest_sub_db(&m->digest, name_of(kind), (uint16_t)dbs[kind].flags);
		m->exists[kind] = false;
	}
	return 0;
}

/* Every transaction opens what it uses: handles of aborted ones are void. */
static int open_db(struct model *m, MDB_txn *txn, enum kind kind, MDB_dbi *dbi)
{
	int rc = mdb_dbi_open(txn, dbs[kind].name, dbs[kind].flags | MDB_CREATE, dbi);

	if (rc)
		return rc;
	if (!m->exists[kind])
		audit_digest_add_db(&m->digest, name_of(kind), (uint16_t)dbs[kind].flags);
	m->exists[kind] = true;
	return 0;
}

static int change_values(struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, struct rng *r)
{
	uint32_t key = (uint32_t)rng_below(r, MODEL_KEYS);
	int rc;

	switch (rng_below(r, 4)) {
	case 0:
		return delete_value(m, txn, dbi, kind, key);
	case 1: /* neighbours: runs of dirty pages */
		for (uint32_t i = 0; i < 8; i++) {
			rc = put_value(
			    m, txn, dbi, kind, (key + i) % MODEL_KEYS, (uint32_t)rng_next(r) | 1);
			if (rc)
				return rc;
		}
		return 0;
	default:
		return put_value(m, txn, dbi, kind, key, (uint32_t)rng_next(r) | 1);
	}
}

static int change_dups(struct model *m, MDB_txn *txn, MDB_dbi dbi, enum kind kind, struct rng *r)
{
	uint32_t key = (uint32_t)rng_below(r, MODEL_DUP_KEYS);
	uint64_t n = 1 + rng_below(r, 40), what = rng_below(r, 8);
	int rc = 0;

	if (what == 0)
		return delete_dups(m, txn, dbi, kind, key);
	while (n-- && !rc)
		rc = change_dup(
		    m, txn, dbi, kind, key, (uint32_t)rng_below(r, MODEL_DUP_VALUES), what > 2);
	return rc;
}

void model_init(struct model *m)
{
	memset(m, 0, sizeof(*m));
}

int model_change(struct model *m, MDB_txn *txn, struct rng *r, bool drops)
{
	enum kind kind = (enum kind)rng_below(r, MODEL_DBS);
	MDB_dbi dbi;
	int rc = open_db(m, txn, kind, &dbi);

	if (rc)
		return rc;
	if (drops && rng_below(r, 150) == 0)
		return drop(m, txn, dbi, kind, kind == DROPPED);
	if (drops && kind == DROPPED && rng_below(r, 20) == 0)
		return drop(m, txn, dbi, kind, true);
	return has_dups(kind) ? change_dups(m, txn, dbi, kind, r)
			      : change_values(m, txn, dbi, kind, r);
}
