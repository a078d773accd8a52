/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_export.c - the commands that write a bootstrap file: export and synth.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "export.h"
#include "output_file.h"
#include "synth.h"

#define DEFAULT_TXS 40

struct export_job {
	struct chain_db db;
	struct export_range range;
	struct export_result result;
};

static int fill_export(void *ctx, FILE *f, struct chain_error *err)
{
	struct export_job *j = ctx;

	return chain_export(&j->db, &j->range, f, &j->result, err);
}

int cmd_export(char **argv, const struct settings *s)
{
	struct export_job j = { .range = { s->from, s->count, &chain_stop } };
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct out o;
	int rc;

	if (chain_db_open(&j.db, argv[0], &opt, &err))
		return complain(NULL, &err);
	/* Not to leave half a file behind. */
	catch_signals();
	rc = output_file(argv[1], fill_export, &j, &err);
	chain_db_close(&j.db);
	if (rc)
		return complain(NULL, &err);
	/* The file itself went to standard output. */
	if (strcmp(argv[1], "-") == 0)
		return EXIT_DONE;
	if (out_begin(&o, s->json))
		return no_output();
	out_u64(&o, "blocks", j.result.blocks);
	out_u64(&o, "transactions", j.result.txs);
	out_u64(&o, "bytes", j.result.bytes);
	return out_end(&o, true) ? no_output() : EXIT_DONE;
}

struct synth_job {
	struct synth_options opt;
	struct synth_result result;
	bool show;
};

static bool synth_progress(void *ctx, uint64_t done, uint64_t blocks)
{
	const struct synth_job *j = ctx;

	if (j->show && (done % 1000 == 0 || done == blocks))
		fprintf(stderr, "\rblock %" PRIu64 " of %" PRIu64 "  %.1f MB%s", done, blocks,
		    (double)j->result.bytes / 1e6, done == blocks ? "\n" : "");
	return !chain_stop;
}

static int fill_synth(void *ctx, FILE *f, struct chain_error *err)
{
	struct synth_job *j = ctx;

	return chain_synth(&j->opt, f, &j->result, err);
}

int cmd_synth(char **argv, const struct settings *s)
{
	struct synth_job j = { .opt = { .seed = s->seed,
				   .blocks = s->blocks,
				   .outputs = s->outputs,
				   .txs = s->txs ? s->txs : DEFAULT_TXS,
				   .progress = synth_progress } };
	bool to_stdout = strcmp(argv[0], "-") == 0;
	struct chain_error err = { 0 };
	struct out o;

	if (!s->blocks == !s->outputs) {
		fprintf(stderr, "chain: synth: needs --blocks=N or --outputs=N\n");
		return EXIT_USAGE;
	}
	j.opt.ctx = &j;
	/* Whoever reads standard output may draw a line of its own. */
	j.show = !s->no_progress && !to_stdout && isatty(STDERR_FILENO);
	catch_signals();
	if (output_file(argv[0], fill_synth, &j, &err))
		return complain(NULL, &err);
	if (to_stdout)
		return EXIT_DONE;
	if (out_begin(&o, s->json))
		return no_output();
	out_u64(&o, "blocks", j.result.blocks);
	out_u64(&o, "transactions", j.result.txs);
	out_u64(&o, "inputs", j.result.inputs);
	out_u64(&o, "outputs", j.result.outputs);
	out_u64(&o, "bytes", j.result.bytes);
	return out_end(&o, true) ? no_output() : EXIT_DONE;
}
