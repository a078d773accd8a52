/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_import.c - chain import.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "import.h"
#include "progress.h"

static bool progress(void *ctx, const struct import_result *r)
{
	if (chain_stop)
		return false;
	if (ctx)
		progress_draw(ctx, r);
	return true;
}

static void print_commits(struct out *o, const char *name, const struct import_commits *c)
{
	out_open(o, name, '{');
	out_u64(o, "commits", c->n);
	out_real(o, "ms_mean", c->n ? (double)c->ns / 1e6 / (double)c->n : 0);
	out_real(o, "ms_max", (double)c->max_ns / 1e6);
	out_close(o, '}');
}

/* Bytes that this process has handed to write calls; 0 where the kernel does not say. Not write_bytes,
 * the next line there: of a large folio that counts all for a page. */
static uint64_t written_bytes(void)
{
	uint64_t n = 0;
	char line[128];
	FILE *f = fopen("/proc/self/io", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, "wchar: ", 7) == 0)
			n = strtoull(line + 7, NULL, 10);
	fclose(f);
	return n;
}

static void print_import(struct out *o, const struct import_result *r, const struct chain_db *db)
{
	const char *durability = chain_durability_name(db->durability);

	out_u64(o, "from_height", r->start_height);
	out_u64(o, "height", r->height);
	out_u64(o, "blocks", r->blocks);
	out_u64(o, "transactions", r->txs);
	out_u64(o, "outputs", r->outputs);
	out_u64(o, "bytes", r->bytes);
	out_real(o, "seconds", (double)r->elapsed_ns / 1e9);
	out_real(o, "mb_per_s", (double)r->bytes * 1e3 / (double)(r->elapsed_ns + 1));
	if (durability)
		out_text(o, "durability", durability);
	out_u64(o, "commits", r->bulk.n + r->live.n);
	print_commits(o, "bulk", &r->bulk);
	print_commits(o, "live", &r->live);
	out_u64(o, "written_bytes", written_bytes());
	out_open(o, "at_risk", '{');
	out_u64(o, "blocks_max", r->loss.blocks);
	out_real(o, "ms_max", (double)r->loss.ns / 1e6);
	out_close(o, '}');
}

static void warn(const char *name, const struct import_result *r)
{
	if (r->missing)
		fprintf(stderr,
		    "chain: %s: its header speaks of %" PRIu64
		    " blocks more than the file has; it may have been cut off between two\n",
		    name, r->missing);
}

/* Closes db, before anything is printed: who reads that may have gone, and the SIGPIPE that ends us then must
 * not leave the store as if it had crashed. */
static int import_into(
    struct chain_db *db, struct bootstrap *file, const char *name, const struct settings *s)
{
	struct progress line = { 0 };
	bool show = !s->no_progress && isatty(STDERR_FILENO);
	struct import_options opt = { .batch = s->batch,
		.live = s->live,
		.follow = s->follow,
		.progress = progress,
		.ctx = show ? &line : NULL };
	struct import_result r;
	struct chain_error err = { 0 };
	struct out o;
	int code;

	if (out_begin(&o, s->json)) {
		chain_db_close(db);
		return no_output();
	}
	code = chain_import(db, file, &opt, &r, &err) ? EXIT_FAILED : EXIT_DONE;
	progress_end(&line);
	print_import(&o, &r, db);
	engine_print(&o, db);
	if (code == EXIT_DONE && r.interrupted)
		code = EXIT_STOPPED;
	if (code == EXIT_DONE && s->verify && verify_and_print(db, &o, &err))
		code = EXIT_FAILED;
	chain_db_close(db);
	if (out_end(&o, true))
		return no_output();
	warn(name, &r);
	if (code == EXIT_FAILED) {
		complain(name, &err);
		fprintf(stderr, "chain: the store holds the blocks below %" PRIu64 "\n", r.height);
	}
	return code;
}

int cmd_import(char **argv, const struct settings *s)
{
	struct chain_error err = { 0 };
	struct bootstrap file;
	struct chain_db db;
	int code;

	if (bootstrap_open(&file, argv[0], &err))
		return complain(argv[0], &err);
	if (s->follow && file.stream) {
		chain_error_set(&err, CHAIN_REFUSED,
		    "%s: a pipe is read to its end; --follow is for files", argv[0]);
		bootstrap_close(&file);
		return complain(argv[0], &err);
	}
	if (open_to_write(&db, argv[1], true, s, &err)) {
		bootstrap_close(&file);
		return complain(argv[0], &err);
	}
	catch_signals();
	code = import_into(&db, &file, argv[0], s);
	bootstrap_close(&file);
	return code;
}
