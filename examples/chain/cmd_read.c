/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_read.c - the commands that look things up and print them.
 */
#include "command.h"
#include "outputs.h"
#include "query.h"

typedef int (*query_fn)(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err);

static int read_store(query_fn query, char **argv, const char *path, const struct settings *s)
{
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct chain_db db;
	struct out o;
	int rc;

	if (chain_db_open(&db, path, &opt, &err))
		return complain(NULL, &err);
	if (db.no_lock)
		fprintf(stderr,
		    "chain: %s: no lock file can be used here; nobody may write meanwhile\n", path);
	if (out_begin(&o, s->json)) {
		chain_db_close(&db);
		return no_output();
	}
	rc = query(&db, argv, s, &o, &err);
	chain_db_close(&db);
	if (out_end(&o, rc == 0))
		return no_output();
	return rc ? complain(NULL, &err) : EXIT_DONE;
}

static int info(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	return query_info(db, o, err);
}

static int block(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	return query_block(db, argv[0], o, err);
}

static int tx(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	return query_tx(db, argv[0], o, err);
}

static int verify(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	return verify_and_print(db, o, err);
}

static int pool(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	return query_pool(db, o, err);
}

static int outputs(struct chain_db *db, char **argv, const struct settings *s, struct out *o,
    struct chain_error *err)
{
	struct outputs_query q = {
		.all = !s->by_amount, .amount = s->amount, .from = s->from, .count = s->count
	};

	return query_outputs(db, &q, o, err);
}

int cmd_info(char **argv, const struct settings *s)
{
	return read_store(info, argv, argv[0], s);
}

int cmd_block(char **argv, const struct settings *s)
{
	return read_store(block, argv, argv[1], s);
}

int cmd_tx(char **argv, const struct settings *s)
{
	return read_store(tx, argv, argv[1], s);
}

int cmd_pool(char **argv, const struct settings *s)
{
	return read_store(pool, argv, argv[0], s);
}

int cmd_verify(char **argv, const struct settings *s)
{
	return read_store(verify, argv, argv[0], s);
}

int cmd_outputs(char **argv, const struct settings *s)
{
	return read_store(outputs, argv, argv[0], s);
}
