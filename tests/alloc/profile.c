/* SPDX-License-Identifier: BSD-2-Clause
 *
 * profile.c - jemalloc's heap profiler, in this library: what it samples, and whether it can walk the
 * stack. Run with MALLOC_CONF=prof:true,...,prof_prefix:P; leaves a dump in the file P.heap.
 *
 * usage: profile P
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jemalloc/jemalloc.h>

#define BLOCKS 1000
#define BYTES  100000

static void *blocks[BLOCKS];

__attribute__((noinline)) static void allocate(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			exit(1);
		memset(blocks[i], i, 1);
	}
}

int main(int argc, char **argv)
{
	bool on = false;
	size_t n = sizeof(on);
	char name[4096];
	const char *p = name;
	int err;

	if (argc != 2)
		return 2;
	err = mallctl("opt.prof", &on, &n, NULL, 0);
	if (err || !on) {
		fprintf(stderr, "this jemalloc has no heap profiler\n");
		return 77;
	}
	allocate();
	printf("%p\n", (void *)allocate);
	snprintf(name, sizeof(name), "%s.heap", argv[1]);
	err = mallctl("prof.dump", NULL, NULL, &p, sizeof(p));
	if (err) {
		fprintf(stderr, "prof.dump: %s\n", strerror(err));
		return 1;
	}
	return 0;
}
