/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_export.c - chain export. The file appears under its name when it is whole and on the disk.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "export.h"

static int cannot(const char *what, const char *path, struct chain_error *err)
{
	return chain_fail(err, CHAIN_SYSTEM, "%s: cannot %s: %s", path, what, strerror(errno));
}

static int write_file(struct chain_db *db, const struct export_range *range, const char *part,
    struct export_result *r, struct chain_error *err)
{
	FILE *f = fopen(part, "wbe");

	if (!f)
		return cannot("create", part, err);
	if (chain_export(db, range, f, r, err)) {
		fclose(f);
		return -1;
	}
	if (fsync(fileno(f))) {
		(void)cannot("sync", part, err);
		fclose(f);
		return -1;
	}
	return fclose(f) ? cannot("close", part, err) : 0;
}

static int export_to(struct chain_db *db, const struct export_range *range, const char *path,
    struct export_result *r, struct chain_error *err)
{
	char part[PATH_MAX];
	int n;

	if (strcmp(path, "-") == 0)
		return chain_export(db, range, stdout, r, err);
	n = snprintf(part, sizeof(part), "%s.part", path);
	if (n < 0 || (size_t)n >= sizeof(part))
		return chain_fail(err, CHAIN_SYSTEM, "%s: name too long", path);
	if (write_file(db, range, part, r, err)) {
		(void)unlink(part);
		return -1;
	}
	return rename(part, path) ? cannot("rename to it", path, err) : 0;
}

static int print_result(const struct export_result *r, const struct settings *s)
{
	struct out o;

	if (out_begin(&o, s->json))
		return no_output();
	out_u64(&o, "blocks", r->blocks);
	out_u64(&o, "transactions", r->txs);
	out_u64(&o, "bytes", r->bytes);
	return out_end(&o, true) ? no_output() : EXIT_DONE;
}

int cmd_export(char **argv, const struct settings *s)
{
	struct export_range range = { s->from, s->count };
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct export_result r;
	struct chain_db db;
	int rc;

	if (chain_db_open(&db, argv[0], &opt, &err))
		return complain(NULL, &err);
	rc = export_to(&db, &range, argv[1], &r, &err);
	chain_db_close(&db);
	if (rc)
		return complain(NULL, &err);
	/* The file itself went to standard output. */
	return strcmp(argv[1], "-") == 0 ? EXIT_DONE : print_result(&r, s);
}
