/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recover.c - `pagewise recover`: bring an environment back that was not closed, and say what was
 * found.
 */
#include "command.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <json-c/json.h>

#include "environment.h"

static const char usage[] =
    "usage: pagewise recover [--check] [--copy] [--json] ENVIRONMENT\n"
    "\n"
    "Bring an LMDB environment (a directory, or its data file) back that was used in group or\n"
    "relaxed durability and not closed. One that was closed, or is in use, is left alone.\n"
    "\n"
    "  --check  say what would be done, and change nothing\n"
    "  --copy   the file was moved or copied while no process had it open: believe its records\n"
    "  --json   one JSON object\n";

const char *environment_time(uint64_t ns, char out[ENVIRONMENT_TIME])
{
	time_t t = (time_t)(ns / 1000000000u);
	struct tm tm;

	if (!ns || !gmtime_r(&t, &tm))
		return "unknown";
	strftime(out, ENVIRONMENT_TIME, "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out + strlen(out), ENVIRONMENT_TIME - strlen(out), ".%03uZ",
	    (unsigned)(ns / 1000000u % 1000u));
	return out;
}

unsigned environment_flags(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISDIR(st.st_mode) ? PGW_RECOVER_NOSUBDIR : 0;
}

static void print_records(const struct pgw_recover_report *r)
{
	char when[ENVIRONMENT_TIME];

	for (int i = 0; i < 2; i++) {
		const struct pgw_record_report *p = &r->record[i];

		printf("record %d:  %s", i, pgw_record_state_name(p->state));
		if (p->seq)
			printf(", number %" PRIu64 ", transaction %" PRIu64 " of %s", p->seq,
			    p->txnid, environment_time(p->wall_ns, when));
		putchar('\n');
	}
}

static void print_outcome(const struct pgw_recover_report *r, bool check)
{
	const char *would = check ? "would be " : "";
	char when[ENVIRONMENT_TIME];

	switch (r->action) {
	case PGW_RECOVER_KEPT:
		printf("result:    %skept: transaction %" PRIu64 ", nothing is lost\n", would,
		    r->txnid);
		break;
	case PGW_RECOVER_RESTORED:
		printf("result:    %srestored: transaction %" PRIu64 " of %s\n", would, r->txnid,
		    environment_time(r->wall_ns, when));
		printf("lost:      transactions committed after that: at least %" PRIu64 "\n",
		    r->lost_txnids);
		break;
	case PGW_RECOVER_REFUSED:
		printf("result:    refused; nothing was changed\n");
		break;
	default:
		break;
	}
	if (r->reason)
		printf("because:   %s\n", r->reason);
}

void environment_print(const struct pgw_recover_report *r, bool check)
{
	if (!r->fenced) {
		puts("state:     plain LMDB: closed, or never used in group or relaxed durability");
		return;
	}
	printf("state:     fenced: %s\n", r->action == PGW_RECOVER_IN_USE
					      ? "in use, or left by a process while others read it"
					  : r->failed ? "a sync failed, and it was not closed"
						      : "it was not closed");
	printf("newest:    transaction %" PRIu64 "\n", r->newest_txnid);
	if (r->action == PGW_RECOVER_IN_USE)
		return;
	print_records(r);
	print_outcome(r, check);
}

static struct json_object *number(uint64_t n)
{
	return json_object_new_uint64(n);
}

static struct json_object *string_or_null(const char *s)
{
	return s ? json_object_new_string(s) : NULL;
}

static void print_json(const struct pgw_recover_report *r, int rc)
{
	struct json_object *o = json_object_new_object(), *records = json_object_new_array();

	json_object_object_add(o, "fenced", json_object_new_boolean(r->fenced));
	json_object_object_add(o, "failed", json_object_new_boolean(r->failed));
	json_object_object_add(o, "same_cache", json_object_new_boolean(r->same_cache));
	json_object_object_add(o, "newest_txnid", number(r->newest_txnid));
	for (int i = 0; i < 2; i++) {
		const struct pgw_record_report *p = &r->record[i];
		struct json_object *record = json_object_new_object();

		json_object_object_add(
		    record, "state", string_or_null(pgw_record_state_name(p->state)));
		json_object_object_add(record, "number", number(p->seq));
		json_object_object_add(record, "txnid", number(p->txnid));
		json_object_object_add(record, "wall_ns", number(p->wall_ns));
		json_object_array_add(records, record);
	}
	json_object_object_add(o, "records", records);
	json_object_object_add(o, "action", string_or_null(pgw_recover_action_name(r->action)));
	json_object_object_add(o, "txnid", number(r->txnid));
	json_object_object_add(o, "wall_ns", number(r->wall_ns));
	json_object_object_add(o, "lost_txnids", number(r->lost_txnids));
	json_object_object_add(o, "reason", string_or_null(r->reason));
	json_object_object_add(o, "error", string_or_null(rc ? pgw_strerror(rc) : NULL));
	puts(json_object_to_json_string_ext(
	    o, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(o);
}

int command_recover(int argc, char **argv)
{
	static const struct option options[] = { { "check", no_argument, NULL, 'c' },
		{ "copy", no_argument, NULL, 'y' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' }, { 0 } };
	struct pgw_recover_report report;
	bool check = false, copy = false, json = false;
	unsigned flags;
	int rc;

	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case 'c':
			check = true;
			break;
		case 'y':
			copy = true;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			return usage_error("recover");
		}
	}
	if (argc - optind != 1) {
		complain("recover takes one environment");
		return usage_error("recover");
	}
	flags = environment_flags(argv[optind]) | (check ? PGW_RECOVER_CHECK : 0) |
		(copy ? PGW_RECOVER_COPY : 0);
	rc = pgw_env_recover(argv[optind], flags, &report);
	if (json)
		print_json(&report, rc);
	else if (!rc || report.fenced)
		environment_print(&report, check);
	if (rc)
		complain("%s: %s", argv[optind], pgw_strerror(rc));
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
