/* SPDX-License-Identifier: BSD-2-Clause
 *
 * extent.c - storage for struct pgw__extent.
 */
#include "extent.h"

#include <sys/mman.h>

#include "sys.h"

#define SLAB_BYTES (64u << 10)

static void put(struct pgw__extent_cache *c, struct pgw__extent *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		TAILQ_INSERT_TAIL(&c->free, &v[i], queue);
}

void pgw__extent_cache_init(struct pgw__extent_cache *c)
{
	TAILQ_INIT(&c->free);
	c->slabs = 0;
	put(c, c->builtin, PGW__EXTENT_BUILTIN);
}

struct pgw__extent *pgw__extent_new(struct pgw__extent_cache *c)
{
	struct pgw__extent *e = TAILQ_FIRST(&c->free);
	void *slab;

	if (!e) {
		/* All of it is written at once, which is a list. */
		if (pgw__sys.map_anon(
			NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_POPULATE, &slab))
			return NULL;
		c->slabs++;
		put(c, slab, SLAB_BYTES / sizeof(*e));
		e = TAILQ_FIRST(&c->free);
	}
	TAILQ_REMOVE(&c->free, e, queue);
	return e;
}

void pgw__extent_free(struct pgw__extent_cache *c, struct pgw__extent *e)
{
	TAILQ_INSERT_HEAD(&c->free, e, queue); /* the warm one first */
}
