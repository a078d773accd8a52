/* SPDX-License-Identifier: BSD-2-Clause
 *
 * leaf.c - see leaf.h.
 */
#include "leaf.h"

#include <pthread.h>

#include "jemalloc_private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool held; /* by the thread that forks, which has all of jemalloc's locks as well */

/* A leaf covers 1 GiB; nearly always it is there. */
void *__wrap_je_rtree_leaf_elm_lookup_hard(
    void *tsdn, void *rtree, void *ctx, uintptr_t key, bool dependent, bool init_missing)
{
	void *elm = __real_je_rtree_leaf_elm_lookup_hard(tsdn, rtree, ctx, key, dependent, false);

	if (elm || !init_missing)
		return elm;
	pthread_mutex_lock(&lock);
	elm = __real_je_rtree_leaf_elm_lookup_hard(tsdn, rtree, ctx, key, dependent, true);
	pthread_mutex_unlock(&lock);
	return elm;
}

void __wrap_je_base_prefork(void *tsdn, void *base)
{
	if (!held) {
		pthread_mutex_lock(&lock);
		held = true;
	}
	__real_je_base_prefork(tsdn, base);
}

void pgw__leaf_fork_parent(void)
{
	if (!held)
		return;
	held = false;
	pthread_mutex_unlock(&lock);
}

void pgw__leaf_fork_child(void)
{
	if (!held)
		return;
	held = false;
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
