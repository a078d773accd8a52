/* SPDX-License-Identifier: BSD-2-Clause
 *
 * thp.c never|always|default - MALLOC_CONF=thp:... reaches the memory that we map, wherever it comes
 * from. Linked to the library.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagewise/alloc.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Has the mapping of p the flag (proc(5), VmFlags)? */
static bool has_flag(const void *p, const char *flag)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[1024];
	bool mine = false, has = false;
	unsigned long start, end;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			mine = (uintptr_t)p >= start && (uintptr_t)p < end;
		else if (mine && strncmp(line, "VmFlags:", 8) == 0)
			has = strstr(line, flag);
	}
	fclose(f);
	return has;
}

/* What the system does for everybody: the word in brackets. */
static bool system_is(const char *word)
{
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	char line[128] = "";
	bool is;

	is = f && fgets(line, sizeof(line), f) && strstr(line, word);
	if (f)
		fclose(f);
	return is;
}

static bool check(const void *p, const char *what, bool huge, bool nohuge)
{
	bool h = has_flag(p, " hg"), n = has_flag(p, " nh");

	if (h == huge && n == nohuge)
		return true;
	fprintf(stderr, "FAIL: %s: hugepage %d, nohugepage %d\n", what, h, n);
	return false;
}

int main(int argc, char **argv)
{
	bool never = argc == 2 && strcmp(argv[1], "never") == 0;
	bool always = argc == 2 && strcmp(argv[1], "always") == 0;
	struct pgw_alloc_stats s;
	char *small, *large, *grown = NULL;
	bool ok;

	if (!system_is("[")) {
		fprintf(stderr, "no transparent huge pages here\n");
		return 77;
	}
	/* What the system does anyway is not asked for. */
	if (system_is("[always]") || system_is("[never]"))
		always = false;
	if (system_is("[never]"))
		never = false;
	small = malloc(64 * KIB);
	large = malloc(20 * MIB);
	for (size_t size = 4 * MIB; size <= 24 * MIB; size += MIB)
		grown = realloc(grown, size);
	if (!small || !large || !grown)
		return 1;
	memset(grown + 20 * MIB, 1, MIB);
	ok = check(small, "a small block", always, never) &&
	     check(large + 19 * MIB, "a large block", always, never) &&
	     check(grown + 20 * MIB, "a block that grew", always, never);
	free(large);
	if (pgw_alloc_purge())
		return 1;
	large = malloc(16 * MIB);
	ok = ok && check(large + 15 * MIB, "memory that was purged", always, never);
	pgw_alloc_stats_get(&s);
	if (!s.grown) {
		fprintf(stderr, "FAIL: no block grew in place\n");
		ok = false;
	}
	free(small);
	free(large);
	free(grown);
	return !ok;
}
