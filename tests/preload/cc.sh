#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A parallel build: make, compilers, assembler and linker write the same bytes.
# packages: gcc make
# shellcheck source=tests/preload/lib.sh
. "$(dirname "$0")/lib.sh"
need gcc make

mkdir "$tmp/tree"
for i in 1 2 3 4 5 6 7 8; do
    {
        echo '#include <stdio.h>'
        echo '#include <stdlib.h>'
        echo '#include <string.h>'
        for j in $(seq 1 40); do
            cat <<END
unsigned f${i}_$j(const char *s, unsigned n)
{
	unsigned h = $j;
	for (unsigned i = 0; i < n; i++)
		switch ((s[i] + h) % 7) {
		case 0: h = h * 31 + (unsigned char)s[i]; break;
		case 1: h ^= h << 5; break;
		case 2: h += f${i}_$j(s + i, n / 4); break;
		default: h = (h >> 3) | (h << 29);
		}
	return h;
}
END
        done
    } >"$tmp/tree/f$i.c"
done
{
    cat <<'END'
#include <stdio.h>
int main(void)
{
	const char s[] = "a few bytes to hash";
	unsigned h = 0;
END
    for i in 1 2 3 4 5 6 7 8; do
        echo "	unsigned f${i}_40(const char *, unsigned);"
        echo "	h += f${i}_40(s, sizeof(s));"
    done
    cat <<'END'
	printf("%u\n", h);
	return 0;
}
END
} >"$tmp/tree/main.c"
cat >"$tmp/tree/Makefile" <<'END'
objects = $(patsubst %.c,%.o,$(wildcard *.c))
program: $(objects)
	$(CC) -o $@ $(objects)
END

compile() {
    cp "$tmp"/tree/* . &&
        make -s -j2 CC=gcc CFLAGS='-O2 -frandom-seed=0' program &&
        sha256sum ./*.o program && ./program
}
export -f compile
export tmp
same bash -c compile
