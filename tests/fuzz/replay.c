/* SPDX-License-Identifier: BSD-2-Clause
 *
 * replay.c - runs a fuzz target over the files of a directory, in builds without libFuzzer.
 */
#include "fuzz.h"

#include <dirent.h>
#include <string.h>

static void replay(const char *dir, const char *name)
{
	static uint8_t data[1 << 16];
	char path[4096];
	uint8_t *copy;
	size_t size;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	CHECK(f);
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	copy = malloc(size ? size : 1); /* exactly as long, for sanitizers to see its end */
	CHECK(copy);
	memcpy(copy, data, size);
	fprintf(stderr, "%s\n", name); /* the last one is it, if this aborts */
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	struct dirent **list;
	int files;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	files = scandir(argv[1], &list, not_hidden, alphasort);
	CHECK(files > 0);
	for (int i = 0; i < files; i++) {
		replay(argv[1], list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return 0;
}
