/* SPDX-License-Identifier: BSD-2-Clause
 *
 * map.c - see map.h.
 *
 * Address space costs nothing until pages are touched: page tables, fork, commits and core dumps go by
 * what is resident or dirty, and the file is sparse or short. So a map is made large once, and never
 * has to grow: growing means to move it, under the feet of whoever reads.
 */
#include "map.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "options.h"
#include "seam.h"
#include "sys.h"

/* LMDB's own choice for a new file: less is never tried. */
#define LEAST (UINT64_C(1) << 20)

/* Environments that are not open and whose program chose a size. Only kept where that decides
 * anything. */
struct chosen {
	struct chosen *next;
	MDB_env *env;
};

static struct chosen *chosen;
static pthread_mutex_t chosen_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t at_most(uint64_t most, int resource, unsigned part)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return most;
	return limit.rlim_cur / part < most ? limit.rlim_cur / part : most;
}

static bool fits(uint64_t size)
{
	void *p;

	if (pgw__sys.map_anon(NULL, size, PROT_NONE, MAP_NORESERVE, &p))
		return false;
	pgw__sys.unmap(p, size);
	return true;
}

uint64_t pgw__map_fitting(uint64_t most, unsigned flags)
{
	uint64_t size = at_most(most, RLIMIT_AS, 2);

	if (flags & MDB_WRITEMAP)
		size = at_most(size, RLIMIT_FSIZE, 1);
	while (size / 2 >= LEAST && !fits(size))
		size /= 2;
	return size & ~(LEAST - 1) ? size & ~(LEAST - 1) : LEAST;
}

int pgw__map_choose(MDB_env *env)
{
	struct chosen *c;

	if (!pgw__options_default()->map_size)
		return 0;
	c = malloc(sizeof(*c));
	if (!c)
		return ENOMEM;
	c->env = env;
	pthread_mutex_lock(&chosen_lock);
	c->next = chosen;
	chosen = c;
	pthread_mutex_unlock(&chosen_lock);
	return 0;
}

/* All of env's are taken out. Were there any? */
static bool take_out(MDB_env *env)
{
	struct chosen **at = &chosen;
	bool any = false;

	if (!pgw__options_default()->map_size)
		return false;
	pthread_mutex_lock(&chosen_lock);
	while (*at) {
		struct chosen *c = *at;

		if (c->env != env) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free(c);
		any = true;
	}
	pthread_mutex_unlock(&chosen_lock);
	return any;
}

void pgw__map_forget(MDB_env *env)
{
	(void)take_out(env);
}

int pgw__map_reserve(MDB_env *env, unsigned flags)
{
	uint64_t most = pgw__options_default()->map_size;

	if (!most || take_out(env))
		return 0;
	return pgw__lmdb_env_set_mapsize(env, pgw__map_fitting(most, flags));
}
