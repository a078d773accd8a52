/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit - check an LMDB data file without LMDB.
 *
 * Exit status: 0 sound, 1 errors found, 2 wrong use, 3 the file cannot be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"

#define LISTS_MAX 64

static const char usage[] =
    "usage: audit [--json] [--txnid N] [--max N] [--custom-keys DB] [--custom-values DB]... FILE\n"
    "\n"
    "Checks the current snapshot of an LMDB data file (or that of transaction N, if a meta page "
    "has\n"
    "it): every page used once or free once, every page and count as recorded, keys in order.\n"
    "FILE may be a directory with a data.mdb. No process should be writing to it.\n"
    "\n"
    "  --json              one JSON object instead of text\n"
    "  --max N             problems to list (64)\n"
    "  --custom-keys DB    the database DB has a comparison function of its own: do not check the\n"
    "                      order of its keys; * stands for all\n"
    "  --custom-values DB  the same for the order of sorted values\n";

struct arguments {
	const char *path;
	bool json;
	struct audit_options audit;
	const char *keys[LISTS_MAX + 1], *values[LISTS_MAX + 1];
};

static bool parse_number(const char *s, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	return *s >= '0' && *s <= '9' && !*end && !errno;
}

static bool append(const char **list, const char *name)
{
	for (size_t i = 0; i < LISTS_MAX; i++) {
		if (!list[i]) {
			list[i] = name;
			return true;
		}
	}
	fprintf(stderr, "audit: more than %d databases named; use *\n", LISTS_MAX);
	return false;
}

/* False: said why. */
static bool parse(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
		{ "txnid", required_argument, NULL, 't' }, { "max", required_argument, NULL, 'm' },
		{ "custom-keys", required_argument, NULL, 'k' },
		{ "custom-values", required_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' }, { 0 } };
	uint64_t n;
	int c;

	*a = (struct arguments){ 0 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			a->json = true;
			break;
		case 't':
		case 'm':
			if (!parse_number(optarg, &n) || !n) {
				fprintf(stderr, "audit: %s is not a positive number\n", optarg);
				return false;
			}
			if (c == 't')
				a->audit.txnid = n;
			else
				a->audit.max_problems = n;
			break;
		case 'k':
		case 'v':
			if (!append(c == 'k' ? a->keys : a->values, optarg))
				return false;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			return false;
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		return false;
	}
	a->path = argv[optind];
	a->audit.custom_key_order = a->keys;
	a->audit.custom_dup_order = a->values;
	return true;
}

/* The kernel's answer to a page of the map that it cannot read, or that was cut off meanwhile. */
static void unreadable(int sig)
{
	static const char text[] = "audit: the file cannot be read, or was shortened meanwhile\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(3);
}

static int open_data(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), data;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISDIR(st.st_mode))
		return fd;
	data = openat(fd, "data.mdb", O_RDONLY | O_CLOEXEC);
	close(fd);
	return data;
}

static int audit_file(const struct arguments *a)
{
	int fd = open_data(a->path), rc;
	struct audit_report r;
	struct stat st;
	void *map = NULL;

	if (fd < 0 || fstat(fd, &st) ||
	    (st.st_size && (map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)) ==
			       MAP_FAILED)) {
		fprintf(stderr, "audit: %s: %s\n", a->path, strerror(errno));
		return 3;
	}
	signal(SIGBUS, unreadable);
	rc = audit_memory(map, (size_t)st.st_size, &a->audit, &r);
	if (rc) {
		fprintf(stderr, "audit: %s: %s\n", a->path, strerror(-rc));
		return 3;
	}
	if (a->json)
		audit_print_json(stdout, &r);
	else
		audit_print_text(stdout, &r);
	rc = audit_sound(&r) ? 0 : 1;
	audit_finish(&r);
	return rc;
}

int main(int argc, char **argv)
{
	struct arguments a;

	return parse(argc, argv, &a) ? audit_file(&a) : 2;
}
