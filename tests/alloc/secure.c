/* SPDX-License-Identifier: BSD-2-Clause
 *
 * secure.c - a program that runs with more rights than its user takes no settings from the
 * environment. Linked to the library by an absolute path; run with PAGEWISE_ALLOC=age:7777,hooks:off.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <pagewise/alloc.h>

static int wrong(const char *what)
{
	fprintf(stderr, "FAIL: %s\n", what);
	return 1;
}

static uint64_t option(enum pgw_alloc_option o)
{
	uint64_t v = 0;

	return pgw_alloc_option_get(o, &v) ? UINT64_MAX : v;
}

int main(int argc, char **argv)
{
	void *p = malloc(1 << 20);

	if (!p)
		return wrong("malloc");
	memset(p, 1, 1 << 20);
	free(p);
	if (argc == 1) {
		if (option(PGW_ALLOC_AGE) != 7777 || option(PGW_ALLOC_HOOKS) != 0)
			return wrong("the settings are not read at all");
		if (geteuid() != 0) {
			fprintf(stderr, "root is needed to change user ids\n");
			return 77;
		}
		/* What a set-user-ID program finds: another real user. */
		if (setresuid(65534, 0, 0)) {
			fprintf(stderr, "user ids cannot be changed here\n");
			return 77;
		}
		execl("/proc/self/exe", argv[0], "secure", (char *)NULL);
		return wrong("exec");
	}
	if (!getauxval(AT_SECURE)) {
		fprintf(stderr, "the kernel does not call it secure\n");
		return 77;
	}
	if (option(PGW_ALLOC_AGE) == 7777 || option(PGW_ALLOC_HOOKS) != 1)
		return wrong("settings of the user count");
	return pgw_alloc_purge() ? wrong("purge") : 0;
}
