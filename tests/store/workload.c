/* SPDX-License-Identifier: BSD-2-Clause
 *
 * workload.c - see workload.h.
 */
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_VALUE 40000

uint32_t rng_next(struct rng *r)
{
	r->state = r->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(r->state >> 33);
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	return rng_next(r) % n;
}

bool rng_chance(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

static void fill(char *buf, size_t len, unsigned db, unsigned key, uint32_t gen)
{
	struct rng r = { ((uint64_t)db << 60) ^ ((uint64_t)key << 40) ^ gen };

	for (size_t i = 0; i < len; i++)
		buf[i] = (char)rng_next(&r);
}

static MDB_val key_of(char buf[16], unsigned key)
{
	/* Spread over the tree: neighbours in number are not neighbours in order. */
	int n = snprintf(buf, 16, "%03u-%u", key * 37 % 1000, key);

	return (MDB_val){ .mv_size = (size_t)n, .mv_data = buf };
}

int work_open_dbis(struct work *w, bool create)
{
	static const char *const names[3] = { "small", "large", "dups" };
	MDB_txn *txn;
	int rc = w->api->txn_begin(w->env, NULL, create ? 0 : MDB_RDONLY, &txn);

	if (rc)
		return rc;
	for (int i = 0; i < 3 && !rc; i++)
		rc = w->api->dbi_open(txn, names[i],
		    (create ? MDB_CREATE : 0) | (i == 2 ? MDB_DUPSORT : 0), &w->dbi[i]);
	if (rc) {
		w->api->txn_abort(txn);
		return rc;
	}
	return w->api->txn_commit(txn);
}

static int put_value(struct work *w, MDB_txn *txn, struct model *m)
{
	static char buf[MAX_VALUE];
	char name[16];
	unsigned db = rng_below(w->rng, 2), key = rng_below(w->rng, WORK_KEYS);
	uint32_t len = db ? rng_below(w->rng, MAX_VALUE) : rng_below(w->rng, 300);
	uint32_t gen = rng_next(w->rng) | 1;
	MDB_val k = key_of(name, key), v = { .mv_size = len, .mv_data = buf };
	int rc;

	fill(buf, len, db, key, gen);
	rc = w->api->put(txn, w->dbi[db], &k, &v, 0);
	m->value[db][key].gen = gen;
	m->value[db][key].len = len;
	return rc;
}

static int del_value(struct work *w, MDB_txn *txn, struct model *m)
{
	char name[16];
	unsigned db = rng_below(w->rng, 2), key = rng_below(w->rng, WORK_KEYS);
	MDB_val k = key_of(name, key);
	int rc = w->api->del(txn, w->dbi[db], &k, NULL);

	if (rc == MDB_NOTFOUND)
		rc = m->value[db][key].gen ? MDB_CORRUPTED : 0;
	m->value[db][key].gen = 0;
	return rc;
}

static int toggle_dup(struct work *w, MDB_txn *txn, struct model *m)
{
	char name[16], data[200];
	unsigned key = rng_below(w->rng, WORK_KEYS / 8), dup = rng_below(w->rng, WORK_DUPS);
	MDB_val k = key_of(name, key), v = { .mv_size = sizeof(data), .mv_data = data };

	fill(data, sizeof(data), 2, key, dup);
	m->dup[key][dup] ^= 1;
	return m->dup[key][dup] ? w->api->put(txn, w->dbi[2], &k, &v, 0)
				: w->api->del(txn, w->dbi[2], &k, &v);
}

static int change(struct work *w, MDB_txn *txn, struct model *m)
{
	uint32_t what = rng_below(w->rng, 100);

	if (what < 45)
		return put_value(w, txn, m);
	if (what < 65)
		return del_value(w, txn, m);
	if (what < 99)
		return toggle_dup(w, txn, m);
	memset(m->dup, 0, sizeof(m->dup));
	return w->api->drop(txn, w->dbi[2], 0);
}

static int nested_step(struct work *w, MDB_txn *parent, struct model *m)
{
	struct model before = *m;
	MDB_txn *child;
	int rc = w->api->txn_begin(w->env, parent, 0, &child);

	for (unsigned i = rng_below(w->rng, 6); i && !rc; i--)
		rc = change(w, child, m);
	if (rc)
		return rc;
	if (rng_chance(w->rng, 50))
		return w->api->txn_commit(child);
	w->api->txn_abort(child);
	*m = before;
	return 0;
}

int work_step(struct work *w, MDB_txn *txn, struct model *m)
{
	unsigned n = rng_chance(w->rng, 30) ? 1 : 1 + rng_below(w->rng, 12);
	int rc = 0;

	while (n-- && !rc)
		rc = w->nested && rng_chance(w->rng, 10) ? nested_step(w, txn, m)
							 : change(w, txn, m);
	return rc;
}

#define DIFFERS(...) (snprintf(why, size, __VA_ARGS__), false)

static bool verify_values(
    struct work *w, MDB_txn *txn, const struct model *m, unsigned db, char *why, size_t size)
{
	static char want[MAX_VALUE];
	MDB_stat st;
	size_t n = 0;
	int rc;

	for (unsigned key = 0; key < WORK_KEYS; key++) {
		uint32_t gen = m->value[db][key].gen, len = m->value[db][key].len;
		char name[16];
		MDB_val k = key_of(name, key), v;

		rc = w->api->get(txn, w->dbi[db], &k, &v);
		if (!gen && rc == MDB_NOTFOUND)
			continue;
		if (rc || !gen)
			return DIFFERS("database %u, key %u: %s, and the model has %s", db, key,
			    w->api->strerror(rc), gen ? "it" : "not");
		fill(want, len, db, key, gen);
		if (v.mv_size != len || memcmp(v.mv_data, want, len))
			return DIFFERS("database %u, key %u: another value", db, key);
		n++;
	}
	rc = w->api->stat(txn, w->dbi[db], &st);
	if (rc || st.ms_entries != n)
		return DIFFERS("database %u has %zu entries, not %zu", db, st.ms_entries, n);
	return true;
}

static bool verify_dups(struct work *w, MDB_txn *txn, const struct model *m, char *why, size_t size)
{
	size_t want = 0, have = 0;
	MDB_cursor *c;
	MDB_val k, v;
	int rc = w->api->cursor_open(txn, w->dbi[2], &c);

	if (rc)
		return DIFFERS("cursor: %s", w->api->strerror(rc));
	for (unsigned key = 0; key < WORK_KEYS / 8; key++) {
		for (unsigned dup = 0; dup < WORK_DUPS; dup++) {
			char name[16], data[200];

			if (!m->dup[key][dup])
				continue;
			want++;
			fill(data, sizeof(data), 2, key, dup);
			k = key_of(name, key);
			v = (MDB_val){ .mv_size = sizeof(data), .mv_data = data };
			rc = w->api->cursor_get(c, &k, &v, MDB_GET_BOTH);
			if (rc) {
				w->api->cursor_close(c);
				return DIFFERS(
				    "duplicate %u of key %u: %s", dup, key, w->api->strerror(rc));
			}
		}
	}
	while (!(rc = w->api->cursor_get(c, &k, &v, have ? MDB_NEXT : MDB_FIRST)))
		have++;
	w->api->cursor_close(c);
	if (rc != MDB_NOTFOUND || have != want)
		return DIFFERS("%zu duplicates, not %zu (%s)", have, want, w->api->strerror(rc));
	return true;
}

/* Every page of the free list must be readable: walk database 0. */
static bool verify_free_list(struct work *w, MDB_txn *txn, char *why, size_t size)
{
	size_t sum = 0, n = 0;
	MDB_cursor *c;
	MDB_val k, v;
	int rc = w->api->cursor_open(txn, 0, &c);

	if (rc)
		return DIFFERS("free list: %s", w->api->strerror(rc));
	while (!(rc = w->api->cursor_get(c, &k, &v, n++ ? MDB_NEXT : MDB_FIRST))) {
		const size_t *ids = v.mv_data;

		if (k.mv_size != sizeof(size_t) || v.mv_size < (*ids + 1) * sizeof(size_t))
			break;
		for (size_t i = 1; i <= *ids; i++)
			sum += ids[i] < 2;
	}
	w->api->cursor_close(c);
	if (rc != MDB_NOTFOUND || sum)
		return DIFFERS("the free list is damaged (%s)", w->api->strerror(rc));
	return true;
}

bool work_verify(struct work *w, const struct model *m, char *why, size_t size)
{
	MDB_txn *txn;
	int rc = w->api->txn_begin(w->env, NULL, MDB_RDONLY, &txn);
	bool ok;

	if (rc)
		return DIFFERS("begin: %s", w->api->strerror(rc));
	ok = verify_values(w, txn, m, 0, why, size) && verify_values(w, txn, m, 1, why, size) &&
	     verify_dups(w, txn, m, why, size) && verify_free_list(w, txn, why, size);
	w->api->txn_abort(txn);
	return ok;
}
