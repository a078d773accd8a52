/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pairs.c N - N pairs of free and malloc of small sizes, for counting instructions.
 */
#include <stdlib.h>

int main(int argc, char **argv)
{
	static void *volatile kept[64];
	long n = argc > 1 ? atol(argv[1]) : 100000;

	for (long i = 0; i < n; i++) {
		long k = i % 64;

		free(kept[k]);
		kept[k] = malloc((size_t)(16 + i * 7 % 240));
	}
	return 0;
}
