/* SPDX-License-Identifier: BSD-2-Clause
 *
 * prune.c - see prune.h.
 *
 * The seed goes in with the first part: from then on, rows may be missing. Transactions of version 1
 * keep everything, for their hash is over all of it.
 */
#include "prune.h"

#include <string.h>
#include <sys/random.h>

#include "load.h"

/* Blocks a transaction: some thousands of pages. */
#define PART 2000

struct prune {
	struct chain_db *db;
	const struct prune_rule *rule;
	struct prune_result *result;
	MDB_txn *txn;
	uint32_t seed;
	uint64_t height, tx_id, end; /* done up to here; and of the chain */
};

int prune_read_seed(MDB_txn *txn, struct chain_db *db, uint32_t *seed, struct chain_error *err)
{
	*seed = 0;
	return chain_property(txn, db, "pruning_seed", seed, sizeof(*seed), err) < 0 ? -1 : 0;
}

static int set_seed(struct prune *p, unsigned stripe, struct chain_error *err)
{
	uint32_t seed;
	uint8_t any;

	if (prune_read_seed(p->txn, p->db, &seed, err))
		return -1;
	/* Each node another one, so that together they have everything. */
	if (!seed && !stripe) {
		if (getrandom(&any, sizeof(any), 0) != sizeof(any))
			return chain_fail(err, CHAIN_SYSTEM, "no random number for a stripe");
		stripe = 1 + any % PRUNE_STRIPES;
	}
	p->seed = seed ? seed : prune_seed(stripe);
	p->result->stripe = prune_stripe_of(p->seed);
	if (!p->result->stripe || (stripe && stripe != p->result->stripe))
		return chain_fail(err, CHAIN_REFUSED,
		    "the store is pruned already, with stripe %u kept (seed %u)", p->result->stripe,
		    p->seed);
	return chain_set_property(p->txn, p->db, "pruning_seed", &p->seed, sizeof(p->seed), err);
}

static int drop_tip(struct prune *p, struct chain_error *err)
{
	int rc = mdb_drop(p->txn, p->db->dbi[TXS_PRUNABLE_TIP], 0);

	return rc ? chain_fail_db(err, rc, chain_table_name(TXS_PRUNABLE_TIP)) : 0;
}

/* The version stands first in a transaction. */
static int is_version_2(struct prune *p, bool *yes, struct chain_error *err)
{
	MDB_val k = { sizeof(p->tx_id), &p->tx_id }, v;
	int rc = mdb_get(p->txn, p->db->dbi[TXS_PRUNED], &k, &v);

	if (rc)
		return chain_fail_db(err, rc, chain_table_name(TXS_PRUNED));
	*yes = v.mv_size > 0 && *(const uint8_t *)v.mv_data == 2;
	return 0;
}

static int drop_prunable(struct prune *p, struct chain_error *err)
{
	MDB_val k = { sizeof(p->tx_id), &p->tx_id }, v;
	int rc = mdb_get(p->txn, p->db->dbi[TXS_PRUNABLE], &k, &v);

	if (rc == MDB_NOTFOUND)
		return 0;
	if (!rc) {
		p->result->bytes += v.mv_size;
		p->result->txs++;
		p->result->kept--;
		rc = mdb_del(p->txn, p->db->dbi[TXS_PRUNABLE], &k, NULL);
	}
	return rc ? chain_fail_db(err, rc, chain_table_name(TXS_PRUNABLE)) : 0;
}

static int note_tip(struct prune *p, struct chain_error *err)
{
	MDB_val k = { sizeof(p->tx_id), &p->tx_id }, v = { sizeof(p->height), &p->height };
	int rc = mdb_put(p->txn, p->db->dbi[TXS_PRUNABLE_TIP], &k, &v, MDB_APPEND);

	return rc ? chain_fail_db(err, rc, chain_table_name(TXS_PRUNABLE_TIP)) : 0;
}

static int prune_tx(struct prune *p, struct chain_error *err)
{
	bool tip = p->height + p->rule->tip_blocks >= p->end, version_2;

	p->result->kept++;
	if (tip && note_tip(p, err))
		return -1;
	if (tip || !prune_may_lack(p->seed, p->height, p->rule))
		return 0;
	return is_version_2(p, &version_2, err) || (version_2 && drop_prunable(p, err)) ? -1 : 0;
}

/* How many transactions a block has, the miner's included. */
static int count_txs(struct prune *p, uint64_t *n, struct chain_error *err)
{
	MDB_val k = { sizeof(p->height), &p->height }, v;
	int rc = mdb_get(p->txn, p->db->dbi[BLOCKS], &k, &v);
	struct cursor c;
	struct block b;

	if (rc)
		return chain_fail_db(err, rc, chain_table_name(BLOCKS));
	cursor_init(&c, v.mv_data, v.mv_size, 0);
	block_parse(&c, &b);
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_DAMAGED, &c);
	*n = 1 + b.n_txs;
	return 0;
}

static int prune_part(struct prune *p, struct chain_error *err)
{
	uint64_t n = 0;

	for (int i = 0; i < PART && p->height < p->end; i++, p->height++) {
		if (count_txs(p, &n, err))
			return -1;
		for (; n > 0; n--, p->tx_id++)
			if (prune_tx(p, err))
				return -1;
	}
	return 0;
}

static int begin(struct prune *p, struct chain_error *err)
{
	int rc = mdb_txn_begin(p->db->env, NULL, 0, &p->txn);

	return rc ? chain_fail_db(err, rc, "begin") : 0;
}

static int commit(struct prune *p, struct chain_error *err)
{
	int rc = mdb_txn_commit(p->txn);

	return rc ? chain_fail_db(err, rc, "commit") : 0;
}

int chain_prune(
    struct chain_db *db, unsigned stripe, struct prune_result *result, struct chain_error *err)
{
	struct prune p = { .db = db, .rule = &db->prune_rule, .result = result };

	*result = (struct prune_result){ 0 };
	if (!db->present[PROPERTIES] || !db->present[TXS_PRUNABLE_TIP])
		return chain_fail(err, CHAIN_REFUSED,
		    "no tables properties and txs_prunable_tip: an import makes them");
	if (begin(&p, err))
		return -1;
	if (chain_rows(p.txn, db, BLOCKS, &p.end, err) || set_seed(&p, stripe, err) ||
	    drop_tip(&p, err)) {
		mdb_txn_abort(p.txn);
		return -1;
	}
	for (;;) {
		if (prune_part(&p, err)) {
			mdb_txn_abort(p.txn);
			return -1;
		}
		if (commit(&p, err))
			return -1;
		if (p.height == p.end)
			return 0;
		if (begin(&p, err))
			return -1;
	}
}
