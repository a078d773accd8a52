/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dump.c - a process that once used much memory and gave it back: its core dump has what is in use,
 * and not the address space that was given back; and its mappings stay few.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagewise/alloc.h>

#include "coredump.h"

#define PEAK	      ((size_t)768 << 20)
#define BLOCK	      ((size_t)8 << 20)
#define LAST	      ((size_t)48 << 20)
#define KEPT	      ((size_t)64 << 10)
#define DUMPED	      ((size_t)192 << 20) /* far less than the peak, more than all else in the process */
#define MAPPINGS_MORE 40

static char *kept;

static void fail(const char *what, uint64_t n)
{
	fprintf(stderr, "FAIL: %s: %llu\n", what, (unsigned long long)n);
	exit(1);
}

static unsigned mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static void use_and_give_back(void *arg)
{
	static char *v[PEAK / BLOCK];
	unsigned before = mappings();
	struct pgw_alloc_stats s;

	(void)arg;
	for (size_t i = 0; i < PEAK / BLOCK; i++) {
		v[i] = malloc(BLOCK);
		if (!v[i])
			fail("no memory", i);
		for (size_t k = 0; k < BLOCK; k += 4096)
			v[i][k] = 1;
	}
	for (size_t i = 0; i < PEAK / BLOCK; i++)
		free(v[i]);
	if (pgw_alloc_purge())
		fail("not all was given back", 0);
	pgw_alloc_stats_get(&s);
	if (s.hidden_bytes < PEAK / 2)
		fail("bytes hidden", s.hidden_bytes);
	if (mappings() > before + MAPPINGS_MORE)
		fail("mappings", mappings());
	/* What is allocated now is in the dump, also where it comes from hidden space: it is more than the
	 * clean rests of chunks. */
	v[0] = malloc(LAST);
	if (!v[0])
		fail("no memory", 0);
	memset(v[0], 'x', LAST);
	memcpy(kept, &v[0], sizeof(v[0]));
	pgw_alloc_stats_get(&s);
	if (!s.hidden_hits)
		fail("the last block did not come from hidden space", s.hidden_bytes);
}

int main(void)
{
	struct coredump c;
	uint64_t at = 0;
	char block[KEPT];

	kept = malloc(KEPT);
	coredump_make(&c, use_and_give_back, NULL);
	printf("%llu MiB in the dump\n", (unsigned long long)(c.bytes >> 20));
	if (c.bytes > DUMPED)
		fail("bytes in the dump", c.bytes);
	if (!coredump_read(&c, (uint64_t)kept, &at, sizeof(at)))
		fail("a block that was always in use is not in the dump", 0);
	if (!coredump_read(&c, at + LAST - KEPT, block, KEPT) || block[0] != 'x' ||
	    block[KEPT - 1] != 'x')
		fail("the last block is not in the dump", at);
	coredump_remove(&c);
	free(kept);
	return 0;
}
