/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_write.c - the commands that change a store, other than import.
 */
#include <errno.h>

#include "command.h"
#include "pop.h"
#include "prune.h"

typedef int (*change_fn)(struct chain_db *db, uint64_t n, const struct settings *s, struct out *o,
    struct chain_error *err);

/* Opens what is there, changes it, prints what was done and what it cost. */
static int change(change_fn fn, uint64_t n, const char *path, const struct settings *s)
{
	struct chain_error err = { 0 };
	struct chain_db db;
	struct out o;
	int rc;

	if (open_to_write(&db, path, false, s, &err))
		return complain(NULL, &err);
	if (out_begin(&o, s->json)) {
		chain_db_close(&db);
		return no_output();
	}
	rc = fn(&db, n, s, &o, &err);
	if (!rc && !db.live)
		rc = engine_sync(&db, &err);
	engine_print(&o, &db);
	if (!rc && s->verify)
		rc = verify_and_print(&db, &o, &err);
	chain_db_close(&db);
	if (out_end(&o, rc == 0))
		return no_output();
	return rc ? complain(NULL, &err) : EXIT_DONE;
}

static int pop(struct chain_db *db, uint64_t n, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	struct pop_result r;

	if (chain_pop(db, n, &r, err))
		return -1;
	out_u64(o, "height", r.height);
	out_u64(o, "blocks", r.blocks);
	out_u64(o, "transactions", r.txs);
	out_u64(o, "outputs", r.outputs);
	out_u64(o, "key_images", r.key_images);
	return 0;
}

int cmd_pop(char **argv, const struct settings *s)
{
	uint64_t n;
	char *end;

	errno = 0;
	n = strtoull(argv[0], &end, 10);
	if (argv[0][0] < '0' || argv[0][0] > '9' || *end || errno) {
		fprintf(stderr, "chain: pop %s: not a number of blocks\n", argv[0]);
		return EXIT_USAGE;
	}
	return change(pop, n, argv[1], s);
}

static int prune(struct chain_db *db, uint64_t stripe, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	struct prune_result r;

	if (chain_prune(db, (unsigned)stripe, &r, err))
		return -1;
	out_u64(o, "stripe", r.stripe);
	out_u64(o, "pruned", r.txs);
	out_u64(o, "pruned_bytes", r.bytes);
	out_u64(o, "whole", r.kept);
	return 0;
}

int cmd_prune(char **argv, const struct settings *s)
{
	return change(prune, s->stripe, argv[0], s);
}
