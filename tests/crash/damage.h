/* SPDX-License-Identifier: BSD-2-Clause
 *
 * damage.h - a sound data file in memory, the ways to its parts, and cuts into them.
 */
#ifndef PGW_TEST_DAMAGE_H
#define PGW_TEST_DAMAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "audit.h"
#include "format.h"

struct image {
	uint8_t *p; /* private: a cut does not reach the file */
	size_t len;
	uint64_t psize;
	uint8_t *meta; /* the current one */
};

static inline void set16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void set32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void set64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline uint8_t *page(const struct image *m, uint64_t n)
{
	return m->p + n * m->psize;
}

static inline uint8_t *offset(uint8_t *pg, int i)
{
	return pg + FMT_PAGE_HEADER + 2 * i;
}

static inline uint8_t *node(uint8_t *pg, int i)
{
	return pg + fmt_u16(offset(pg, i));
}

static inline int node_count(const uint8_t *pg)
{
	return ((int)fmt_page_lower(pg) - (int)FMT_PAGE_HEADER) / 2;
}

static inline uint8_t *value(uint8_t *nd)
{
	return nd + FMT_NODE_HEADER + fmt_node_key_size(nd);
}

static inline void set_child(uint8_t *nd, uint64_t n)
{
	set32(nd, (uint32_t)n);
	set16(nd + 4, (uint16_t)(n >> 32));
}

/* ---- damage_pages.c; what is not there fails the test ---- */

/* The file that the test has made (image.h). munmap() ends it. */
struct image load(void);
/* Main database: one leaf. */
uint8_t *main_leaf(const struct image *m);
/* The 48 bytes of a named database's record. */
uint8_t *record(const struct image *m, const char *name);
uint8_t *root(const struct image *m, const char *name);
/* Leftmost leaf below a page. */
uint8_t *leftmost(const struct image *m, uint8_t *pg);
uint8_t *leaf_of(const struct image *m, const char *name);
/* The first node with these flags in any leaf below the root's children, and its page. */
uint8_t *find_node(const struct image *m, const char *name, uint16_t flags, uint64_t *at);
/* A free-list record with at least two pages: its node and its list. */
uint8_t *free_list(const struct image *m, uint8_t **nd, uint64_t *at);

/* ---- damage_cuts.c ---- */

#define ANY AUDIT_NO_PAGE

/* A class of damage, and a cut that makes some of it. It returns the page that must be named, or ANY. */
struct damage_cut {
	enum audit_class what;
	uint64_t (*cut)(struct image *m);
};

extern const struct damage_cut damage_cuts[];
extern const size_t damage_n_cuts;

uint64_t cut_key_order(struct image *m);

#endif
