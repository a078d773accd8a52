/* SPDX-License-Identifier: BSD-2-Clause
 *
 * growth.c CASE: realloc of large blocks stays in place. Linked to the library.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#include "cases.h"

#define KIB  ((size_t)1 << 10)
#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

/* One move for each size class up to PGW__GROWTH_MIN and 8 MiB, where jemalloc changes the arena, and
 * a few more: jemalloc alone makes 30 to 128 MiB. Up to 23 are made with 5.3.1, for which large sizes
 * are no classes any more, and each step is one. */
#define MOVES_MAX 26

struct block {
	unsigned char *p;
	size_t size, moves;
};

/* Each page carries its number. */
static bool holds(const struct block *b, size_t size, size_t seed)
{
	for (size_t at = 0; at + sizeof(size_t) <= size; at += PAGE)
		if (*(size_t *)(void *)(b->p + at) != at + seed)
			return false;
	return true;
}

static bool resize(struct block *b, size_t size, size_t seed)
{
	unsigned char *p = realloc(b->p, size);
	size_t from = b->size < size ? b->size : size;

	if (!p)
		return false;
	b->moves += b->p && p != b->p;
	b->p = p;
	for (size_t at = (from + PAGE - 1) / PAGE * PAGE; at + sizeof(size_t) <= size; at += PAGE)
		*(size_t *)(void *)(p + at) = at + seed;
	b->size = size;
	return true;
}

/* ---- cases ---- */

static int one(void)
{
	struct block b = { NULL, 0, 0 };
	size_t before = mappings();

	for (size_t size = 64 * KIB; size <= 128 * MIB; size += 64 * KIB)
		if (!resize(&b, size, 1))
			return wrong("realloc");
	if (!holds(&b, b.size, 1))
		return wrong("contents");
	fprintf(stderr, "%zu moves, %zu mappings more\n", b.moves, mappings() - before);
	if (b.moves > MOVES_MAX)
		return wrong("the block was moved too often");
	if (!stats().grown || !stats().head_rooms)
		return wrong("nothing grew in place");
	if (mappings() > before + 8)
		return wrong("too many mappings");
	free(b.p);
	return 0;
}

/* Blocks that are in each other's way everywhere else. */
static int several(void)
{
	enum { N = 8 };
	struct block b[N] = { { NULL, 0, 0 } };

	for (size_t size = 64 * KIB; size <= 24 * MIB; size += 64 * KIB)
		for (size_t i = 0; i < N; i++)
			if (!resize(&b[i], size, i))
				return wrong("realloc");
	for (size_t i = 0; i < N; i++) {
		if (!holds(&b[i], b[i].size, i))
			return wrong("contents");
		if (b[i].moves > MOVES_MAX)
			return wrong("a block was moved too often");
		free(b[i].p);
	}
	return 0;
}

/* Up and down, with others coming and going. */
static int up_and_down(void)
{
	struct block b[4] = { { NULL, 0, 0 } };
	void *others[16] = { NULL };
	uint64_t x = 88172645463325252u;

	for (int i = 0; i < 1500; i++) {
		size_t k, size, kept;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		k = x % 4;
		size = (x >> 8) % 3 ? b[k].size + (x >> 16) % (2 * MIB) : (x >> 16) % (16 * MIB);
		size = size % (40 * MIB) + 1;
		kept = size < b[k].size ? size : b[k].size;
		if (!resize(&b[k], size, k))
			return wrong("realloc");
		if (i % 8 == 0 && !holds(&b[k], kept, k))
			return wrong("contents");
		free(others[i % 16]);
		others[i % 16] = malloc((x >> 24) % MIB);
	}
	for (size_t i = 0; i < 16; i++)
		free(others[i]);
	for (size_t i = 0; i < 4; i++) {
		if (b[i].p && !holds(&b[i], b[i].size, i))
			return wrong("contents");
		free(b[i].p);
	}
	return pgw_alloc_purge() ? wrong("purge") : 0;
}

/* What is taken behind a block makes it move, and nothing worse. */
static int in_the_way(void)
{
	struct block b = { NULL, 0, 0 };
	size_t blocked = 0;

	for (size_t size = 64 * KIB; size <= 64 * MIB; size += 64 * KIB) {
		if (!resize(&b, size, 1))
			return wrong("realloc");
		if (size % (8 * MIB))
			continue;
		/* Somebody else maps right behind it, wherever that is. */
		for (size_t at = 0; at <= 16 * MIB; at += PAGE) {
			unsigned char *end = b.p + size - (uintptr_t)(b.p + size) % PAGE;
			void *p = mmap(end + at, PAGE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

			if (p != MAP_FAILED) {
				blocked++;
				break;
			}
		}
	}
	if (!blocked)
		return wrong("nothing could be put in the way");
	return holds(&b, b.size, 1) ? 0 : wrong("contents");
}

/* Head-room counts against no limit. */
static int under_a_limit(void)
{
	struct rlimit r = { 512 * MIB, 512 * MIB };
	struct block b = { NULL, 0, 0 };

	if (setrlimit(RLIMIT_AS, &r)) {
		fprintf(stderr, "no limit can be set\n");
		return 77;
	}
	while (resize(&b, b.size + 64 * KIB, 1))
		continue;
	fprintf(stderr, "grew to %zu MiB\n", b.size / MIB);
	if (!holds(&b, b.size, 1))
		return wrong("contents");
	/* Size classes are an eighth to a quarter apart. */
	return b.size >= 320 * MIB ? 0 : wrong("less than the limit allows");
}

static const struct test_case cases[] = {
	{ "one", one },
	{ "several", several },
	{ "up-and-down", up_and_down },
	{ "in-the-way", in_the_way },
	{ "under-a-limit", under_a_limit },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
