/* SPDX-License-Identifier: BSD-2-Clause
 *
 * outputs.c - see outputs.h.
 */
#include "outputs.h"

#include <inttypes.h>
#include <string.h>

#include "load.h"

static int print_histogram(struct reader *r, struct out *o, struct chain_error *err)
{
	MDB_cursor *cur = r->cur[OUTPUT_AMOUNTS];
	MDB_val k, v;
	size_t n = 0;
	uint64_t amount;
	int rc;

	out_open(o, "amounts", '[');
	while (!(rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT_NODUP))) {
		rc = k.mv_size == sizeof(amount) ? mdb_cursor_count(cur, &n) : MDB_CORRUPTED;
		if (rc)
			break;
		memcpy(&amount, k.mv_data, sizeof(amount));
		out_open(o, NULL, '{');
		out_u64(o, "amount", amount);
		out_u64(o, "outputs", n);
		out_close(o, '}');
	}
	out_close(o, ']');
	return rc == MDB_NOTFOUND ? 0 : chain_fail_db(err, rc, chain_table_name(OUTPUT_AMOUNTS));
}

static int print_output(
    struct reader *r, uint64_t amount, const MDB_val *v, struct out *o, struct chain_error *err)
{
	size_t due = amount ? ROW_OUTPUT_PLAIN : sizeof(struct row_output);
	struct row_output row;
	struct row_output_tx place;
	int rc;

	if (v->mv_size != due)
		return chain_fail(err, CHAIN_DAMAGED,
		    "table output_amounts: a row of amount %" PRIu64
		    " has %zu bytes where %zu are due",
		    amount, v->mv_size, due);
	memcpy(&row, v->mv_data, due);
	rc = reader_find(
	    r, OUTPUT_TXS, 0, &row.output_id, sizeof(row.output_id), &place, sizeof(place), err);
	if (rc == 0)
		chain_error_set(
		    err, CHAIN_DAMAGED, "table output_txs lacks output %" PRIu64, row.output_id);
	if (rc <= 0)
		return -1;
	out_open(o, NULL, '{');
	out_u64(o, "index", row.index);
	out_u64(o, "output_id", row.output_id);
	out_u64(o, "height", row.height);
	out_u64(o, "unlock_time", row.unlock_time);
	out_hash(o, "key", row.key);
	if (!amount)
		out_hash(o, "commitment", row.commitment);
	out_hash(o, "tx_hash", place.tx_hash);
	out_u64(o, "index_in_tx", place.index);
	out_close(o, '}');
	return 0;
}

static int print_outputs(
    struct reader *r, const struct outputs_query *q, struct out *o, struct chain_error *err)
{
	uint64_t amount = q->amount, from = q->from;
	MDB_cursor *cur = r->cur[OUTPUT_AMOUNTS];
	MDB_val k = { sizeof(amount), &amount }, v = { sizeof(from), &from };
	uint64_t left = q->count ? q->count : DEFAULT_OUTPUTS;
	int rc = mdb_cursor_get(cur, &k, &v, MDB_GET_BOTH);

	if (rc == MDB_NOTFOUND)
		return chain_fail(
		    err, CHAIN_REFUSED, "no output %" PRIu64 " of amount %" PRIu64, from, amount);
	out_u64(o, "amount", amount);
	out_open(o, "outputs", '[');
	while (!rc) {
		if (print_output(r, amount, &v, o, err))
			return -1;
		rc = --left ? mdb_cursor_get(cur, &k, &v, MDB_NEXT_DUP) : MDB_NOTFOUND;
	}
	out_close(o, ']');
	return rc == MDB_NOTFOUND ? 0 : chain_fail_db(err, rc, chain_table_name(OUTPUT_AMOUNTS));
}

int query_outputs(
    struct chain_db *db, const struct outputs_query *q, struct out *o, struct chain_error *err)
{
	struct reader r;
	int rc;

	if (reader_begin(&r, db, err))
		return -1;
	rc = q->all ? print_histogram(&r, o, err) : print_outputs(&r, q, o, err);
	reader_end(&r);
	return rc;
}
