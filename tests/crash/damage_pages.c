/* SPDX-License-Identifier: BSD-2-Clause
 *
 * damage_pages.c - see damage.h: finding one's way in a data file.
 */
#include "damage.h"

#include "image.h"

struct image load(void)
{
	struct image m;

	m.p = image_map(&m.len);
	m.psize = fmt_u32(m.p + 40);
	m.meta = fmt_u64(m.p + 144) > fmt_u64(m.p + m.psize + 144) ? m.p : m.p + m.psize;
	return m;
}

uint8_t *main_leaf(const struct image *m)
{
	uint8_t *pg = page(m, fmt_u64(m->meta + 88 + 40));

	assert_int_equal(fmt_page_flags(pg), FMT_LEAF);
	return pg;
}

uint8_t *record(const struct image *m, const char *name)
{
	uint8_t *pg = main_leaf(m);

	for (int i = 0; i < node_count(pg); i++) {
		uint8_t *nd = node(pg, i);

		if (fmt_node_key_size(nd) == strlen(name) &&
		    !memcmp(nd + FMT_NODE_HEADER, name, strlen(name)))
			return value(nd);
	}
	fail_msg("no database %s", name);
	return NULL;
}

uint8_t *root(const struct image *m, const char *name)
{
	return page(m, fmt_u64(record(m, name) + 40));
}

uint8_t *leftmost(const struct image *m, uint8_t *pg)
{
	while (fmt_page_flags(pg) == FMT_BRANCH)
		pg = page(m, fmt_node_child(node(pg, 0)));
	return pg;
}

uint8_t *leaf_of(const struct image *m, const char *name)
{
	return leftmost(m, root(m, name));
}

uint8_t *find_node(const struct image *m, const char *name, uint16_t flags, uint64_t *at)
{
	uint8_t *top = root(m, name);
	int n = fmt_page_flags(top) == FMT_BRANCH ? node_count(top) : 1;

	for (int c = 0; c < n; c++) {
		uint8_t *pg = fmt_page_flags(top) == FMT_BRANCH
				  ? leftmost(m, page(m, fmt_node_child(node(top, c))))
				  : top;

		for (int i = 0; i < node_count(pg); i++) {
			if (fmt_node_flags(node(pg, i)) == flags) {
				*at = fmt_page_number(pg);
				return node(pg, i);
			}
		}
	}
	fail_msg("no node with flags %u in %s", flags, name);
	return NULL;
}

uint8_t *free_list(const struct image *m, uint8_t **nd, uint64_t *at)
{
	uint8_t *pg = leftmost(m, page(m, fmt_u64(m->meta + 40 + 40)));

	for (int i = 0; i < node_count(pg); i++) {
		uint8_t *list;

		*nd = node(pg, i);
		list = value(*nd);
		if (fmt_node_flags(*nd) == FMT_BIG)
			list = page(m, fmt_u64(list)) + FMT_PAGE_HEADER;
		if (fmt_u64(list) >= 2) {
			*at = fmt_page_number(pg);
			return list;
		}
	}
	fail_msg("no free-list record with two pages");
	return NULL;
}
