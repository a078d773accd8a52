/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c - the chain command.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "import.h"
#include "query.h"
#include "verify.h"

#define DEFAULT_BATCH 100

enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_STOPPED = 3, /* by a signal; what was imported stays */
};

struct settings {
	uint64_t batch;
	uint64_t map_gib;
	bool verify, json, writemap, no_progress;
};

static const char usage[] =
    "usage: chain import FILE DIR [--batch=N] [--verify] [--writemap] [--map-size=GiB]\n"
    "                             [--no-progress] [--json]\n"
    "       chain info DIR [--json]\n"
    "       chain block HEIGHT|HASH DIR [--json]\n"
    "       chain tx HASH DIR [--json]\n"
    "       chain verify DIR [--json]\n"
    "\n"
    "FILE is a Monero bootstrap file (blockchain.raw). DIR holds the database; all commands but\n"
    "import also take a data file that monerod wrote. An import goes on where the last one ended.\n"
    "\n"
    "  --batch=N       blocks a transaction (100)\n"
    "  --verify        verify all of the store after the import\n"
    "  --writemap      write through the memory map\n"
    "  --map-size=GiB  address space to reserve (1024; with --writemap 64)\n"
    "  --no-progress   no progress line on standard error\n"
    "  --json          one JSON object on standard output\n";

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = 1;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double mb_per_s(const struct import_result *r)
{
	return r->elapsed_ns ? (double)r->bytes * 1e3 / (double)r->elapsed_ns : 0;
}

struct progress {
	bool shown;
	uint64_t next_ns;
};

static bool progress(void *ctx, const struct import_result *r)
{
	struct progress *p = ctx;
	double done = r->file_size ? (double)r->file_offset * 100 / (double)r->file_size : 0;

	if (stop)
		return false;
	if (!p || r->elapsed_ns < p->next_ns)
		return true;
	fprintf(stderr,
	    "\r%5.1f %%  block %" PRIu64 "  %" PRIu64 " transactions  %.2f MB/s  commit %.2f ms ",
	    done, r->height, r->txs, mb_per_s(r),
	    r->commits ? (double)r->commit_ns / 1e6 / (double)r->commits : 0);
	p->shown = true;
	p->next_ns = r->elapsed_ns + 200000000;
	return true;
}

static int complain(const char *file, const struct chain_error *err)
{
	if (file && err->kind == CHAIN_INPUT)
		fprintf(stderr, "chain: %s: %s\n", file, err->text);
	else
		fprintf(stderr, "chain: %s\n", err->text);
	return EXIT_FAILED;
}

static int no_output(void)
{
	fprintf(stderr, "chain: cannot write the output: %s\n", strerror(errno));
	return EXIT_FAILED;
}

static int verify(struct chain_db *db, struct out *o, struct chain_error *err)
{
	struct verify_result v;

	if (chain_verify(db, &v, err))
		return -1;
	out_open(o, "verified", '{');
	out_u64(o, "blocks", v.blocks);
	out_u64(o, "transactions", v.txs);
	out_u64(o, "outputs", v.outputs);
	out_u64(o, "key_images", v.key_images);
	out_close(o, '}');
	return 0;
}

static void print_import(struct out *o, const struct import_result *r)
{
	out_u64(o, "from_height", r->start_height);
	out_u64(o, "height", r->height);
	out_u64(o, "blocks", r->blocks);
	out_u64(o, "transactions", r->txs);
	out_u64(o, "outputs", r->outputs);
	out_u64(o, "bytes", r->bytes);
	out_real(o, "seconds", seconds(r->elapsed_ns));
	out_real(o, "mb_per_s", mb_per_s(r));
	out_u64(o, "commits", r->commits);
	out_real(
	    o, "commit_ms_mean", r->commits ? (double)r->commit_ns / 1e6 / (double)r->commits : 0);
	out_real(o, "commit_ms_max", (double)r->commit_max_ns / 1e6);
}

static int import_into(
    struct chain_db *db, struct bootstrap *file, const char *name, const struct settings *s)
{
	struct progress line = { 0 };
	bool show = !s->no_progress && isatty(STDERR_FILENO);
	struct import_options opt = {
		.batch = s->batch, .progress = progress, .ctx = show ? &line : NULL
	};
	struct import_result r;
	struct chain_error err = { 0 };
	struct out o;
	int code;

	if (out_begin(&o, s->json))
		return no_output();
	code = chain_import(db, file, &opt, &r, &err) ? EXIT_FAILED : EXIT_DONE;
	if (line.shown)
		fputc('\n', stderr);
	print_import(&o, &r);
	engine_print(&o, db);
	if (code == EXIT_DONE && r.interrupted)
		code = EXIT_STOPPED;
	if (code == EXIT_DONE && s->verify && verify(db, &o, &err))
		code = EXIT_FAILED;
	if (out_end(&o, true))
		return no_output();
	if (r.missing)
		fprintf(stderr,
		    "chain: %s: its header speaks of %" PRIu64
		    " blocks more than the file has; it may have been cut off between two\n",
		    name, r.missing);
	if (code == EXIT_FAILED) {
		complain(name, &err);
		fprintf(stderr, "chain: the store holds the blocks below %" PRIu64 "\n", r.height);
	}
	return code;
}

static int cmd_import(char **argv, const struct settings *s)
{
	struct chain_db_options opt = { .write = true, .writemap = s->writemap };
	struct sigaction act = { .sa_handler = on_signal };
	struct chain_error err = { 0 };
	struct bootstrap file;
	struct chain_db db;
	int code;

	opt.map_size = (size_t)s->map_gib << 30;
	if (bootstrap_open(&file, argv[0], &err))
		return complain(argv[0], &err);
	if (chain_db_open(&db, argv[1], &opt, &err)) {
		bootstrap_close(&file);
		return complain(argv[0], &err);
	}
	/* A second signal kills. */
	act.sa_flags = (int)SA_RESETHAND;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	code = import_into(&db, &file, argv[0], s);
	chain_db_close(&db);
	bootstrap_close(&file);
	return code;
}

/* The commands that read; the last argument is the database. */
static int cmd_read(const char *command, char **argv, const struct settings *s)
{
	bool by_name = strcmp(command, "block") == 0 || strcmp(command, "tx") == 0;
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct chain_db db;
	struct out o;
	int rc;

	if (chain_db_open(&db, argv[by_name], &opt, &err))
		return complain(NULL, &err);
	if (db.no_lock)
		fprintf(stderr,
		    "chain: %s: no lock file can be used here; nobody may write meanwhile\n",
		    argv[by_name]);
	if (out_begin(&o, s->json)) {
		chain_db_close(&db);
		return no_output();
	}
	if (strcmp(command, "block") == 0)
		rc = query_block(&db, argv[0], &o, &err);
	else if (strcmp(command, "tx") == 0)
		rc = query_tx(&db, argv[0], &o, &err);
	else if (strcmp(command, "verify") == 0)
		rc = verify(&db, &o, &err);
	else
		rc = query_info(&db, &o, &err);
	chain_db_close(&db);
	if (out_end(&o, rc == 0))
		return no_output();
	return rc ? complain(NULL, &err) : EXIT_DONE;
}

static uint64_t number(const char *option, const char *text, uint64_t max)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || v == 0 || v > max) {
		fprintf(stderr, "chain: --%s=%s: not a number from 1 to %" PRIu64 "\n", option,
		    text, max);
		exit(EXIT_USAGE);
	}
	return v;
}

static void parse_options(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{ "batch", required_argument, NULL, 'b' },
		{ "map-size", required_argument, NULL, 'm' },
		{ "verify", no_argument, NULL, 'v' },
		{ "writemap", no_argument, NULL, 'w' },
		{ "no-progress", no_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'b':
			s->batch = number("batch", optarg, UINT32_MAX);
			break;
		case 'm':
			s->map_gib = number("map-size", optarg, SIZE_MAX >> 31);
			break;
		case 'v':
			s->verify = true;
			break;
		case 'w':
			s->writemap = true;
			break;
		case 'n':
			s->no_progress = true;
			break;
		case 'j':
			s->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(EXIT_DONE);
		default:
			fputs(usage, stderr);
			exit(EXIT_USAGE);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int args;
	} commands[] = { { "import", 2 }, { "info", 1 }, { "block", 2 }, { "tx", 2 },
		{ "verify", 1 } };
	struct settings s = { .batch = DEFAULT_BATCH };

	parse_options(argc, argv, &s);
	argv += optind;
	argc -= optind;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (argc != 1 + commands[i].args || strcmp(argv[0], commands[i].name) != 0)
			continue;
		return i == 0 ? cmd_import(argv + 1, &s) : cmd_read(argv[0], argv + 1, &s);
	}
	fputs(usage, stderr);
	return EXIT_USAGE;
}
