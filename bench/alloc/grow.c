/* SPDX-License-Identifier: BSD-2-Clause
 *
 * grow.c [-s STEP-KIB] [-n BLOCKS] MIB - grow blocks in turn by realloc, each to MIB, writing to every
 * new page. Prints how often a block moved. grow.py measures it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCKS_MAX 64
#define PAGE	   ((size_t)4096)

static char *block[BLOCKS_MAX];

int main(int argc, char **argv)
{
	size_t step = 64, n = 1, most, moves = 0;
	int c;

	while ((c = getopt(argc, argv, "s:n:")) != -1) {
		if (c == 's')
			step = strtoul(optarg, NULL, 10);
		else if (c == 'n')
			n = strtoul(optarg, NULL, 10);
		else
			argc = 0;
	}
	most = optind + 1 == argc ? strtoul(argv[optind], NULL, 10) << 20 : 0;
	if (!most || !step || !n || n > BLOCKS_MAX) {
		fprintf(stderr, "usage: grow [-s STEP-KIB] [-n BLOCKS] MIB\n");
		return 2;
	}
	step <<= 10;
	for (size_t size = step; size <= most; size += step) {
		for (size_t i = 0; i < n; i++) {
			char *p = realloc(block[i], size);

			if (!p) {
				perror("realloc");
				return 1;
			}
			moves += block[i] && p != block[i];
			for (size_t at = size - step; at < size; at += PAGE)
				p[at] = 1;
			block[i] = p;
		}
	}
	printf("%zu\n", moves);
	for (size_t i = 0; i < n; i++)
		free(block[i]);
	return 0;
}
