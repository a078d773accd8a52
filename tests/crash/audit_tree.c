/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit_tree.c - the auditor's walk of one tree: pages, nodes, keys, sub-pages, overflow runs.
 *
 * Every function gets a page that audit_claim handed out, or a sub-page inside of one, with its
 * size. Offsets are checked before they are used; when a header cannot be trusted the page is left
 * alone. Recursion: branch levels (at most FMT_DEPTH_MAX) and, below a leaf, one tree of sorted
 * values (as many again).
 */
#include "audit_internal.h"

#include <stdlib.h>

/* ---- comparison functions: LMDB's default ones ---- */

static int compare_bytes(struct audit_bytes a, struct audit_bytes b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;

	return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

static int compare_reverse(struct audit_bytes a, struct audit_bytes b)
{
	size_t n = a.n < b.n ? a.n : b.n;

	for (size_t i = 1; i <= n; i++) {
		int c = a.p[a.n - i] - b.p[b.n - i];

		if (c)
			return c;
	}
	return a.n < b.n ? -1 : a.n > b.n;
}

/* Little-endian integers. Other sizes than 4 and 8 are a problem of their own. */
static int compare_integers(struct audit_bytes a, struct audit_bytes b)
{
	return a.n == b.n ? compare_reverse(a, b) : a.n < b.n ? -1 : 1;
}

void audit_tree_init(struct audit *a, struct tree *t, enum tree_kind kind,
    const struct fmt_record *rec, const char *name, struct audit_db *db)
{
	uint16_t flags = kind == TREE_FREE ? FMT_INTEGERKEY : rec->flags;

	*t = (struct tree){ .a = a, .kind = kind, .rec = rec, .name = name, .db = db };
	t->integer = flags & FMT_INTEGERKEY;
	t->compare = flags & FMT_REVERSEKEY ? compare_reverse
		     : t->integer	    ? compare_integers
					    : compare_bytes;
	t->dup_integer = flags & FMT_INTEGERDUP;
	t->dup_compare = t->dup_integer		  ? compare_integers
			 : flags & FMT_REVERSEDUP ? compare_reverse
						  : compare_bytes;
	t->unordered = db && db->keys_unordered;
	t->dups_unordered = db && db->dups_unordered;
	if ((kind == TREE_MAIN || kind == TREE_NAMED) && (flags & ~FMT_DB_FLAGS))
		audit_note(a, AUDIT_DB_RECORD, name, AUDIT_NO_PAGE, -1, flags, FMT_DB_FLAGS);
}

static bool fixed_size_dups(const struct tree *owner)
{
	return owner->rec->flags & FMT_DUPFIXED;
}

/* The tree of sorted values of one key, or (rec NULL) its sub-page. */
static void dup_tree_init(
    struct tree *owner, struct tree *t, const struct fmt_record *rec, struct audit_bytes key)
{
	*t = (struct tree){ .a = owner->a, .kind = TREE_DUP, .rec = rec, .name = owner->name };
	t->compare = owner->dup_compare;
	t->unordered = owner->dups_unordered;
	t->integer = owner->dup_integer;
	t->fixed = rec && fixed_size_dups(owner);
	t->key_size = t->fixed ? rec->pad : owner->dup_size;
	t->owner = owner;
	t->owner_key = key;
}

/* ---- keys ---- */

static void check_key_size(struct tree *t, uint64_t page, int index, struct audit_bytes key)
{
	if (t->integer && key.n != 4 && key.n != 8)
		audit_note(t->a, AUDIT_KEY_SIZE, t->name, page, index, key.n, 8);
	else if ((t->integer || t->fixed) && t->key_size && key.n != t->key_size)
		audit_note(t->a, AUDIT_KEY_SIZE, t->name, page, index, key.n, t->key_size);
	if (t->integer && !t->key_size)
		t->key_size = key.n;
}

/* The half-open interval of keys that a page may hold, by the branches above it. */
struct bounds {
	struct audit_bytes lo, hi; /* p NULL: none */
};

/* Key number index of a page: against its predecessor (p NULL: none) and the branches above. */
static void check_key(struct tree *t, uint64_t page, int index, struct audit_bytes key,
    struct audit_bytes prev, const struct bounds *in)
{
	enum audit_class order = t->kind == TREE_DUP ? AUDIT_DUP_ORDER : AUDIT_KEY_ORDER;
	enum audit_class bound = t->kind == TREE_DUP ? AUDIT_DUP_ORDER : AUDIT_KEY_BOUND;

	check_key_size(t, page, index, key);
	if (t->unordered)
		return;
	if (prev.p && t->compare(prev, key) >= 0)
		audit_note(t->a, order, t->name, page, index, 0, 0);
	if ((in->lo.p && t->compare(key, in->lo) < 0) || (in->hi.p && t->compare(key, in->hi) >= 0))
		audit_note(t->a, bound, t->name, page, index, 0, 0);
}

/* ---- nodes of a page ---- */

/* A page or a sub-page: size bytes at p, on page number `number`. */
struct leaf {
	const uint8_t *p;
	uint32_t size, n, lower, upper;
	uint64_t number;
	/* One bit for each two bytes: what nodes cover. */
	uint64_t covered[FMT_PAGE_MAX / 2 / 64 + 1];
};

/* Free-space bounds of a page with node offsets; n is set. */
static bool open_nodes(struct tree *t, struct leaf *l, enum audit_class bad)
{
	l->lower = fmt_page_lower(l->p);
	l->upper = fmt_page_upper(l->p);
	if (l->lower < FMT_PAGE_HEADER || l->lower > l->upper || l->upper > l->size ||
	    (l->lower & 1)) {
		audit_note(t->a, bad, t->name, l->number, -1, l->lower, l->upper);
		return false;
	}
	l->n = (l->lower - FMT_PAGE_HEADER) / 2;
	memset(l->covered, 0, ((l->size + 1) / 2 + 63) / 64 * 8);
	return true;
}

/* Mark [from, to) covered. False if some of it was. */
static bool cover(struct leaf *l, uint32_t from, uint32_t to)
{
	bool fresh = true;

	for (uint32_t i = from / 2; i < (to + 1) / 2; i++) {
		uint64_t bit = UINT64_C(1) << (i % 64);

		fresh &= !(l->covered[i / 64] & bit);
		l->covered[i / 64] |= bit;
	}
	return fresh;
}

/* After all nodes: does the heap behind upper have no hole? */
static void check_heap(struct tree *t, struct leaf *l)
{
	for (uint32_t i = (l->upper + 1) / 2; i < l->size / 2; i++) {
		if (!(l->covered[i / 64] >> (i % 64) & 1)) {
			audit_note(t->a, AUDIT_NODE_OVERLAP, t->name, l->number, -1, i * 2, 0);
			return;
		}
	}
}

/* Node i: its header and key lie in the heap. branch: there is no value. NULL if it cannot be read;
 * the problem is noted. *value_len is what lies in the page. */
static const uint8_t *open_node(struct tree *t, struct leaf *l, uint32_t i, bool branch,
    struct audit_bytes *key, uint32_t *value_len)
{
	uint32_t off = fmt_u16(l->p + FMT_PAGE_HEADER + 2 * i), len;
	const uint8_t *node = l->p + off;

	if (off < l->upper || (off & 1) || off + FMT_NODE_HEADER > l->size) {
		audit_note(t->a, AUDIT_NODE_BOUNDS, t->name, l->number, (int)i, off, l->upper);
		return NULL;
	}
	key->p = node + FMT_NODE_HEADER;
	key->n = fmt_node_key_size(node);
	*value_len = branch ? 0 : fmt_node_flags(node) & FMT_BIG ? 8 : fmt_node_size(node);
	if (*value_len > l->size || off + FMT_NODE_HEADER + key->n + *value_len > l->size) {
		audit_note(t->a, AUDIT_NODE_BOUNDS, t->name, l->number, (int)i,
		    off + FMT_NODE_HEADER + key->n + (uint64_t)*value_len, l->size);
		return NULL;
	}
	len = FMT_NODE_HEADER + (uint32_t)key->n + *value_len;
	if (!cover(l, off, off + len))
		audit_note(t->a, AUDIT_NODE_OVERLAP, t->name, l->number, (int)i, off, 0);
	return node;
}

/* ---- what a leaf's node holds ---- */

static void emit(struct tree *t, struct audit_bytes key, struct audit_bytes value)
{
	struct audit *a = t->a;

	t->entries++;
	if (t->kind == TREE_FREE)
		return;
	audit_digest_add(&a->r->digest, t->db->name, key, value);
	if (a->opt && a->opt->visit)
		a->opt->visit(a->opt->arg, t->db, key, value);
}

/* A value of the tree that owns a TREE_DUP. */
static void emit_dup(struct tree *t, struct audit_bytes value)
{
	t->entries++;
	emit(t->owner, t->owner_key, value);
}

/* Fixed-size values, packed behind the header of a page or sub-page. */
static void walk_packed(struct tree *t, struct leaf *l, uint32_t ks, const struct bounds *in)
{
	struct audit_bytes prev = { NULL, 0 };
	uint32_t lower = fmt_page_lower(l->p), upper = fmt_page_upper(l->p);
	enum audit_class bad = l->size == t->a->psize ? AUDIT_PAGE_BOUNDS : AUDIT_SUBPAGE;
	uint32_t n;

	/* LMDB counts two bytes of lower for each value, and the rest off upper. */
	n = lower < FMT_PAGE_HEADER ? 0 : (lower - FMT_PAGE_HEADER) / 2;
	if (lower < FMT_PAGE_HEADER || (lower & 1) ||
	    FMT_PAGE_HEADER + (uint64_t)n * ks > l->size ||
	    upper - lower != l->size - FMT_PAGE_HEADER - n * ks) {
		audit_note(t->a, bad, t->name, l->number, -1, lower, upper);
		return;
	}
	if (!n)
		audit_note(t->a, AUDIT_PAGE_KEYS, t->name, l->number, -1, 0, 1);
	for (uint32_t i = 0; i < n; i++) {
		struct audit_bytes v = { l->p + FMT_PAGE_HEADER + i * ks, ks };

		check_key(t, l->number, (int)i, v, prev, in);
		prev = v;
		emit_dup(t, v);
	}
}

/* The nodes of a leaf or a sub-page of a TREE_DUP: keys without values. */
static void walk_values(struct tree *t, struct leaf *l, const struct bounds *in)
{
	struct audit_bytes prev = { NULL, 0 };

	for (uint32_t i = 0; i < l->n; i++) {
		struct audit_bytes v;
		uint32_t len;
		const uint8_t *node = open_node(t, l, i, false, &v, &len);

		if (!node)
			continue;
		if (fmt_node_flags(node))
			audit_note(t->a, AUDIT_NODE_FLAGS, t->name, l->number, (int)i,
			    fmt_node_flags(node), 0);
		else if (len)
			audit_note(t->a, AUDIT_NODE_SIZE, t->name, l->number, (int)i, len, 0);
		check_key(t, l->number, (int)i, v, prev, in);
		prev = v;
		emit_dup(t, v);
	}
	check_heap(t, l);
}

/* Sorted values in a sub-page, which is the value of a node. */
static void walk_subpage(
    struct tree *owner, uint64_t number, int index, struct audit_bytes key, struct audit_bytes sub)
{
	const uint16_t packed = fixed_size_dups(owner) ? FMT_LEAF2 : 0;
	const struct bounds none = { { NULL, 0 }, { NULL, 0 } };
	struct leaf l = { .p = sub.p, .size = (uint32_t)sub.n, .number = number };
	uint16_t flags;
	struct tree t;

	if (sub.n < FMT_PAGE_HEADER) {
		audit_note(
		    owner->a, AUDIT_SUBPAGE, owner->name, number, index, sub.n, FMT_PAGE_HEADER);
		return;
	}
	flags = fmt_page_flags(sub.p) & (uint16_t)~FMT_DIRTY; /* LMDB leaves that one set */
	if (flags != (FMT_LEAF | FMT_SUBPAGE | packed)) {
		audit_note(owner->a, AUDIT_SUBPAGE, owner->name, number, index, flags,
		    FMT_LEAF | FMT_SUBPAGE | packed);
		return;
	}
	dup_tree_init(owner, &t, NULL, key);
	if (packed) {
		if (!fmt_page_pad(sub.p))
			audit_note(owner->a, AUDIT_SUBPAGE, owner->name, number, index, 0, 1);
		else
			walk_packed(&t, &l, fmt_page_pad(sub.p), &none);
	} else if (open_nodes(&t, &l, AUDIT_SUBPAGE)) {
		if (!l.n)
			audit_note(owner->a, AUDIT_PAGE_KEYS, owner->name, number, index, 0, 1);
		walk_values(&t, &l, &none);
	}
	owner->dup_size = t.key_size;
}

/* Sorted values that outgrew their sub-page: a tree of its own. */
static void walk_dup_tree(
    struct tree *owner, uint64_t number, int index, struct audit_bytes key, const uint8_t *value)
{
	const uint16_t want =
	    fixed_size_dups(owner) ? FMT_DUPFIXED | (owner->dup_integer ? FMT_INTEGERKEY : 0) : 0;
	struct fmt_record rec;
	struct tree t;

	fmt_record(value, &rec);
	if (rec.flags != want) {
		audit_note(owner->a, AUDIT_DB_RECORD, owner->name, number, index, rec.flags, want);
		return;
	}
	dup_tree_init(owner, &t, &rec, key);
	audit_tree(&t);
	owner->dup_size = t.key_size;
	owner->db->dup_trees++;
	owner->db->dup_pages += t.branch_pages + t.leaf_pages;
}

/* A value in an overflow run. */
static bool open_big(struct tree *t, uint64_t number, int index, const uint8_t *at, uint32_t size,
    struct audit_bytes *value)
{
	struct audit *a = t->a;
	uint64_t first = fmt_u64(at), need = (FMT_PAGE_HEADER - 1 + (uint64_t)size) / a->psize + 1;
	const uint8_t *p;
	uint32_t run;

	if (!audit_claim(a, t->name, number, first, 1))
		return false;
	p = a->buf + first * a->psize;
	run = fmt_page_run(p);
	t->overflow_pages++;
	if (fmt_page_flags(p) != FMT_OVERFLOW) {
		audit_note(
		    a, AUDIT_PAGE_FLAGS, t->name, first, -1, fmt_page_flags(p), FMT_OVERFLOW);
		return false;
	}
	if (fmt_page_number(p) != first)
		audit_note(a, AUDIT_PAGE_NUMBER, t->name, first, -1, fmt_page_number(p), first);
	/* A value that got shorter keeps its run. */
	if (run < need) {
		audit_note(a, AUDIT_OVERFLOW_RUN, t->name, first, index, run, need);
		return false;
	}
	if (run > 1 && !audit_claim(a, t->name, number, first + 1, run - 1))
		return false;
	t->overflow_pages += run - 1;
	*value = (struct audit_bytes){ p + FMT_PAGE_HEADER, size };
	return true;
}

static void remember_named(struct audit *a, struct audit_bytes name, const uint8_t *value)
{
	if (a->n_named == a->cap_named) {
		size_t cap = a->cap_named ? a->cap_named * 2 : 8;
		struct audit_named *v = reallocarray(a->named, cap, sizeof(*v));

		if (!v) {
			a->out_of_memory = true;
			return;
		}
		a->named = v;
		a->cap_named = cap;
	}
	a->named[a->n_named].name = name;
	fmt_record(value, &a->named[a->n_named++].record);
}

/* Which node flags the leaf of a tree may have. */
static bool node_flags_fit(const struct tree *t, uint16_t flags)
{
	bool dups = t->kind != TREE_FREE && (t->rec->flags & FMT_DUPSORT);

	switch (flags) {
	case 0:
		return true;
	case FMT_BIG:
		return !dups;
	case FMT_TREE:
		return t->kind == TREE_MAIN;
	case FMT_DUP:
	case FMT_DUP | FMT_TREE:
		return dups;
	default:
		return false;
	}
}

static void walk_value(struct tree *t, struct leaf *l, int i, const uint8_t *node,
    struct audit_bytes key, uint32_t len)
{
	struct audit_bytes value = { key.p + key.n, len };
	uint16_t flags = fmt_node_flags(node);

	if (!node_flags_fit(t, flags)) {
		audit_note(t->a, AUDIT_NODE_FLAGS, t->name, l->number, i, flags, 0);
		return;
	}
	if ((flags & FMT_TREE) && len != FMT_RECORD_SIZE) {
		audit_note(t->a, AUDIT_NODE_SIZE, t->name, l->number, i, len, FMT_RECORD_SIZE);
		return;
	}
	switch (flags) {
	case FMT_TREE:
		t->entries++;
		remember_named(t->a, key, value.p);
		return;
	case FMT_DUP:
		walk_subpage(t, l->number, i, key, value);
		return;
	case FMT_DUP | FMT_TREE:
		walk_dup_tree(t, l->number, i, key, value.p);
		return;
	case FMT_BIG:
		if (!open_big(t, l->number, i, value.p, fmt_node_size(node), &value)) {
			t->entries++; /* it is there, only its value is not */
			return;
		}
	}
	if (t->kind == TREE_FREE)
		audit_free_record(t, l->number, i, key, value);
	emit(t, key, value);
}

/* ---- pages ---- */

static void walk_leaf(
    struct tree *t, uint64_t number, const uint8_t *p, uint32_t depth, const struct bounds *in)
{
	struct leaf l = { .p = p, .size = (uint32_t)t->a->psize, .number = number };
	struct audit_bytes prev = { NULL, 0 }, key;
	bool packed = fmt_page_flags(p) & FMT_LEAF2;
	bool want_packed = t->kind == TREE_DUP && fixed_size_dups(t->owner);
	uint32_t len;

	t->leaf_pages++;
	if (!t->depth)
		t->depth = depth;
	else if (t->depth != depth)
		audit_note(t->a, AUDIT_TREE_DEPTH, t->name, number, -1, depth, t->depth);
	if (packed != want_packed) {
		audit_note(t->a, AUDIT_PAGE_FLAGS, t->name, number, -1, fmt_page_flags(p),
		    FMT_LEAF | (want_packed ? FMT_LEAF2 : 0));
		return;
	}
	if (packed) {
		if (fmt_page_pad(p) != t->rec->pad || !t->rec->pad)
			audit_note(t->a, AUDIT_KEY_SIZE, t->name, number, -1, fmt_page_pad(p),
			    t->rec->pad);
		else
			walk_packed(t, &l, t->rec->pad, in);
		return;
	}
	if (!open_nodes(t, &l, AUDIT_PAGE_BOUNDS))
		return;
	if (!l.n)
		audit_note(t->a, AUDIT_PAGE_KEYS, t->name, number, -1, 0, 1);
	if (t->kind == TREE_DUP) {
		walk_values(t, &l, in);
		return;
	}
	for (uint32_t i = 0; i < l.n && !t->a->out_of_memory; i++) {
		const uint8_t *node = open_node(t, &l, i, false, &key, &len);

		if (!node)
			continue;
		check_key(t, number, (int)i, key, prev, in);
		prev = key;
		walk_value(t, &l, (int)i, node, key, len);
	}
	check_heap(t, &l);
}

static void walk_page(
    struct tree *t, uint64_t from, uint64_t number, uint32_t depth, const struct bounds *in);

static void walk_branch(
    struct tree *t, uint64_t number, const uint8_t *p, uint32_t depth, const struct bounds *in)
{
	struct leaf l = { .p = p, .size = (uint32_t)t->a->psize, .number = number };
	struct bounds child = *in;
	uint32_t least =
	    t->kind == TREE_FREE ? 1 : 2; /* LMDB lets the free database's go that low */
	const uint8_t *node, *next = NULL;
	struct audit_bytes key, next_key;
	uint32_t none;

	t->branch_pages++;
	if (!open_nodes(t, &l, AUDIT_PAGE_BOUNDS))
		return;
	if (l.n < least)
		audit_note(t->a, AUDIT_PAGE_KEYS, t->name, number, -1, l.n, least);
	/* The first key stands for "everything below the second" and is not read. */
	node = l.n ? open_node(t, &l, 0, true, &key, &none) : NULL;
	for (uint32_t i = 0; i < l.n && !t->a->out_of_memory; i++, node = next) {
		struct audit_bytes prev = i ? child.lo : (struct audit_bytes){ NULL, 0 };

		next = NULL;
		child.hi = in->hi;
		if (i + 1 < l.n) {
			next = open_node(t, &l, i + 1, true, &next_key, &none);
			if (next) {
				check_key(t, number, (int)i + 1, next_key, prev, in);
				child.hi = next_key;
			}
		}
		if (node)
			walk_page(t, number, fmt_node_child(node), depth + 1, &child);
		if (next)
			child.lo = next_key;
	}
	check_heap(t, &l);
}

static void walk_page(
    struct tree *t, uint64_t from, uint64_t number, uint32_t depth, const struct bounds *in)
{
	struct audit *a = t->a;
	const uint8_t *p;
	uint16_t flags;

	if (!audit_claim(a, t->name, from, number, 1))
		return;
	if (depth > FMT_DEPTH_MAX) {
		audit_note(a, AUDIT_TREE_DEPTH, t->name, number, -1, depth, FMT_DEPTH_MAX);
		return;
	}
	p = a->buf + number * a->psize;
	flags = fmt_page_flags(p);
	if (fmt_page_number(p) != number)
		audit_note(a, AUDIT_PAGE_NUMBER, t->name, number, -1, fmt_page_number(p), number);
	if (flags == FMT_BRANCH)
		walk_branch(t, number, p, depth, in);
	else if (flags == FMT_LEAF || flags == (FMT_LEAF | FMT_LEAF2))
		walk_leaf(t, number, p, depth, in);
	else
		audit_note(a, AUDIT_PAGE_FLAGS, t->name, number, -1, flags,
		    depth < t->rec->depth ? FMT_BRANCH : FMT_LEAF);
}

static void check_count(struct tree *t, enum audit_class what, uint64_t recorded, uint64_t counted)
{
	if (recorded != counted)
		audit_note(t->a, what, t->name, t->rec->root, -1, recorded, counted);
}

void audit_tree(struct tree *t)
{
	const struct bounds none = { { NULL, 0 }, { NULL, 0 } };
	const struct fmt_record *rec = t->rec;

	if (rec->root == FMT_NO_ROOT) {
		/* An empty tree of sorted values is never left behind. */
		if (t->kind == TREE_DUP)
			audit_note(t->a, AUDIT_DB_RECORD, t->name, AUDIT_NO_PAGE, -1, 0, 0);
	} else {
		walk_page(t, AUDIT_NO_PAGE, rec->root, 1, &none);
	}
	check_count(t, AUDIT_DB_DEPTH, rec->depth, t->depth);
	check_count(t, AUDIT_DB_ENTRIES, rec->entries, t->entries);
	check_count(t, AUDIT_DB_BRANCH, rec->branch_pages, t->branch_pages);
	check_count(t, AUDIT_DB_LEAF, rec->leaf_pages, t->leaf_pages);
	check_count(t, AUDIT_DB_OVERFLOW, rec->overflow_pages, t->overflow_pages);
}
