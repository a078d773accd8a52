/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command.h - what the commands of the program share.
 */
#ifndef CHAIN_COMMAND_H
#define CHAIN_COMMAND_H

#include <signal.h>
#include <stdlib.h>

#include "engine.h"
#include "out.h"

enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_STOPPED = 3, /* by a signal; what was imported stays */
};

struct settings {
	enum chain_durability durability;
	uint64_t batch, live;
	uint64_t from, count, amount, stripe;
	uint64_t blocks, outputs, txs, seed; /* of a synthetic chain */
	bool by_amount;			     /* amount was given */
	uint64_t map_gib, workers;
	bool verify, json, writemap, no_progress, follow;
};

/* Each takes its arguments without options, and is an enum exit_code. */
int cmd_import(char **argv, const struct settings *s);
int cmd_info(char **argv, const struct settings *s);
int cmd_block(char **argv, const struct settings *s);
int cmd_tx(char **argv, const struct settings *s);
int cmd_outputs(char **argv, const struct settings *s);
int cmd_export(char **argv, const struct settings *s);
int cmd_serve(char **argv, const struct settings *s);
int cmd_synth(char **argv, const struct settings *s);
int cmd_prune(char **argv, const struct settings *s);
int cmd_pool(char **argv, const struct settings *s);
int cmd_pop(char **argv, const struct settings *s);
int cmd_verify(char **argv, const struct settings *s);

#define WORKERS_MAX 64 /* of serve */

/* Set by SIGINT, SIGTERM and SIGHUP (a terminal that goes away; not under nohup) once catch_signals() was
 * called. A second one kills. */
extern volatile sig_atomic_t chain_stop;
void catch_signals(void);

/* LMDB reads its file through a map, and what cannot be read is SIGBUS: say what that means, and exit with
 * EXIT_FAILED. */
void explain_sigbus(void);

/* A write beyond the limit of the size of files (ulimit -f) is an error, EFBIG, and not a signal that kills. */
void explain_file_limit(void);

/* Both print to standard error and are EXIT_FAILED. file: the input, or NULL. */
int complain(const char *file, const struct chain_error *err);
int no_output(void);

/* Opens the store at path for writing, as s says; create: with what is missing. */
int open_to_write(struct chain_db *db, const char *path, bool create, const struct settings *s,
    struct chain_error *err);

/* Verifies all of the store, and prints what was counted. */
int verify_and_print(struct chain_db *db, struct out *o, struct chain_error *err);

#endif
