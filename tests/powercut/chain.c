/* SPDX-License-Identifier: BSD-2-Clause
 *
 * chain-load - a chain is imported (examples/chain) in the guest whose power is cut.
 *
 * After each block it acknowledges how many blocks the engine says are durable, if that has changed. With
 * nosync nothing is; it then claims what is committed, as a program would that does not know better.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ack.h"
#include "engine.h"
#include "import.h"

#define TXNS_MAX 8192
#define PAUSE_US 2000 /* between blocks, so that a relaxed store makes more checkpoints than one */

static const char usage[] =
    "usage: chain-load TASK DEVICE DIR strict|group|relaxed|none CHAIN-FILE BATCH LIVE\n";

struct load {
	struct chain_db db;
	uint64_t heights[TXNS_MAX]; /* of the chain, by transaction */
	uint64_t committed, acknowledged;
	uint64_t commits; /* seen so far */
};

_Noreturn static void die(const char *what, const struct chain_error *err)
{
	fprintf(stderr, "chain-load: %s: %s\n", what, err->text);
	exit(1);
}

static void acknowledge(struct load *l, uint64_t height)
{
	if (height <= l->acknowledged)
		return;
	ack_send(ACK_DONE, height, NULL, NULL, 0);
	l->acknowledged = height;
}

/* Blocks below `committed` are in transactions that have returned. */
static void look(struct load *l, uint64_t committed)
{
	uint64_t durable = engine_durable_txnid(&l->db);
	MDB_envinfo info;

	if (mdb_env_info(l->db.env, &info) || info.me_last_txnid >= TXNS_MAX)
		fail("more transactions than expected", EOVERFLOW);
	l->committed = committed;
	l->heights[info.me_last_txnid] = committed;
	acknowledge(l, l->db.durability == CHAIN_NOSYNC ? committed : l->heights[durable]);
}

/* Between two blocks. The one just told of is in a transaction that is not committed; it is the first of
 * its transaction if there is a commit more than before. */
static bool between_blocks(void *ctx, const struct import_result *r)
{
	struct load *l = ctx;
	uint64_t commits = r->bulk.n + r->live.n;

	if (commits != l->commits)
		l->committed = r->height - 1;
	l->commits = commits;
	look(l, l->committed);
	usleep(PAUSE_US);
	return true;
}

static void print_cost(const struct load *l, const struct import_result *r)
{
	printf("%" PRIu64 " blocks, %" PRIu64 " commits, %" PRIu64 " barriers, at risk %" PRIu64
	       " blocks\n",
	    r->blocks, l->commits, r->cost.barriers, r->loss.blocks);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct chain_db_options how = { .write = true };
	struct import_options opt = { .progress = between_blocks };
	struct chain_error err = { 0 };
	struct import_result result;
	struct bootstrap file;
	static struct load l;

	if (argc != 8) {
		fputs(usage, stderr);
		return 2;
	}
	if (!strcmp(argv[4], "none"))
		how.durability = CHAIN_NOSYNC;
	else if (!chain_durability_parse(argv[4], &how.durability))
		fail(argv[4], EINVAL);
	opt.batch = strtoull(argv[6], NULL, 0);
	opt.live = strtoull(argv[7], NULL, 0);
	opt.ctx = &l;
	ack_open(argv[2], strtoull(argv[1], NULL, 0));
	if (chain_db_open(&l.db, argv[3], &how, &err) || bootstrap_open(&file, argv[5], &err))
		die("open", &err);
	ack_send(ACK_START, 0, NULL, NULL, 0);
	if (chain_import(&l.db, &file, &opt, &result, &err))
		die("import", &err);
	look(&l, result.height);
	print_cost(&l, &result);
	_exit(0); /* not closed: the power goes while it runs */
}
