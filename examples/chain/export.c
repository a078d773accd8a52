/* SPDX-License-Identifier: BSD-2-Clause
 *
 * export.c - see export.h.
 */
#include "export.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "bootstrap.h"
#include "varint.h"

#define HEADER_VARINT 1024 /* the header without the magic number */

struct export
{
	struct reader r;
	struct package package;
	struct tip tip;
	uint64_t tx_id; /* of the next block's first transaction */
	FILE *f;
	struct export_result *result;
};

void bootstrap_header(uint64_t first, uint64_t last, uint8_t out[BOOTSTRAP_HEADER_SIZE])
{
	static const uint8_t start[] = { 0x86, 0x15, 0x72, 0x28, /* magic */
		4, 0, 0, 0,					 /* length of the next record */
		1, 0,						 /* format */
		0x80, HEADER_VARINT >> 7 };
	uint8_t *p = out + sizeof(start);

	memset(out, 0, BOOTSTRAP_HEADER_SIZE);
	memcpy(out, start, sizeof(start));
	p += u32_put(p, (uint32_t)(varint_size(first) + varint_size(last) + 1));
	p += varint_put(p, first);
	/* The third number, a file position, is 0 in every file. */
	(void)varint_put(p, last);
}

static int put(struct export *x, const void *data, size_t n, struct chain_error *err)
{
	if (fwrite(data, 1, n, x->f) != n)
		return chain_fail(err, CHAIN_SYSTEM, "cannot write: %s", strerror(errno));
	x->result->bytes += n;
	return 0;
}

static int put_txs(struct export *x, struct chain_error *err)
{
	const struct package *p = &x->package;
	uint8_t count[VARINT_MAX];
	size_t n = varint_put(count, p->block.n_txs);

	if (put(x, count, n, err))
		return -1;
	for (size_t i = 0; i < p->block.n_txs; i++)
		if (put(x, p->txs[i].pruned.p, p->txs[i].pruned.n, err) ||
		    put(x, p->txs[i].prunable.p, p->txs[i].prunable.n, err))
			return -1;
	return 0;
}

static int put_chunk(struct export *x, struct chain_error *err)
{
	const struct package *p = &x->package;
	const struct block *b = &p->block;
	uint8_t word[4], trailer[4 * VARINT_MAX];
	size_t n = 0, length = b->blob.n + varint_size(b->n_txs);

	n += varint_put(trailer + n, p->weight);
	n += varint_put(trailer + n, p->difficulty_high);
	n += varint_put(trailer + n, p->difficulty_low);
	n += varint_put(trailer + n, p->coins);
	for (size_t i = 0; i < b->n_txs; i++)
		length += p->txs[i].pruned.n + p->txs[i].prunable.n;
	length += n;
	if (length > BOOTSTRAP_CHUNK_MAX)
		return chain_fail(err, CHAIN_REFUSED,
		    "block %" PRIu64 " makes a chunk of %zu bytes; the format allows %u",
		    x->tip.height, length, BOOTSTRAP_CHUNK_MAX);
	(void)u32_put(word, (uint32_t)length);
	if (put(x, word, sizeof(word), err) || put(x, b->blob.p, b->blob.n, err) ||
	    put_txs(x, err) || put(x, trailer, n, err))
		return -1;
	x->result->blocks++;
	x->result->txs += b->n_txs;
	return 0;
}

static int export_block(struct export *x, struct chain_error *err)
{
	struct row_block_info info;
	struct package *p = &x->package;

	if (load_package(&x->r, x->tip.height, x->tx_id, p, &info, err) ||
	    package_check(p, &x->tip, err))
		return -1;
	for (size_t i = 0; i < p->block.n_txs; i++)
		if (p->txs[i].stub)
			return chain_fail(err, CHAIN_REFUSED,
			    "block %" PRIu64 " is pruned: its signatures are not in the store",
			    x->tip.height);
	if (memcmp(p->hash, info.hash, HASH_SIZE) != 0)
		return chain_fail(err, CHAIN_DAMAGED,
		    "block %" PRIu64 ": table block_info has another hash", x->tip.height);
	if (put_chunk(x, err))
		return -1;
	x->tx_id += 1 + p->block.n_txs;
	x->tip = package_tip(p);
	return 0;
}

static int export_blocks(
    struct export *x, const struct export_range *range, struct chain_error *err)
{
	uint8_t header[BOOTSTRAP_HEADER_SIZE];
	uint64_t height, end;

	if (chain_rows(x->r.txn, x->r.db, BLOCKS, &height, err))
		return -1;
	if (range->from >= height)
		return chain_fail(err, CHAIN_REFUSED,
		    "no block %" PRIu64 ": the chain has %" PRIu64 " blocks", range->from, height);
	end = range->count && range->count < height - range->from ? range->from + range->count
								  : height;
	if (reader_tip_at(&x->r, range->from, &x->tip, err) ||
	    reader_first_tx(&x->r, range->from, &x->tx_id, err))
		return -1;
	bootstrap_header(range->from, end - 1, header);
	if (put(x, header, sizeof(header), err))
		return -1;
	while (x->tip.height < end) {
		if (range->stop && *range->stop)
			return chain_fail(err, CHAIN_REFUSED,
			    "stopped at block %" PRIu64 " of %" PRIu64, x->tip.height, end);
		if (export_block(x, err))
			return -1;
	}
	if (fflush(x->f))
		return chain_fail(err, CHAIN_SYSTEM, "cannot write: %s", strerror(errno));
	return 0;
}

int chain_export(struct chain_db *db, const struct export_range *range, FILE *f,
    struct export_result *result, struct chain_error *err)
{
	struct export x = { .f = f, .result = result };
	int rc;

	*result = (struct export_result){ 0 };
	if (reader_begin(&x.r, db, err))
		return -1;
	rc = export_blocks(&x, range, err);
	reader_end(&x.r);
	package_finish(&x.package);
	return rc;
}
