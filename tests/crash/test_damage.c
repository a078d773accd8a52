/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The auditor finds every class of damage: one sound file, one cut into it at a time, and the class
 * must be reported, on the right page where there is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit.h"
#include "format.h"
#include "image.h"
#include "shapes.h"

#define ANY AUDIT_NO_PAGE

struct image {
	uint8_t *p; /* private: a cut does not reach the file */
	size_t len;
	uint64_t psize;
	uint8_t *meta; /* the current one */
};

/* ---- finding one's way ---- */

static struct image load(void)
{
	struct image m;

	m.p = image_map(&m.len);
	m.psize = fmt_u32(m.p + 40);
	m.meta = fmt_u64(m.p + 144) > fmt_u64(m.p + m.psize + 144) ? m.p : m.p + m.psize;
	return m;
}

static void set16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void set32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void set64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

static uint8_t *page(const struct image *m, uint64_t n)
{
	return m->p + n * m->psize;
}

static uint8_t *offset(uint8_t *pg, int i)
{
	return pg + FMT_PAGE_HEADER + 2 * i;
}

static uint8_t *node(uint8_t *pg, int i)
{
	return pg + fmt_u16(offset(pg, i));
}

static int node_count(const uint8_t *pg)
{
	return ((int)fmt_page_lower(pg) - (int)FMT_PAGE_HEADER) / 2;
}

static uint8_t *value(uint8_t *nd)
{
	return nd + FMT_NODE_HEADER + fmt_node_key_size(nd);
}

static void set_child(uint8_t *nd, uint64_t n)
{
	set32(nd, (uint32_t)n);
	set16(nd + 4, (uint16_t)(n >> 32));
}

/* Main database: one leaf. */
static uint8_t *main_leaf(const struct image *m)
{
	uint8_t *pg = page(m, fmt_u64(m->meta + 88 + 40));

	assert_int_equal(fmt_page_flags(pg), FMT_LEAF);
	return pg;
}

/* The 48 bytes of a named database's record. */
static uint8_t *record(const struct image *m, const char *name)
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

static uint8_t *root(const struct image *m, const char *name)
{
	return page(m, fmt_u64(record(m, name) + 40));
}

/* Leftmost leaf below a page. */
static uint8_t *leftmost(const struct image *m, uint8_t *pg)
{
	while (fmt_page_flags(pg) == FMT_BRANCH)
		pg = page(m, fmt_node_child(node(pg, 0)));
	return pg;
}

static uint8_t *leaf_of(const struct image *m, const char *name)
{
	return leftmost(m, root(m, name));
}

/* The first node with these flags in any leaf below the root's children, and its page. */
static uint8_t *find_node(const struct image *m, const char *name, uint16_t flags, uint64_t *at)
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

/* A free-list record with at least two pages: its node and its list. */
static uint8_t *free_list(const struct image *m, uint8_t **nd, uint64_t *at)
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

/* ---- the cuts: each returns the page that must be named ---- */

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

static uint64_t cut_key_order(struct image *m)
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

static const struct {
	enum audit_class what;
	uint64_t (*cut)(struct image *m);
} cuts[] = {
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

#define N_CUTS (sizeof(cuts) / sizeof(cuts[0]))

static bool reported(const struct audit_report *r, enum audit_class what, uint64_t at)
{
	for (size_t i = 0; i < r->n_problems; i++) {
		if (r->problems[i].what == what && (at == ANY || r->problems[i].page == at))
			return true;
	}
	return false;
}

static void every_class_is_found(void **state)
{
	const struct audit_options opt = { .max_problems = 100000 };

	for (size_t i = 0; i < N_CUTS; i++) {
		struct image m = load();
		const size_t len = m.len;
		struct audit_report r;
		uint64_t at;

		at = cuts[i].cut(&m);
		assert_int_equal(audit_memory(m.p, m.len, &opt, &r), 0);
		if (!reported(&r, cuts[i].what, at)) {
			audit_print_text(stderr, &r);
			fail_msg("cut %zu: %s not reported on page %llu", i,
			    audit_class_name(cuts[i].what), (unsigned long long)at);
		}
		assert_true(audit_is_note(cuts[i].what) ? r.notes : r.errors);
		audit_finish(&r);
		munmap(m.p, len);
	}
}

/* The table above leaves none out, and every class has its texts. */
static void every_class_has_a_cut(void **state)
{
	for (int c = 0; c < AUDIT_CLASS_COUNT; c++) {
		bool seen = false;

		for (size_t i = 0; i < N_CUTS; i++)
			seen |= (int)cuts[i].what == c;
		assert_true(seen);
		assert_non_null(audit_class_name(c));
		assert_non_null(audit_class_text(c));
	}
}

/* Order is not checked where the caller says it is the application's. */
static void custom_order(void **state)
{
	const char *const text[] = { "text", NULL }, *const all[] = { "*", NULL };
	const struct audit_options keys = { .custom_key_order = text },
				   values = { .custom_dup_order = all };
	struct image m = load();
	struct audit_report r;

	cut_key_order(&m);
	assert_int_equal(audit_memory(m.p, m.len, &keys, &r), 0);
	assert_true(audit_sound(&r));
	for (size_t i = 0; i < r.n_dbs; i++)
		assert_int_equal(r.dbs[i].keys_unordered,
		    r.dbs[i].name.n == 4 && !memcmp(r.dbs[i].name.p, "text", 4));
	audit_finish(&r);
	assert_int_equal(audit_memory(m.p, m.len, &values, &r), 0);
	assert_true(r.count[AUDIT_KEY_ORDER]);
	audit_finish(&r);
	munmap(m.p, m.len);
}

/* A file cut short anywhere is reported, and a changed value changes the digest. */
static void short_files_and_values(void **state)
{
	struct image m = load();
	struct audit_report whole, r;
	uint64_t at;

	assert_int_equal(audit_memory(m.p, m.len, NULL, &whole), 0);
	assert_true(audit_sound(&whole));
	for (size_t len = 0; len < m.len - m.psize * 64; len += m.len / 150) {
		assert_int_equal(audit_memory(m.p, len, NULL, &r), 0);
		assert_false(audit_sound(&r));
		audit_finish(&r);
	}
	page(&m, fmt_u64(value(find_node(&m, "big", FMT_BIG, &at))))[1000] ^= 1;
	assert_int_equal(audit_memory(m.p, m.len, NULL, &r), 0);
	assert_true(audit_sound(&r));
	assert_false(audit_digest_equal(whole.digest, r.digest));
	audit_finish(&r);
	audit_finish(&whole);
	munmap(m.p, m.len);
}

/* Random bytes in random pages, some of it in the headers: a report, never a crash. */
static void random_damage(void **state)
{
	const struct audit_options opt = { .max_problems = 8 };
	uint64_t seed = 42;

	for (int round = 0; round < 200; round++) {
		struct image m = load();
		struct audit_report r;

		for (int i = 0; i < 1 + round % 16; i++) {
			uint64_t at;

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			at = (seed >> 20) % (m.len / m.psize) * m.psize;
			if (i % 2)
				at += (seed >> 50) % 64;
			else
				at += (seed >> 50) % m.psize;
			m.p[at] ^= (uint8_t)(seed >> 8 | 1);
		}
		assert_int_equal(audit_memory(m.p, m.len, &opt, &r), 0);
		audit_finish(&r);
		munmap(m.p, m.len);
	}
}

static int setup(void **state)
{
	return image_setup(state) || shape_create(shape_find("everything"), image_path, 0) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_class_has_a_cut),
		cmocka_unit_test(every_class_is_found),
		cmocka_unit_test(custom_order),
		cmocka_unit_test(short_files_and_values),
		cmocka_unit_test(random_damage),
	};

	return cmocka_run_group_tests(tests, setup, image_teardown);
}
