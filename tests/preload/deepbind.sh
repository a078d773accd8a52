#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Modules opened with RTLD_DEEPBIND, which look for malloc in the C library first: they share the
# program's malloc, and are found as ever along the RUNPATH of whoever opens them.
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need gcc

mkdir "$tmp/lib" "$tmp/lib/hidden"
cat >"$tmp/module.c" <<'END'
#include <stdlib.h>
#include <string.h>
/* Frees memory of the program's, and gives it memory to free. */
char *swap(char *theirs)
{
	char *mine = malloc(strlen(theirs) + 100);
	strcpy(mine, theirs);
	free(theirs);
	return mine;
}
void *my_free(void)
{
	void (*volatile f)(void *) = free;
	return (void *)f;
}
END
cat >"$tmp/opener.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
void *open_it(const char *name, int mode)
{
	void *volatile h = dlopen(name, mode); /* no jump: the return address is what counts */
	return h;
}
END
cat >"$tmp/program.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
void *open_it(const char *name, int mode);
int main(int argc, char **argv)
{
	int deep = argc > 1 ? 0 : RTLD_DEEPBIND;
	char *(*swap)(char *), *s = malloc(5000);
	void *(*my_free)(void), *h;

	/* Nobody else finds it. */
	if (dlopen("only_there.so", RTLD_NOW | deep)) {
		puts("found without a path");
		return 1;
	}
	dlerror();
	h = open_it("only_there.so", RTLD_NOW | deep);
	if (!h) {
		puts(dlerror());
		return 1;
	}
	if (open_it("$ORIGIN/hidden/only_there.so", RTLD_NOW | RTLD_NOLOAD | deep) != h) {
		puts(dlerror());
		return 1;
	}
	*(void **)&swap = dlsym(h, "swap");
	*(void **)&my_free = dlsym(h, "my_free");
	puts(my_free() == (void *)free ? "one malloc" : "two mallocs");
	if (my_free() != (void *)free)
		return 0;
	strcpy(s, "passed around");
	for (int i = 0; i < 1000; i++)
		s = swap(s);
	puts(s);
	free(s);
	dlclose(h);
	/* A name that is not there leaves its own error, and NULL means the program itself. */
	if (dlopen("not-there.so", RTLD_LAZY | deep) || !strstr(dlerror(), "not-there.so"))
		return 1;
	return dlopen(NULL, RTLD_LAZY) ? 0 : 1;
}
END
origin=\$ORIGIN
(
    cd "$tmp" &&
        gcc -O0 -fno-builtin -shared -fPIC -o lib/hidden/only_there.so module.c &&
        gcc -O0 -shared -fPIC -Wl,--enable-new-dtags,-rpath,"$origin/hidden" -o lib/libopener.so opener.c &&
        gcc -O0 -fno-builtin -o program program.c -Llib -lopener -Wl,-rpath,"$tmp/lib"
) >&2 || fail "the modules cannot be built"

same "$tmp/program"
rm -rf "$tmp"/plain "$tmp"/with.*
same "$tmp/program" without
[ "$(LD_PRELOAD=$preload "$tmp/program")" = "one malloc
passed around" ] || fail "the module has another malloc"
[ "$(PAGEWISE_ALLOC=deepbind:keep LD_PRELOAD=$preload "$tmp/program")" = "two mallocs" ] ||
    fail "deepbind:keep keeps nothing"
exit 0
