/* SPDX-License-Identifier: BSD-2-Clause
 *
 * use.c - a small program built against what was installed, as C and as C++. Prints the versions
 * it was compiled with and linked to, and uses a function of every header of libpagewise.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include <pagewise/pagewise.h>

static int purge(void)
{
	size_t page = pgw_page_size();
	char *p = (char *)mmap(
	    NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 1;
	memset(p, 1, 4 * page);

	struct pgw_range ranges[2] = {
		{ (uint64_t)(uintptr_t)p, page },
		{ (uint64_t)(uintptr_t)(p + 2 * page), page },
	};
	struct pgw_probe probe;

	int bad = pgw_probe(PGW_DONTNEED, &probe) ||
		  pgw_advise(ranges, 2, PGW_DONTNEED, NULL, NULL) ||
		  (pgw_dontneed_zeroes() && (p[0] || p[2 * page])) || !p[page] || !p[3 * page];

	munmap(p, 4 * page);
	return bad;
}

static int sync_file(void)
{
	FILE *file = tmpfile();
	struct pgw_sync_file f;
	struct pgw_ranges dirty;
	int r;

	if (!file || fputs("a few bytes", file) < 0 || fflush(file))
		return 1;
	pgw_ranges_init(&dirty);
	r = pgw_sync_init(&f, fileno(file), NULL, 0, PGW_SYNC_AUTO);
	if (!r)
		r = pgw_ranges_add(&dirty, 0, 11);
	if (!r)
		r = pgw_sync(&f, &dirty, NULL);
	pgw_ranges_finish(&dirty);
	fclose(file);
	return r != 0;
}

int main(void)
{
	struct pgw_stats stats;

	pgw_stats_get(&stats);
	printf("%s %s\n", PGW_VERSION, pgw_version());
	if (purge()) {
		fprintf(stderr, "purge failed\n");
		return 1;
	}
	if (sync_file()) {
		fprintf(stderr, "sync failed\n");
		return 1;
	}
	return 0;
}
