/* SPDX-License-Identifier: BSD-2-Clause
 *
 * command.c - see command.h.
 */
#include "command.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

volatile sig_atomic_t chain_stop;

static void on_signal(int sig)
{
	chain_stop = 1;
}

void catch_signals(void)
{
	struct sigaction act = { .sa_handler = on_signal }, hup;

	act.sa_flags = (int)SA_RESETHAND;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	if (!sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &act, NULL);
}

void explain_file_limit(void)
{
	(void)signal(SIGXFSZ, SIG_IGN);
}

static void on_sigbus(int sig)
{
	static const char text[] = "chain: a page of the store cannot be read: its file was cut "
				   "short, or the disk fails; what was "
				   "committed there is as it was\n";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(EXIT_FAILED);
}

void explain_sigbus(void)
{
	const struct sigaction act = { .sa_handler = on_sigbus };

	sigaction(SIGBUS, &act, NULL);
}

int complain(const char *file, const struct chain_error *err)
{
	if (file && err->kind == CHAIN_INPUT)
		fprintf(stderr, "chain: %s: %s\n", file, err->text);
	else
		fprintf(stderr, "chain: %s\n", err->text);
	return EXIT_FAILED;
}

int no_output(void)
{
	fprintf(stderr, "chain: cannot write the output: %s\n", strerror(errno));
	return EXIT_FAILED;
}

int open_to_write(struct chain_db *db, const char *path, bool create, const struct settings *s,
    struct chain_error *err)
{
	struct chain_db_options opt = { .write = true,
		.existing = !create,
		.writemap = s->writemap,
		.durability = s->durability,
		.map_size = (size_t)s->map_gib << 30 };

	return chain_db_open(db, path, &opt, err);
}

int verify_and_print(struct chain_db *db, struct out *o, struct chain_error *err)
{
	struct verify_result v;

	if (chain_verify(db, &v, err))
		return -1;
	out_open(o, "verified", '{');
	out_u64(o, "blocks", v.blocks);
	out_u64(o, "transactions", v.txs);
	out_u64(o, "outputs", v.outputs);
	out_u64(o, "key_images", v.key_images);
	out_u64(o, "pool_transactions", v.pool_txs);
	out_u64(o, "alternative_blocks", v.alt_blocks);
	out_close(o, '}');
	return 0;
}
