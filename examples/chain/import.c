/* SPDX-License-Identifier: BSD-2-Clause
 *
 * import.c - see import.h.
 *
 * Invariants:
 * 1. A commit holds whole blocks only, each checked against the one before it.
 * 2. Where to go on is read from the store alone: a kill at any point loses at most the open batch,
 *    and the next import starts behind the last commit.
 * 3. Between two transactions another process may write (import, pop): a block goes in only where the
 *    store still ends with the block that it was checked against.
 * 4. A block that fails half-way into the tables (a hash or key image that is there already) takes
 *    its transaction down; the batch is then done again up to the block before it.
 */
#include "import.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "load.h"

struct import {
	struct chain_db *db;
	struct bootstrap *file;
	const struct import_options *opt;
	struct import_result *result;
	struct writer writer;
	struct weight_window window;
	struct package package;
	struct tip tip;
	struct horizon horizon;
	uint64_t start_ns;
};

/* How often a file that is followed is looked at. */
#define FOLLOW_NS 50000000

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static bool go_on(struct import *im)
{
	struct import_result *r = im->result;

	const uint64_t now = now_ns();

	r->elapsed_ns = now - im->start_ns;
	r->file_offset = im->file->offset;
	r->file_size = im->file->size;
	/* Also between commits: what the last one left at risk gets older meanwhile. */
	horizon_durable(&im->horizon, engine_durable_txnid(im->db), now, &r->loss);
	if (!im->opt->progress || im->opt->progress(im->opt->ctx, r))
		return true;
	r->interrupted = true;
	return false;
}

/* The next block, parsed and checked against the tip. Results as bootstrap_next(). */
static int next_block(struct import *im, struct chunk *chunk, struct chain_error *err)
{
	struct package *p = &im->package;
	const uint8_t *named;
	int rc = bootstrap_next(im->file, chunk, err);

	if (rc <= 0)
		return rc;
	if (package_parse(p, chunk->body, chunk->body_offset, im->file->major, err) ||
	    package_check(p, &im->tip, err))
		return -1;
	named = block_peek_prev(chunk->after);
	if (named && memcmp(named, p->hash, HASH_SIZE) != 0)
		return chain_fail(err, CHAIN_INPUT,
		    "offset %" PRIu64 " (0x%" PRIx64 "): block %" PRIu64
		    " is not the one that the next block follows: one of both is damaged",
		    p->offset, p->offset, im->tip.height);
	return 1;
}

static void count_block(const struct package *p, uint64_t bytes, struct import_result *r)
{
	r->blocks++;
	r->txs += p->block.n_txs;
	r->outputs += p->block.miner.n_outputs;
	for (size_t i = 0; i < p->block.n_txs; i++)
		r->outputs += p->txs[i].n_outputs;
	r->bytes += bytes;
	r->height = p->block.miner.height + 1;
}

static int commit(struct import *im, struct chain_error *err)
{
	struct import_result *r = im->result;
	struct import_commits *c = im->db->live ? &r->live : &r->bulk;
	uint64_t start = now_ns(), end;
	MDB_envinfo info;

	if (writer_commit(&im->writer, err))
		return -1;
	end = now_ns();
	c->n++;
	c->last_ns = end - start;
	c->ns += c->last_ns;
	if (c->last_ns > c->max_ns)
		c->max_ns = c->last_ns;
	/* Nobody else writes: the last transaction is ours. */
	(void)mdb_env_info(im->db->env, &info);
	horizon_commit(&im->horizon, info.me_last_txnid, r->height, end);
	horizon_durable(&im->horizon, engine_durable_txnid(im->db), end, &r->loss);
	engine_count(im->db, &r->cost);
	return 0;
}

/* Begins a transaction on the tip that the next block will be checked against. */
static int begin(struct import *im, struct chain_error *err)
{
	const struct writer_counts *at = &im->writer.at;

	if (writer_begin(&im->writer, err))
		return -1;
	if (at->height == im->tip.height && memcmp(at->hash, im->tip.hash, HASH_SIZE) == 0)
		return 0;
	writer_abort(&im->writer);
	return chain_fail(err, CHAIN_REFUSED,
	    "another process has changed the store: it has %" PRIu64
	    " blocks where this import was at %" PRIu64 "; import again to go on from there",
	    at->height, im->tip.height);
}

enum outcome {
	MORE,	/* committed; the file goes on */
	END,	/* committed; the file ends, or the caller has enough */
	FAILED, /* what was good is committed */
	LOST,	/* nothing is: the block after the good ones took the transaction down */
};

/* Up to limit blocks in one transaction; *good of them were good. Unless something was committed,
 * everything in im is as before. */
static enum outcome one_batch(
    struct import *im, uint64_t limit, uint64_t *good, struct chain_error *err)
{
	const struct import_result before = *im->result;
	const struct tip tip = im->tip;
	const uint64_t offset = im->file->offset;
	struct chunk chunk;
	int rc = 1;

	*good = 0;
	if (begin(im, err))
		return FAILED;
	while (*good < limit && rc > 0) {
		rc = next_block(im, &chunk, err);
		if (rc <= 0)
			break;
		if (writer_append(&im->writer, &im->package, err)) {
			writer_abort(&im->writer);
			goto lost;
		}
		im->tip = package_tip(&im->package);
		count_block(&im->package, im->file->offset - chunk.offset, im->result);
		++*good;
		if (!go_on(im))
			rc = 0;
	}
	if (*good == 0)
		writer_abort(&im->writer);
	else if (commit(im, err))
		goto lost;
	if (err->kind != CHAIN_OK)
		return FAILED;
	return rc > 0 ? MORE : END;
lost:
	*im->result = before;
	im->tip = tip;
	im->file->offset = offset;
	return LOST;
}

/* One batch; after one that was lost, the good blocks of it once more. */
static enum outcome batch(struct import *im, uint64_t limit, struct chain_error *err)
{
	struct chain_error again = { 0 };
	uint64_t good;
	enum outcome outcome = one_batch(im, limit, &good, err);

	if (outcome == LOST && err->kind == CHAIN_INPUT && good > 0 && !im->file->stream &&
	    one_batch(im, good, &good, &again) >= FAILED)
		*err = again;
	return outcome;
}

/* The file has ended: until there is more. False: no longer wanted. */
static bool wait_for_more(struct import *im)
{
	const struct timespec pause = { .tv_nsec = FOLLOW_NS };

	while (go_on(im)) {
		if (bootstrap_grown(im->file))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* How many blocks the file still has. Nobody appends to a pipe, so its header is to be believed. */
static uint64_t blocks_left(struct import *im)
{
	const struct bootstrap *file = im->file;

	if (!file->stream)
		return bootstrap_count(im->file);
	return file->hint_last < im->tip.height ? 0 : file->hint_last + 1 - im->tip.height;
}

/* Batches until `live` blocks are left in the file; 0: until it ends. */
static enum outcome bulk(struct import *im, uint64_t live, struct chain_error *err)
{
	uint64_t left = live > 0 ? blocks_left(im) : UINT64_MAX, limit = im->opt->batch;
	enum outcome outcome = MORE;

	while (outcome == MORE && left > live) {
		if (limit > left - live)
			limit = left - live;
		outcome = batch(im, limit, err);
		if (live > 0)
			left -= limit;
	}
	return outcome;
}

static int all_batches(struct import *im, struct chain_error *err)
{
	enum outcome outcome = bulk(im, im->opt->live, err);
	bool more = outcome == MORE || (outcome == END && im->opt->follow);

	if (!more || im->result->interrupted)
		return outcome == END ? 0 : -1;
	if (engine_go_live(im->db, err))
		return -1;
	do {
		while (outcome == MORE)
			outcome = batch(im, 1, err);
		if (outcome != END || im->result->interrupted || !im->opt->follow)
			break;
		outcome = MORE;
	} while (wait_for_more(im));
	return outcome >= FAILED ? -1 : 0;
}

/* Parses the chunk at the file's offset, steps behind it and computes its hashes. 0: no chunk. */
static int read_block(struct import *im, struct chain_error *err)
{
	struct chunk chunk;
	int rc = bootstrap_next(im->file, &chunk, err);

	if (rc <= 0)
		return rc;
	if (package_parse(&im->package, chunk.body, chunk.body_offset, im->file->major, err) ||
	    package_hash(&im->package, err))
		return -1;
	return 1;
}

/* Holds the block just read against the one the store has at its height. The hash of a block stands
 * for all blocks before it. */
static int same_as_stored(struct import *im, uint64_t height, struct chain_error *err)
{
	const struct package *p = &im->package;
	struct row_block_info info;
	char file[HEX_SIZE], store[HEX_SIZE];
	struct reader reader;
	int rc;

	if (p->block.miner.height != height)
		return chain_fail(err, CHAIN_INPUT,
		    "offset %" PRIu64 " (0x%" PRIx64 "): block %" PRIu64
		    " stands where block %" PRIu64 " belongs",
		    p->offset, p->offset, p->block.miner.height, height);
	if (reader_begin(&reader, im->db, err))
		return -1;
	rc = reader_block_info(&reader, height, &info, err);
	reader_end(&reader);
	if (rc)
		return -1;
	if (memcmp(info.hash, p->hash, HASH_SIZE) == 0)
		return 0;
	return chain_fail(err, CHAIN_REFUSED,
	    "another chain: block %" PRIu64 " is %s in the file and %s in the store", height,
	    chain_hex(p->hash, file), chain_hex(info.hash, store));
}

/* Steps over the blocks that the store has, and compares the last of them. */
static int skip_stored(struct import *im, struct chain_error *err)
{
	struct bootstrap *file = im->file;
	uint64_t start = file->offset, last, height;
	int rc = read_block(im, err);

	if (rc <= 0)
		return rc;
	height = im->package.block.miner.height;
	if (height > im->tip.height)
		return chain_fail(err, CHAIN_REFUSED,
		    "the file starts at block %" PRIu64 ", but the store needs block %" PRIu64
		    " next",
		    height, im->tip.height);
	file->offset = start;
	if (height == im->tip.height)
		return 0;
	while (height < im->tip.height) {
		last = file->offset;
		rc = bootstrap_skip(file, err);
		if (rc < 0)
			return -1;
		if (rc == 0 && file->stream)
			return chain_fail(err, CHAIN_REFUSED,
			    "the pipe ends with block %" PRIu64 "; the store has %" PRIu64
			    " blocks",
			    height - 1, im->tip.height);
		if (rc == 0)
			break;
		height++;
		start = last;
	}
	file->offset = start;
	return read_block(im, err) < 0 ? -1 : same_as_stored(im, height - 1, err);
}

static int load_tip(struct import *im, struct chain_error *err)
{
	struct reader reader;
	int rc;

	if (reader_begin(&reader, im->db, err))
		return -1;
	rc = reader_tip(&reader, &im->tip, err);
	reader_end(&reader);
	im->result->start_height = im->result->height = im->tip.height;
	im->horizon.durable_height = im->tip.height;
	return rc;
}

int chain_import(struct chain_db *db, struct bootstrap *b, const struct import_options *opt,
    struct import_result *result, struct chain_error *err)
{
	struct import im = {
		.db = db, .file = b, .opt = opt, .result = result, .start_ns = now_ns()
	};
	int rc = -1;

	*result = (struct import_result){ .file_size = b->size };
	b->growing = opt->follow;
	im.writer.db = db;
	im.writer.window = &im.window;
	if (horizon_init(&im.horizon, err) == 0 && load_tip(&im, err) == 0 &&
	    skip_stored(&im, err) == 0)
		rc = all_batches(&im, err);
	/* What was good before an error is durable, too. */
	if (result->bulk.n + result->live.n > 0 && !db->live && engine_sync(db, err))
		rc = -1;
	engine_count(db, &result->cost);
	result->elapsed_ns = now_ns() - im.start_ns;
	result->file_offset = b->offset;
	if (rc == 0 && !result->interrupted && b->hint_last >= im.tip.height)
		result->missing = b->hint_last + 1 - im.tip.height;
	horizon_finish(&im.horizon);
	writer_finish(&im.writer);
	package_finish(&im.package);
	return rc;
}
