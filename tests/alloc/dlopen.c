/* SPDX-License-Identifier: BSD-2-Clause
 *
 * dlopen.c LIBRARY - loaded at run time into a process with another malloc, used, closed, and still
 * there: its thread runs, and blocks of its are in use.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	void *(*allocate)(size_t);
	void (*release)(void *);
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	static char *v[3000];

	if (!library) {
		const char *why = dlerror();

		fprintf(stderr, "%s\n", why ? why : "usage: dlopen LIBRARY");
		return why && strstr(why, "static TLS") ? 77 : 1;
	}
	*(void **)&allocate = dlsym(library, "malloc");
	*(void **)&release = dlsym(library, "free");
	if (!allocate || !release || allocate == malloc)
		return 1;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3000; i++)
			memset(v[i] = allocate(20000), 1, 20000);
		for (int i = 0; i < 3000; i++)
			release(v[i]);
		if (round == 0 && dlclose(library))
			return 1;
		free(malloc(100000));
	}
	return 0;
}
