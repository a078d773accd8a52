/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_write.c - the commands that change a store, other than import.
 */
#include <errno.h>
#include <inttypes.h>

#include "command.h"
#include "pop.h"

static int pop_and_print(struct chain_db *db, uint64_t n, const struct settings *s, struct out *o,
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
	engine_print(o, db);
	return s->verify ? verify_and_print(db, o, err) : 0;
}

int cmd_pop(char **argv, const struct settings *s)
{
	struct chain_error err = { 0 };
	struct chain_db db;
	struct out o;
	uint64_t n;
	char *end;
	int rc;

	errno = 0;
	n = strtoull(argv[0], &end, 10);
	if (argv[0][0] < '0' || argv[0][0] > '9' || *end || errno) {
		fprintf(stderr, "chain: pop %s: not a number of blocks\n", argv[0]);
		return EXIT_USAGE;
	}
	if (open_to_write(&db, argv[1], false, s, &err))
		return complain(NULL, &err);
	if (out_begin(&o, s->json)) {
		chain_db_close(&db);
		return no_output();
	}
	rc = pop_and_print(&db, n, s, &o, &err);
	chain_db_close(&db);
	if (out_end(&o, rc == 0))
		return no_output();
	return rc ? complain(NULL, &err) : EXIT_DONE;
}
