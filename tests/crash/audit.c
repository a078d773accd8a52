/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit.c - the auditor: meta pages, the free list, and that every page has exactly one use.
 *
 * Order of work, which the walk of trees (audit_tree.c) relies on:
 *  1. choose a meta page; from it page size and last page. Nothing is read before those are known
 * to be sane, and no page is read that audit_claim has not handed out.
 *  2. walk the free database, then the main one, then the named ones. A page is claimed once; a
 *     second claim is a problem and is not followed, so cycles end and the work is bounded by the
 *     number of pages in the file.
 *  3. what no one claimed is lost.
 */
#include "audit.h"

#include <errno.h>
#include <stdlib.h>

#include "audit_internal.h"

#define DEFAULT_PROBLEMS 64

void audit_note(struct audit *a, enum audit_class what, const char *db, uint64_t page, int index,
    uint64_t got, uint64_t want)
{
	struct audit_report *r = a->r;
	size_t max = a->opt && a->opt->max_problems ? a->opt->max_problems : DEFAULT_PROBLEMS;
	struct audit_problem *p;

	r->count[what]++;
	if (audit_is_note(what))
		r->notes++;
	else
		r->errors++;
	if (r->n_problems == max)
		return;
	if (!r->problems) {
		r->problems = calloc(max, sizeof(*r->problems));
		if (!r->problems) {
			a->out_of_memory = true;
			return;
		}
	}
	p = &r->problems[r->n_problems++];
	p->what = what;
	p->page = page;
	p->index = index;
	p->got = got;
	p->want = want;
	snprintf(p->db, sizeof(p->db), "%s", db ? db : "");
}

bool audit_claim(struct audit *a, const char *db, uint64_t from, uint64_t first, uint64_t n)
{
	if (first < 2 || first > a->last_page || n > a->last_page - first + 1) {
		audit_note(a, AUDIT_PAGE_RANGE, db, from, -1, first, a->last_page);
		return false;
	}
	if (first >= a->file_pages || n > a->file_pages - first) {
		audit_note(a, AUDIT_PAGE_EOF, db, from, -1, first, a->file_pages);
		return false;
	}
	for (uint64_t p = first; p < first + n; p++) {
		if (a->state[p] == PAGE_UNSEEN)
			continue;
		audit_note(a, a->state[p] == PAGE_FREE ? AUDIT_FREE_USED : AUDIT_PAGE_TWICE, db, p,
		    -1, 0, 0);
		/* A page that is free as well can be read all the same; one that is used twice
		 * might be our own ancestor. */
		if (a->state[p] == PAGE_USED)
			return false;
	}
	memset(a->state + first, PAGE_USED, n);
	a->r->used_pages += n;
	return true;
}

/* ---- the free list ---- */

static void note_far_page(struct audit *a, uint64_t p)
{
	if (a->n_far == a->cap_far) {
		size_t cap = a->cap_far ? a->cap_far * 2 : 64;
		uint64_t *v = reallocarray(a->far, cap, sizeof(*v));

		if (!v) {
			a->out_of_memory = true;
			return;
		}
		a->far = v;
		a->cap_far = cap;
	}
	a->far[a->n_far++] = p;
}

static void free_page(struct tree *t, uint64_t on, int index, uint64_t p)
{
	struct audit *a = t->a;

	if (p < 2 || p > a->last_page) {
		audit_note(a, AUDIT_FREE_RANGE, t->name, on, index, p, a->last_page);
		return;
	}
	if (p >= a->n_state) {
		note_far_page(a, p);
		return;
	}
	switch (a->state[p]) {
	case PAGE_FREE:
		audit_note(a, AUDIT_FREE_TWICE, t->name, p, -1, 0, 0);
		return;
	case PAGE_USED:
		audit_note(a, AUDIT_FREE_USED, t->name, p, -1, 0, 0);
		return;
	default:
		a->state[p] = PAGE_FREE;
		a->r->free_pages++;
	}
}

void audit_free_record(
    struct tree *t, uint64_t page, int index, struct audit_bytes key, struct audit_bytes value)
{
	struct audit *a = t->a;
	uint64_t txnid, n, prev = UINT64_MAX;

	if (key.n != 8 || value.n < 8 || value.n % 8) {
		audit_note(a, AUDIT_FREE_RECORD, t->name, page, index, value.n, 8);
		return;
	}
	txnid = fmt_u64(key.p);
	if (txnid == 0 || txnid > a->txnid)
		audit_note(a, AUDIT_FREE_TXNID, t->name, page, index, txnid, a->txnid);
	n = fmt_u64(value.p);
	/* LMDB may reserve more than it fills: the count decides, not the size. */
	if (n > value.n / 8 - 1) {
		audit_note(a, AUDIT_FREE_RECORD, t->name, page, index, n, value.n / 8 - 1);
		return;
	}
	a->r->free_records++;
	for (uint64_t i = 1; i <= n && !a->out_of_memory; i++) {
		uint64_t p = fmt_u64(value.p + i * 8);

		if (p >= prev)
			audit_note(a, AUDIT_FREE_ORDER, t->name, page, index, p, prev);
		prev = p;
		free_page(t, page, index, p);
	}
}

static int compare_u64(const void *x, const void *y)
{
	uint64_t a = fmt_u64(x), b = fmt_u64(y);

	return a < b ? -1 : a > b;
}

/* Pages beyond the end of the file must all be free: count those that are, each once. */
static void check_far_pages(struct audit *a)
{
	uint64_t beyond = a->last_page + 1 - a->n_state, seen = 0;

	if (a->n_far)
		qsort(a->far, a->n_far, sizeof(*a->far), compare_u64);
	for (size_t i = 0; i < a->n_far; i++) {
		if (i && a->far[i] == a->far[i - 1])
			audit_note(a, AUDIT_FREE_TWICE, "(free)", a->far[i], -1, 0, 0);
		else
			seen++;
	}
	a->r->free_pages += seen;
	if (seen < beyond)
		audit_note(a, AUDIT_PAGE_LOST, NULL, a->n_state, -1, seen, beyond);
}

static void check_coverage(struct audit *a)
{
	for (uint64_t p = 2; p < a->n_state; p++) {
		if (a->state[p] == PAGE_UNSEEN)
			audit_note(a, AUDIT_PAGE_LOST, NULL, p, -1, 0, 0);
	}
	if (a->last_page >= a->n_state)
		check_far_pages(a);
}

/* ---- meta pages ---- */

static bool sane_page_size(uint64_t n)
{
	return n >= FMT_PAGE_MIN && n <= FMT_PAGE_MAX && !(n & (n - 1));
}

/* Is there a meta page at p? psize is 0 if it is not known yet. */
static bool read_meta(
    struct audit *a, const uint8_t *p, int slot, uint64_t psize, struct fmt_meta *m)
{
	fmt_meta(p, m);
	if (m->magic != FMT_MAGIC) {
		audit_note(a, AUDIT_META_MAGIC, NULL, slot, slot, m->magic, FMT_MAGIC);
		return false;
	}
	if (m->version != FMT_VERSION) {
		audit_note(a, AUDIT_META_VERSION, NULL, slot, slot, m->version, FMT_VERSION);
		return false;
	}
	if (fmt_page_number(p) != (uint64_t)slot || fmt_page_flags(p) != FMT_META)
		audit_note(a, AUDIT_META_PAGE, NULL, slot, slot, fmt_page_number(p), slot);
	if (!sane_page_size(m->free_db.pad) || (psize && m->free_db.pad != psize)) {
		audit_note(a, AUDIT_META_PSIZE, NULL, slot, slot, m->free_db.pad, psize);
		return false;
	}
	if (m->last_page < 1 || m->last_page >= UINT64_MAX / FMT_PAGE_MAX) {
		audit_note(a, AUDIT_META_LAST, NULL, slot, slot, m->last_page, 1);
		return false;
	}
	return true;
}

/* Where a second meta page is if the first cannot be read: the first power of two that has LMDB's
 * magic number behind it. 0 if none has. */
static uint64_t guess_page_size(const uint8_t *buf, size_t len)
{
	for (uint64_t n = FMT_PAGE_MIN; n <= FMT_PAGE_MAX && n + FMT_META_END <= len; n *= 2) {
		struct fmt_meta m;

		fmt_meta(buf + n, &m);
		if (m.magic == FMT_MAGIC && m.free_db.pad == n)
			return n;
	}
	return 0;
}

/* Which meta page counts: the one asked for, else the newer, slot 0 if they are alike. -1: none. */
static int choose_meta(struct audit *a, struct fmt_meta m[2])
{
	struct audit_report *r = a->r;
	uint64_t want = a->opt ? a->opt->txnid : 0;

	if (r->meta_ok[0] && r->meta_ok[1] && m[0].txnid == m[1].txnid &&
	    memcmp(a->buf + 40, a->buf + a->psize + 40, FMT_META_END - 40) != 0)
		audit_note(a, AUDIT_META_TXNID, NULL, 1, 1, m[1].txnid, m[0].txnid);
	if (want) {
		for (int i = 0; i < 2; i++) {
			if (r->meta_ok[i] && m[i].txnid == want)
				return i;
		}
		audit_note(a, AUDIT_META_TXNID, NULL, AUDIT_NO_PAGE, -1, m[0].txnid, want);
		return -1;
	}
	if (!r->meta_ok[0] || !r->meta_ok[1])
		return r->meta_ok[0] ? 0 : r->meta_ok[1] ? 1 : -1;
	return m[1].txnid > m[0].txnid ? 1 : 0;
}

/* Read both, choose one, and set what depends on it. False: there is nothing to walk. */
static bool find_snapshot(struct audit *a, size_t len, struct fmt_meta *out)
{
	struct audit_report *r = a->r;
	struct fmt_meta m[2] = { 0 };

	if (len < FMT_META_END) {
		audit_note(a, AUDIT_FILE_SHORT, NULL, AUDIT_NO_PAGE, -1, len, FMT_META_END);
		return false;
	}
	r->meta_ok[0] = read_meta(a, a->buf, 0, 0, &m[0]);
	a->psize = r->meta_ok[0] ? m[0].free_db.pad : guess_page_size(a->buf, len);
	if (a->psize && len >= a->psize + FMT_META_END)
		r->meta_ok[1] = read_meta(a, a->buf + a->psize, 1, a->psize, &m[1]);
	else
		audit_note(a, AUDIT_FILE_SHORT, NULL, AUDIT_NO_PAGE, -1, len,
		    (a->psize ? a->psize : FMT_PAGE_MIN) + FMT_META_END);
	for (int i = 0; i < 2; i++)
		r->meta_txnid[i] = r->meta_ok[i] ? m[i].txnid : 0;
	r->slot = choose_meta(a, m);
	if (r->slot < 0 || !a->psize)
		return false;
	*out = m[r->slot];
	/* Both slots of a new file are transaction 0. */
	if (out->txnid && (int)(out->txnid & 1) != r->slot)
		audit_note(a, AUDIT_META_SLOT, NULL, r->slot, r->slot, out->txnid, 0);
	if (out->map_size / a->psize <= out->last_page)
		audit_note(a, AUDIT_META_MAPSIZE, NULL, r->slot, r->slot, out->map_size,
		    (out->last_page + 1) * a->psize);
	a->file_pages = len / a->psize;
	a->last_page = out->last_page;
	a->txnid = out->txnid;
	a->n_state = a->last_page + 1 < a->file_pages ? a->last_page + 1 : a->file_pages;
	if (a->n_state < 2)
		a->n_state = 2; /* the second meta page may be cut off behind its content */
	r->page_size = (uint32_t)a->psize;
	r->txnid = out->txnid;
	r->last_page = out->last_page;
	r->map_size = out->map_size;
	return true;
}

/* ---- databases ---- */

static bool listed(const char *const *list, struct audit_bytes name)
{
	for (; list && *list; list++) {
		if (!strcmp(*list, "*") ||
		    (strlen(*list) == name.n && (!name.n || !memcmp(*list, name.p, name.n))))
			return true;
	}
	return false;
}

/* Printable form of a database's name, cut to n bytes. */
static void escape_name(char *out, size_t n, struct audit_bytes name)
{
	size_t o = 0;

	for (size_t i = 0; i < name.n && o + 5 <= n; i++) {
		if (name.p[i] >= 0x20 && name.p[i] < 0x7f && name.p[i] != '\\')
			out[o++] = (char)name.p[i];
		else
			o += (size_t)snprintf(out + o, n - o, "\\x%02x", name.p[i]);
	}
	out[o] = '\0';
}

static void walk_database(
    struct audit *a, enum tree_kind kind, struct audit_bytes name, const struct fmt_record *rec)
{
	char text[AUDIT_NAME_MAX];
	struct audit_db db = {
		.name = name,
		.is_free = kind == TREE_FREE,
		.is_main = kind == TREE_MAIN,
		/* The free database's flags hold the environment's as well. */
		.flags = kind == TREE_FREE ? FMT_INTEGERKEY : rec->flags,
	};
	struct tree t;

	if (kind == TREE_NAMED)
		escape_name(text, sizeof(text), name);
	else
		snprintf(text, sizeof(text), "%s", kind == TREE_FREE ? "(free)" : "(main)");
	if (kind != TREE_FREE && a->opt) {
		db.keys_unordered = listed(a->opt->custom_key_order, name);
		db.dups_unordered =
		    listed(a->opt->custom_dup_order, name) && (rec->flags & FMT_DUPSORT);
	}
	audit_tree_init(a, &t, kind, rec, text, &db);
	if (kind == TREE_NAMED)
		audit_digest_add_db(&a->r->digest, name, rec->flags);
	audit_tree(&t);
	db.depth = t.depth;
	db.entries = t.entries;
	db.branch_pages = t.branch_pages;
	db.leaf_pages = t.leaf_pages;
	db.overflow_pages = t.overflow_pages;
	if (a->r->n_dbs == a->cap_dbs) {
		size_t cap = a->cap_dbs ? a->cap_dbs * 2 : 8;
		struct audit_db *v = reallocarray(a->r->dbs, cap, sizeof(*v));

		if (!v) {
			a->out_of_memory = true;
			return;
		}
		a->r->dbs = v;
		a->cap_dbs = cap;
	}
	a->r->dbs[a->r->n_dbs++] = db;
}

static void walk_snapshot(struct audit *a, const struct fmt_meta *m)
{
	const struct audit_bytes none = { NULL, 0 };

	a->r->readable = true;
	walk_database(a, TREE_FREE, none, &m->free_db);
	walk_database(a, TREE_MAIN, none, &m->main_db);
	for (size_t i = 0; i < a->n_named && !a->out_of_memory; i++)
		walk_database(a, TREE_NAMED, a->named[i].name, &a->named[i].record);
	check_coverage(a);
}

int audit_memory(
    const void *buf, size_t len, const struct audit_options *options, struct audit_report *r)
{
	struct audit a = { .buf = buf, .opt = options, .r = r };
	struct fmt_meta m;

	memset(r, 0, sizeof(*r));
	r->slot = -1;
	if (find_snapshot(&a, len, &m)) {
		a.state = calloc(a.n_state, 1);
		if (a.state)
			walk_snapshot(&a, &m);
		else
			a.out_of_memory = true;
	}
	free(a.state);
	free(a.far);
	free(a.named);
	if (!a.out_of_memory)
		return 0;
	audit_finish(r);
	return -ENOMEM;
}

void audit_finish(struct audit_report *r)
{
	free(r->dbs);
	free(r->problems);
	memset(r, 0, sizeof(*r));
	r->slot = -1;
}
