/* SPDX-License-Identifier: BSD-2-Clause
 *
 * shape_file SHAPE FILE: make a data file of a shape with stock LMDB (corpus, experiments).
 */
#include <stdio.h>
#include <unistd.h>

#include "shapes.h"

int main(int argc, char **argv)
{
	const struct shape *s = argc == 3 ? shape_find(argv[1]) : NULL;
	char lock[4096];

	if (!s) {
		fprintf(stderr, "usage: shape_file SHAPE FILE; shapes:");
		for (size_t i = 0; i < n_shapes; i++)
			fprintf(stderr, " %s", shapes[i].name);
		fputc('\n', stderr);
		return 2;
	}
	if (shape_create(s, argv[2], 0))
		return 1;
	snprintf(lock, sizeof(lock), "%s-lock", argv[2]);
	unlink(lock);
	return 0;
}
