/* SPDX-License-Identifier: BSD-2-Clause
 *
 * abort.c - the library aborts the process in a hook, because the heap is corrupt, and the program's
 * handler of SIGABRT goes on to use memory, as those that write a report of the crash do. Linked to the
 * library; run with MALLOC_CONF=dirty_decay_ms:0, so that the handler gets into the hooks too.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include "cases.h"

#define BYTES ((size_t)4 << 20)

static void report(int sig)
{
	unsigned char *v[20];
	struct pgw_alloc_stats before = stats();

	(void)sig;
	for (size_t i = 0; i < 20; i++) {
		v[i] = malloc((i + 1) << 15);
		if (!v[i])
			_exit(wrong("malloc"));
		memset(v[i], 1, (i + 1) << 15);
	}
	for (size_t i = 0; i < 20; i++)
		free(v[i]);
	if (stats().given == before.given)
		_exit(wrong("nothing came to the hooks"));
	_exit(0);
}

int main(void)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	extent_hooks_t *hooks;
	size_t len = sizeof(hooks);

	if (p == MAP_FAILED || mallctl("arena.0.extent_hooks", &hooks, &len, NULL, 0))
		return wrong("setting up");
	alarm(60); /* instead of hanging */
	signal(SIGABRT, report);
	(void)hooks->dalloc(hooks, p, BYTES, true, 0);
	(void)hooks->dalloc(hooks, p, BYTES, true, 0);
	return wrong("the same memory was given back twice, and taken");
}
