/* SPDX-License-Identifier: BSD-2-Clause
 *
 * damage_cuts.c - see damage.h: one cut for each class of damage, or more. Each returns the page that must be named.
 */
#include "damage.h"

static uint64_t cut_file(struct image *m)
{
	m->len = 100;
	return ANY;
}

static uint64_t cut_magic(struct image *m)
{
	set32(m->p + 16, 0);
	return 0;
}

static uint64_t cut_version(struct image *m)
{
	set32(m->p + m->psize + 20, 0x80000001u);
	return 1;
}

static uint64_t cut_meta_page(struct image *m)
{
	set16(m->p + m->psize + 10, FMT_LEAF);
	return 1;
}

static uint64_t cut_page_size(struct image *m)
{
	set32(m->p + m->psize + 40, 8192);
	return 1;
}

static uint64_t cut_last_page(struct image *m)
{
	set64(m->meta + 136, 0);
	return m->meta == m->p ? 0 : 1;
}

static uint64_t cut_same_txnid(struct image *m)
{
	memcpy(m->p + 144, m->p + m->psize + 144, 8);
	return ANY;
}

static uint64_t cut_slot(struct image *m)
{
	set64(m->meta + 144, fmt_u64(m->meta + 144) + 1);
	return ANY;
}

static uint64_t cut_map_size(struct image *m)
{
	set64(m->meta + 32, m->psize);
	return ANY;
}

static uint64_t cut_range(struct image *m)
{
	set_child(node(root(m, "text"), 1), 1);
	return fmt_page_number(root(m, "text"));
}

static uint64_t cut_eof(struct image *m)
{
	uint64_t last = fmt_u64(m->meta + 136);

	set64(m->meta + 136, last + 10);
	set_child(node(root(m, "text"), 1), last + 5);
	return fmt_page_number(root(m, "text"));
}

static uint64_t cut_twice(struct image *m)
{
	uint8_t *top = root(m, "text");

	set_child(node(top, 1), fmt_node_child(node(top, 0)));
	return fmt_node_child(node(top, 0));
}

/* A page that points at its parent. */
static uint64_t cut_cycle(struct image *m)
{
	uint8_t *top = root(m, "text");

	set_child(node(page(m, fmt_node_child(node(top, 0))), 0), fmt_page_number(top));
	return fmt_page_number(top);
}

static uint64_t cut_lost(struct image *m)
{
	uint8_t *nd, *list;
	uint64_t at, n;

	list = free_list(m, &nd, &at);
	n = fmt_u64(list);
	set64(list, n - 1);
	return fmt_u64(list + n * 8);
}

static uint64_t cut_number(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");
	uint64_t n = fmt_page_number(pg);

	set64(pg, n + 1);
	return n;
}

static uint64_t cut_dirty(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(pg + 10, FMT_LEAF | FMT_DIRTY);
	return fmt_page_number(pg);
}

static uint64_t cut_bounds(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(pg + 14, FMT_PAGE_HEADER);
	return fmt_page_number(pg);
}

static uint64_t cut_keys(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(pg + 12, FMT_PAGE_HEADER);
	set16(pg + 14, (uint16_t)m->psize);
	return fmt_page_number(pg);
}

static uint64_t cut_depth(struct image *m)
{
	uint8_t *top = root(m, "text"), *below = page(m, fmt_node_child(node(top, 1)));

	assert_int_equal(fmt_u16(record(m, "text") + 6), 3);
	set_child(node(top, 1), fmt_node_child(node(below, 0)));
	return fmt_node_child(node(below, 0));
}

static uint64_t cut_offset(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(offset(pg, 3), (uint16_t)(m->psize - 2));
	return fmt_page_number(pg);
}

static uint64_t cut_length(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set32(node(pg, 0), 0xfffffff0u);
	return fmt_page_number(pg);
}

static uint64_t cut_overlap(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(offset(pg, 3), fmt_u16(offset(pg, 4)));
	return fmt_page_number(pg);
}

static uint64_t cut_node_flags(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(node(pg, 2) + 4, FMT_DUP);
	return fmt_page_number(pg);
}

static uint64_t cut_record_size(struct image *m)
{
	set32(record(m, "text") - strlen("text") - FMT_NODE_HEADER, FMT_RECORD_SIZE - 8);
	return fmt_page_number(main_leaf(m));
}

static uint64_t cut_key_size(struct image *m)
{
	uint8_t *pg = leaf_of(m, "integers");

	set16(node(pg, 1) + 6, 7);
	return fmt_page_number(pg);
}

static void swap16(uint8_t *a, uint8_t *b)
{
	uint16_t t = fmt_u16(a);

	set16(a, fmt_u16(b));
	set16(b, t);
}

uint64_t cut_key_order(struct image *m)
{
	uint8_t *pg = leaf_of(m, "text");

	swap16(offset(pg, 1), offset(pg, 2));
	return fmt_page_number(pg);
}

static uint64_t cut_key_bound(struct image *m)
{
	uint8_t *pg = leaf_of(m, "text");

	node(pg, node_count(pg) - 1)[FMT_NODE_HEADER] = 0xff;
	return fmt_page_number(pg);
}

static uint64_t cut_dup_order(struct image *m)
{
	uint64_t at;
	uint8_t *sub = value(find_node(m, "dup", FMT_DUP, &at));

	swap16(offset(sub, 0), offset(sub, 1));
	return at;
}

static uint64_t cut_packed_order(struct image *m)
{
	uint64_t at;
	uint8_t *sub = value(find_node(m, "fixed", FMT_DUP, &at));

	set64(sub + FMT_PAGE_HEADER, UINT64_MAX);
	return at;
}

static uint64_t cut_subpage(struct image *m)
{
	uint64_t at;

	set16(value(find_node(m, "dup", FMT_DUP, &at)) + 10, FMT_LEAF);
	return at;
}

static uint64_t cut_packed_count(struct image *m)
{
	uint64_t at;

	set16(value(find_node(m, "fixed", FMT_DUP, &at)) + 12, 0x7ffe);
	return at;
}

static uint64_t cut_run(struct image *m)
{
	uint64_t at;
	uint64_t first = fmt_u64(value(find_node(m, "big", FMT_BIG, &at)));

	set32(page(m, first) + 12, 0);
	return first;
}

static uint64_t cut_run_flags(struct image *m)
{
	uint64_t at;
	uint64_t first = fmt_u64(value(find_node(m, "big", FMT_BIG, &at)));

	set16(page(m, first) + 10, FMT_LEAF);
	return first;
}

static uint64_t cut_db_flags(struct image *m)
{
	set16(record(m, "text") + 4, 0x8000);
	return ANY;
}

static uint64_t cut_dup_record(struct image *m)
{
	uint64_t at;

	set16(value(find_node(m, "dup", FMT_DUP | FMT_TREE, &at)) + 4, FMT_DUPFIXED);
	return at;
}

static uint64_t cut_db_depth(struct image *m)
{
	set16(record(m, "text") + 6, 2);
	return fmt_page_number(root(m, "text"));
}

static uint64_t cut_count(struct image *m, uint32_t at)
{
	uint8_t *r = record(m, "text") + at;

	set64(r, fmt_u64(r) + 1);
	return fmt_page_number(root(m, "text"));
}

static uint64_t cut_db_branch(struct image *m)
{
	return cut_count(m, 8);
}

static uint64_t cut_db_leaf(struct image *m)
{
	return cut_count(m, 16);
}

static uint64_t cut_db_overflow(struct image *m)
{
	return cut_count(m, 24);
}

static uint64_t cut_db_entries(struct image *m)
{
	return cut_count(m, 32);
}

static uint64_t cut_free_record(struct image *m)
{
	uint8_t *nd;
	uint64_t at;

	set64(free_list(m, &nd, &at), UINT64_MAX / 8);
	return at;
}

static uint64_t cut_free_order(struct image *m)
{
	uint8_t *nd, *list;
	uint64_t at, first;

	list = free_list(m, &nd, &at);
	first = fmt_u64(list + 8);
	set64(list + 8, fmt_u64(list + 16));
	set64(list + 16, first);
	return at;
}

static uint64_t cut_free_range(struct image *m)
{
	uint8_t *nd;
	uint64_t at;

	set64(free_list(m, &nd, &at) + 8, fmt_u64(m->meta + 136) + 1);
	return at;
}

static uint64_t cut_free_txnid(struct image *m)
{
	uint8_t *nd;
	uint64_t at;

	free_list(m, &nd, &at);
	set64(nd + FMT_NODE_HEADER, fmt_u64(m->meta + 144) + 1);
	return at;
}

static uint64_t cut_free_twice(struct image *m)
{
	uint8_t *nd, *list;
	uint64_t at;

	list = free_list(m, &nd, &at);
	set64(list + 8, fmt_u64(list + 16));
	return fmt_u64(list + 16);
}

static uint64_t cut_free_used(struct image *m)
{
	uint8_t *nd, *list;
	uint64_t at;

	list = free_list(m, &nd, &at);
	set64(list + 8, fmt_page_number(root(m, "text")));
	return fmt_page_number(root(m, "text"));
}

const struct damage_cut damage_cuts[] = {
	{ AUDIT_FILE_SHORT, cut_file },
	{ AUDIT_META_MAGIC, cut_magic },
	{ AUDIT_META_VERSION, cut_version },
	{ AUDIT_META_PAGE, cut_meta_page },
	{ AUDIT_META_PSIZE, cut_page_size },
	{ AUDIT_META_LAST, cut_last_page },
	{ AUDIT_META_TXNID, cut_same_txnid },
	{ AUDIT_META_SLOT, cut_slot },
	{ AUDIT_META_MAPSIZE, cut_map_size },
	{ AUDIT_PAGE_RANGE, cut_range },
	{ AUDIT_PAGE_EOF, cut_eof },
	{ AUDIT_PAGE_TWICE, cut_twice },
	{ AUDIT_PAGE_TWICE, cut_cycle },
	{ AUDIT_PAGE_LOST, cut_lost },
	{ AUDIT_PAGE_NUMBER, cut_number },
	{ AUDIT_PAGE_FLAGS, cut_dirty },
	{ AUDIT_PAGE_FLAGS, cut_run_flags },
	{ AUDIT_PAGE_BOUNDS, cut_bounds },
	{ AUDIT_PAGE_KEYS, cut_keys },
	{ AUDIT_TREE_DEPTH, cut_depth },
	{ AUDIT_NODE_BOUNDS, cut_offset },
	{ AUDIT_NODE_BOUNDS, cut_length },
	{ AUDIT_NODE_OVERLAP, cut_overlap },
	{ AUDIT_NODE_FLAGS, cut_node_flags },
	{ AUDIT_NODE_SIZE, cut_record_size },
	{ AUDIT_KEY_SIZE, cut_key_size },
	{ AUDIT_KEY_ORDER, cut_key_order },
	{ AUDIT_KEY_BOUND, cut_key_bound },
	{ AUDIT_DUP_ORDER, cut_dup_order },
	{ AUDIT_DUP_ORDER, cut_packed_order },
	{ AUDIT_SUBPAGE, cut_subpage },
	{ AUDIT_SUBPAGE, cut_packed_count },
	{ AUDIT_OVERFLOW_RUN, cut_run },
	{ AUDIT_DB_RECORD, cut_db_flags },
	{ AUDIT_DB_RECORD, cut_dup_record },
	{ AUDIT_DB_DEPTH, cut_db_depth },
	{ AUDIT_DB_ENTRIES, cut_db_entries },
	{ AUDIT_DB_BRANCH, cut_db_branch },
	{ AUDIT_DB_LEAF, cut_db_leaf },
	{ AUDIT_DB_OVERFLOW, cut_db_overflow },
	{ AUDIT_FREE_RECORD, cut_free_record },
	{ AUDIT_FREE_ORDER, cut_free_order },
	{ AUDIT_FREE_RANGE, cut_free_range },
	{ AUDIT_FREE_TXNID, cut_free_txnid },
	{ AUDIT_FREE_TWICE, cut_free_twice },
	{ AUDIT_FREE_USED, cut_free_used },
};

const size_t damage_n_cuts = sizeof(damage_cuts) / sizeof(damage_cuts[0]);
