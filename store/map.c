/* SPDX-License-Identifier: BSD-2-Clause
 *
 * map.c - see map.h.
 *
 * Address space costs nothing until pages are touched: page tables, fork, commits and core dumps go by
 * what is resident or dirty, and the file is sparse or short. So a map is made large once, and never
 * has to grow.
 *
 * Where a program makes it grow all the same, LMDB unmaps it, under the feet of whoever reads, and wants no
 * transaction to be running. Here it is extended in place, or made anew and the old one kept: both show
 * the same file, and a snapshot does not change. So readers stay where they are, and those that begin use
 * the new one. Which of them still reads in an old map is not known; so all are kept until a resize finds no
 * reader in the table, by which time those that had just read the old address have long been in it.
 */
#include "map.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "env.h"
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

/* A map that LMDB has moved away from. */
struct pgw__left_map {
	struct pgw__left_map *next;
	void *start;
	size_t len;
};

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

void *pgw__map_extend(struct pgw__call *call, size_t len)
{
	void *p;

	if (!call->old_map)
		return MAP_FAILED;
	p = mremap(call->old_map, call->old_len, len, 0);
	if (p != MAP_FAILED)
		call->old_map = NULL;
	return p;
}

bool pgw__map_make_way(struct pgw__call *call)
{
	if (!call->old_map)
		return false;
	(void)munmap(call->old_map, call->old_len);
	call->old_map = NULL;
	return true;
}

static bool has_readers(MDB_env *env)
{
	struct pgw_readers r;

	return pgw_env_readers(env, &r) || r.readers;
}

void pgw__map_left(struct pgw__call *call)
{
	struct pgw__env *e = call->env;
	struct pgw__left_map *left;

	if (!call->old_map)
		return;
	if (e->left && !has_readers(call->lmdb))
		pgw__map_drop_left(e);
	left = malloc(sizeof(*left));
	if (!left)
		return; /* then it stays for good: it costs address space */
	*left =
	    (struct pgw__left_map){ .next = e->left, .start = call->old_map, .len = call->old_len };
	e->left = left;
}

void pgw__map_drop_left(struct pgw__env *e)
{
	while (e->left) {
		struct pgw__left_map *left = e->left;

		e->left = left->next;
		(void)munmap(left->start, left->len);
		free(left);
	}
}
