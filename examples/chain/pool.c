/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pool.c - see pool.h.
 */
#include "pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

static int damaged(
    enum chain_table t, const uint8_t *hash, const char *what, struct chain_error *err)
{
	char hex[HEX_SIZE];

	return chain_fail(err, CHAIN_DAMAGED, "table %s, row %s: %s", chain_table_name(t),
	    chain_hex(hash, hex), what);
}

/* ---- walking ---- */

typedef int (*row_fn)(
    struct reader *r, const uint8_t *hash, struct span row, void *ctx, struct chain_error *err);

/* Calls fn for each row of a table that is keyed by hash. */
static int each_row(struct reader *r, enum chain_table t, row_fn fn, void *ctx, uint64_t *n,
    struct chain_error *err)
{
	MDB_cursor *cur;
	MDB_val k, v;
	int rc, bad = 0;

	*n = 0;
	if (!r->db->present[t])
		return 0;
	rc = mdb_cursor_open(r->txn, r->db->dbi[t], &cur);
	if (rc)
		return chain_fail_db(err, rc, chain_table_name(t));
	while (!bad && !(rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT))) {
		if (k.mv_size != HASH_SIZE)
			bad = chain_fail(err, CHAIN_DAMAGED,
			    "table %s: a key of %zu bytes where a hash is due", chain_table_name(t),
			    k.mv_size);
		else
			bad = fn(r, k.mv_data, (struct span){ v.mv_data, v.mv_size }, ctx, err);
		++*n;
	}
	mdb_cursor_close(cur);
	if (bad)
		return -1;
	return rc == MDB_NOTFOUND ? 0 : chain_fail_db(err, rc, chain_table_name(t));
}

static int rows_of(struct reader *r, enum chain_table t, uint64_t *n, struct chain_error *err)
{
	*n = 0;
	return r->db->present[t] ? chain_rows(r->txn, r->db, t, n, err) : 0;
}

/* ---- transactions ---- */

struct tx_walk {
	pool_tx_fn visit;
	void *ctx;
};

static int find_blob(
    struct reader *r, const uint8_t *hash, struct span *blob, struct chain_error *err)
{
	MDB_val k = { HASH_SIZE, (void *)hash }, v;
	int rc = r->db->present[TXPOOL_BLOB] ? mdb_get(r->txn, r->db->dbi[TXPOOL_BLOB], &k, &v)
					     : MDB_NOTFOUND;

	if (rc == MDB_NOTFOUND)
		return damaged(TXPOOL_BLOB, hash, "it is missing", err);
	if (rc)
		return chain_fail_db(err, rc, chain_table_name(TXPOOL_BLOB));
	*blob = (struct span){ v.mv_data, v.mv_size };
	return 0;
}

static int parse_tx(struct span blob, struct pool_tx *p, struct chain_error *err)
{
	struct cursor c;

	cursor_init(&c, blob.p, blob.n, 0);
	if (p->meta.flags & POOL_PRUNED) {
		tx_parse_pruned(&c, false, &p->tx);
		p->tx.stub = true;
	} else {
		tx_parse(&c, false, &p->tx);
	}
	cursor_end(&c, "transaction");
	return cursor_ok(&c) ? 0 : damaged(TXPOOL_BLOB, p->hash, c.why, err);
}

/* Of a pruned one neither hash nor weight can be computed. */
static int check_tx(const struct pool_tx *p, struct chain_error *err)
{
	uint8_t prunable[HASH_SIZE], hash[HASH_SIZE];

	if (p->tx.stub)
		return 0;
	hash_prunable(&p->tx, prunable);
	hash_tx(&p->tx, prunable, hash);
	if (memcmp(hash, p->hash, HASH_SIZE) != 0)
		return damaged(TXPOOL_BLOB, p->hash, "the transaction has another hash", err);
	if (p->meta.weight != tx_weight(&p->tx))
		return damaged(TXPOOL_META, p->hash, "the weight is not the transaction's", err);
	return p->meta.fee == p->tx.fee
		   ? 0
		   : damaged(TXPOOL_META, p->hash, "the fee is not the transaction's", err);
}

static int visit_tx(
    struct reader *r, const uint8_t *hash, struct span row, void *ctx, struct chain_error *err)
{
	struct tx_walk *walk = ctx;
	struct pool_tx p = { .hash = hash };
	struct span blob;

	if (row.n != sizeof(p.meta))
		return damaged(TXPOOL_META, hash, "it does not have 192 bytes", err);
	memcpy(&p.meta, row.p, sizeof(p.meta));
	if (find_blob(r, hash, &blob, err) || parse_tx(blob, &p, err) || check_tx(&p, err))
		return -1;
	p.bytes = blob.n;
	if (walk->visit)
		walk->visit(walk->ctx, &p);
	return 0;
}

int pool_each_tx(
    struct reader *r, pool_tx_fn visit, void *ctx, uint64_t *n, struct chain_error *err)
{
	struct tx_walk walk = { visit, ctx };
	uint64_t blobs;

	if (rows_of(r, TXPOOL_BLOB, &blobs, err) ||
	    each_row(r, TXPOOL_META, visit_tx, &walk, n, err))
		return -1;
	if (blobs != *n) /* each that is known of was found: there are others */
		return chain_fail(err, CHAIN_DAMAGED,
		    "table %s has %" PRIu64 " rows, and table %s has %" PRIu64,
		    chain_table_name(TXPOOL_BLOB), blobs, chain_table_name(TXPOOL_META), *n);
	return 0;
}

/* ---- blocks ---- */

struct block_walk {
	alt_block_fn visit;
	void *ctx;
	uint8_t *scratch; /* of hash_block() */
	size_t room;
};

static int alt_hash(struct block_walk *walk, const struct block *b, uint8_t hash[HASH_SIZE],
    struct chain_error *err)
{
	uint8_t none[HASH_SIZE], miner[HASH_SIZE];

	if (b->n_txs >= walk->room) {
		uint8_t *more = reallocarray(walk->scratch, b->n_txs + 1, HASH_SIZE);

		if (!more)
			return chain_fail(err, CHAIN_SYSTEM, "no memory for %zu hashes", b->n_txs);
		walk->scratch = more;
		walk->room = b->n_txs + 1;
	}
	hash_prunable(&b->miner, none);
	hash_tx(&b->miner, none, miner);
	hash_block(b, miner, walk->scratch, hash);
	return 0;
}

static int visit_block(
    struct reader *r, const uint8_t *hash, struct span row, void *ctx, struct chain_error *err)
{
	struct block_walk *walk = ctx;
	struct alt_block b = { .hash = hash };
	uint8_t computed[HASH_SIZE];
	struct cursor c;

	if (row.n < sizeof(b.row))
		return damaged(ALT_BLOCKS, hash, "it does not have 40 bytes and a block", err);
	memcpy(&b.row, row.p, sizeof(b.row));
	cursor_init(&c, row.p + sizeof(b.row), row.n - sizeof(b.row), 0);
	block_parse(&c, &b.block);
	cursor_end(&c, "block");
	if (!cursor_ok(&c))
		return damaged(ALT_BLOCKS, hash, c.why, err);
	if (alt_hash(walk, &b.block, computed, err))
		return -1;
	if (memcmp(computed, hash, HASH_SIZE) != 0)
		return damaged(ALT_BLOCKS, hash, "the block has another hash", err);
	if (b.row.height != b.block.miner.height)
		return damaged(ALT_BLOCKS, hash, "the height is not the block's", err);
	if (walk->visit)
		walk->visit(walk->ctx, &b);
	return 0;
}

int pool_each_alt_block(
    struct reader *r, alt_block_fn visit, void *ctx, uint64_t *n, struct chain_error *err)
{
	struct block_walk walk = { .visit = visit, .ctx = ctx };
	int rc = each_row(r, ALT_BLOCKS, visit_block, &walk, n, err);

	free(walk.scratch);
	return rc;
}

/* ---- taking out ---- */

static int drop(MDB_txn *txn, struct chain_db *db, enum chain_table t, const uint8_t *hash,
    struct chain_error *err)
{
	MDB_val k = { HASH_SIZE, (void *)hash };
	int rc = db->present[t] ? mdb_del(txn, db->dbi[t], &k, NULL) : 0;

	return rc && rc != MDB_NOTFOUND ? chain_fail_db(err, rc, chain_table_name(t)) : 0;
}

int pool_drop_tx(
    MDB_txn *txn, struct chain_db *db, const uint8_t hash[HASH_SIZE], struct chain_error *err)
{
	return drop(txn, db, TXPOOL_META, hash, err) || drop(txn, db, TXPOOL_BLOB, hash, err) ? -1
											      : 0;
}

int pool_drop_block(
    MDB_txn *txn, struct chain_db *db, const uint8_t hash[HASH_SIZE], struct chain_error *err)
{
	return drop(txn, db, ALT_BLOCKS, hash, err);
}
