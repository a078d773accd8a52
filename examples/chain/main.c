/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c - the chain command: options, and which command.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "prune.h"
#include "standard_numbers.h"

#define DEFAULT_BATCH 100

static const char usage[] =
    "usage: chain import FILE DIR [--durability=MODE] [--batch=N] [--live=N] [--follow] "
    "[--verify]\n"
    "                    [--writemap] [--map-size=GiB] [--no-progress] [--json]\n"
    "       chain info DIR [--json]\n"
    "       chain block HEIGHT|HASH DIR [--json]\n"
    "       chain tx HASH DIR [--json]\n"
    "       chain outputs DIR [--amount=N [--from=INDEX] [--count=N]] [--json]\n"
    "       chain pool DIR [--json]\n"
    "       chain verify DIR [--json]\n"
    "       chain serve DIR SOCKET [--workers=N]\n"
    "       chain pop N DIR [--durability=MODE] [--verify] [--json]\n"
    "       chain prune DIR [--stripe=N] [--durability=MODE] [--verify] [--json]\n"
    "       chain export DIR FILE [--from=HEIGHT] [--count=N] [--json]\n"
    "       chain synth FILE --blocks=N|--outputs=N [--txs=N] [--seed=N] [--no-progress] [--json]\n"
    "\n"
    "FILE is a Monero bootstrap file (blockchain.raw), - for standard input. DIR holds the\n"
    "database; commands that read also take a data file that monerod wrote. An import goes on "
    "where\n"
    "the last one ended.\n"
    "\n"
    "  --durability=MODE  strict, group, relaxed or nosync: how durable a commit is\n"
    "  --batch=N          blocks a transaction (100)\n"
    "  --live=N           a durable commit for each of the last N blocks of the file\n"
    "  --follow           at the end of the file wait for more, and commit each block durably\n"
    "  --amount=N         outputs of this amount, 0 for hidden ones; without it, how many of each\n"
    "  --stripe=N         the eighth of old blocks that is kept whole, 1 to 8 (any)\n"
    "  --from=N --count=N what to start with, and how many (0, all)\n"
    "  --blocks=N --outputs=N --txs=N --seed=N\n"
    "                     a synthetic chain of so many blocks or outputs, with N transactions a\n"
    "                     block on average (40)\n"
    "  --workers=N        processes that answer (4)\n"
    "  --verify           verify all of the store after the import\n"
    "  --writemap         write through the memory map\n"
    "  --map-size=GiB     address space to reserve (1024; with --writemap 64)\n"
    "  --no-progress      no progress line on standard error\n"
    "  --json             one JSON object on standard output\n";

static uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || v < min || v > max) {
		fprintf(stderr, "chain: --%s=%s: not a number from %" PRIu64 " to %" PRIu64 "\n",
		    option, text, min, max);
		exit(EXIT_USAGE);
	}
	return v;
}

static void set_durability(struct settings *s, const char *name)
{
	if (chain_durability_parse(name, &s->durability))
		return;
	fprintf(
	    stderr, "chain: --durability=%s: not one of strict, group, relaxed, nosync\n", name);
	exit(EXIT_USAGE);
}

static void set(struct settings *s, int option)
{
	switch (option) {
	case 'd':
		set_durability(s, optarg);
		break;
	case 'b':
		s->batch = number("batch", optarg, 1, UINT32_MAX);
		break;
	case 'l':
		s->live = number("live", optarg, 1, UINT32_MAX);
		break;
	case 'f':
		s->follow = true;
		break;
	case 'F':
		s->from = number("from", optarg, 0, UINT64_MAX);
		break;
	case 'c':
		s->count = number("count", optarg, 1, UINT64_MAX);
		break;
	case 'a':
		s->amount = number("amount", optarg, 0, UINT64_MAX);
		s->by_amount = true;
		break;
	case 's':
		s->stripe = number("stripe", optarg, 1, PRUNE_STRIPES);
		break;
	case 'B':
		s->blocks = number("blocks", optarg, 1, UINT32_MAX);
		break;
	case 'o':
		s->outputs = number("outputs", optarg, 1, UINT64_MAX / 2);
		break;
	case 't':
		s->txs = number("txs", optarg, 1, 1000);
		break;
	case 'e':
		s->seed = number("seed", optarg, 0, UINT64_MAX);
		break;
	case 'W':
		s->workers = number("workers", optarg, 1, WORKERS_MAX);
		break;
	case 'm':
		s->map_gib = number("map-size", optarg, 1, SIZE_MAX >> 31);
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

static void parse_options(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{ "durability", required_argument, NULL, 'd' },
		{ "batch", required_argument, NULL, 'b' },
		{ "live", required_argument, NULL, 'l' },
		{ "follow", no_argument, NULL, 'f' },
		{ "from", required_argument, NULL, 'F' },
		{ "count", required_argument, NULL, 'c' },
		{ "amount", required_argument, NULL, 'a' },
		{ "stripe", required_argument, NULL, 's' },
		{ "blocks", required_argument, NULL, 'B' },
		{ "outputs", required_argument, NULL, 'o' },
		{ "txs", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 'e' },
		{ "workers", required_argument, NULL, 'W' },
		{ "map-size", required_argument, NULL, 'm' },
		{ "verify", no_argument, NULL, 'v' },
		{ "writemap", no_argument, NULL, 'w' },
		{ "no-progress", no_argument, NULL, 'n' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		set(s, c);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int args;
		int (*run)(char **argv, const struct settings *s);
	} commands[] = {
		{ "import", 2, cmd_import },
		{ "info", 1, cmd_info },
		{ "block", 2, cmd_block },
		{ "tx", 2, cmd_tx },
		{ "outputs", 1, cmd_outputs },
		{ "pool", 1, cmd_pool },
		{ "verify", 1, cmd_verify },
		{ "pop", 2, cmd_pop },
		{ "prune", 1, cmd_prune },
		{ "export", 2, cmd_export },
		{ "serve", 2, cmd_serve },
		{ "synth", 1, cmd_synth },
	};
	struct settings s = { .batch = DEFAULT_BATCH };

	hold_standard_numbers();
	explain_sigbus();
	explain_file_limit();
	parse_options(argc, argv, &s);
	argv += optind;
	argc -= optind;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc == 1 + commands[i].args && strcmp(argv[0], commands[i].name) == 0)
			return commands[i].run(argv + 1, &s);
	fputs(usage, stderr);
	return EXIT_USAGE;
}
