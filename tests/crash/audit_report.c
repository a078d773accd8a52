/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit_report.c - names of the auditor's classes, and its reports as text and JSON.
 */
#include "audit.h"

#include <inttypes.h>
#include <string.h>

static const struct {
	const char *name, *text;
	bool note;
	/* What the two numbers of a problem are; NULL: they mean nothing. */
	const char *got, *want;
} classes[AUDIT_CLASS_COUNT] = {
	[AUDIT_FILE_SHORT] = { "file-short", "the file is too short for two meta pages", false,
	    "bytes", "needed" },
	[AUDIT_META_MAGIC] = { "meta-magic", "a meta page has not LMDB's magic number", false,
	    "found", "expected" },
	[AUDIT_META_VERSION] = { "meta-version", "a meta page has another format version", false,
	    "found", "expected" },
	[AUDIT_META_PAGE] = { "meta-page", "a meta page's number or flags are wrong", false,
	    "number", "expected" },
	[AUDIT_META_PSIZE] = { "meta-page-size",
	    "a meta page has an impossible page size, or one that the other has not", false,
	    "found", "expected" },
	[AUDIT_META_LAST] = { "meta-last-page", "a meta page has an impossible last page", false,
	    "found", "least" },
	[AUDIT_META_TXNID] = { "meta-txnid",
	    "no meta page has the transaction, or both have it and differ", false, "found",
	    "wanted" },
	[AUDIT_META_SLOT] = { "meta-slot", "a transaction is in the other one's meta page", true,
	    "transaction", NULL },
	[AUDIT_META_MAPSIZE] = { "meta-map-size", "the last page lies beyond the stated map size",
	    true, "map size", "needed" },
	[AUDIT_PAGE_RANGE] = { "page-range", "a reference to no page of the snapshot", false,
	    "refers to", "last page" },
	[AUDIT_PAGE_EOF] = { "page-eof", "a used page lies beyond the end of the file", false,
	    "refers to", "pages in the file" },
	[AUDIT_PAGE_TWICE] = { "page-twice", "a page is used twice", false, NULL, NULL },
	[AUDIT_PAGE_LOST] = { "page-lost", "a page is neither used nor free", false, NULL, NULL },
	[AUDIT_PAGE_NUMBER] = { "page-number", "a page's header has another number", false,
	    "number", "expected" },
	[AUDIT_PAGE_FLAGS] = { "page-flags", "a page is not of the type that belongs here", false,
	    "flags", "expected" },
	[AUDIT_PAGE_BOUNDS] = { "page-bounds", "a page's free space has impossible bounds", false,
	    "lower", "upper" },
	[AUDIT_PAGE_KEYS] = { "page-keys", "a page has too few keys", false, "keys", "least" },
	[AUDIT_TREE_DEPTH] = { "tree-depth", "leaves at different depths, or too deep", false,
	    "depth", "expected" },
	[AUDIT_NODE_BOUNDS] = { "node-bounds", "a node leaves its page", false, "offset", "limit" },
	[AUDIT_NODE_OVERLAP] = { "node-overlap", "nodes overlap or leave a hole", false, "offset",
	    NULL },
	[AUDIT_NODE_FLAGS] = { "node-flags", "a node has flags that cannot be here", false, "flags",
	    NULL },
	[AUDIT_NODE_SIZE] = { "node-size", "a node's value has an impossible size", false, "size",
	    "expected" },
	[AUDIT_KEY_SIZE] = { "key-size", "a key or value of fixed size has another", false, "size",
	    "expected" },
	[AUDIT_KEY_ORDER] = { "key-order", "keys of a page are not in order", false, NULL, NULL },
	[AUDIT_KEY_BOUND] = { "key-bound", "a key lies outside of what its branch says", false,
	    NULL, NULL },
	[AUDIT_DUP_ORDER] = { "dup-order", "sorted values of a key are not in order", false, NULL,
	    NULL },
	[AUDIT_SUBPAGE] = { "sub-page", "a sub-page's header is impossible", false, "found",
	    "expected" },
	[AUDIT_OVERFLOW_RUN] = { "overflow-run", "an overflow run is too short for its value",
	    false, "pages", "needed" },
	[AUDIT_DB_RECORD] = { "db-record", "a database record is impossible", false, "flags",
	    "expected" },
	[AUDIT_DB_DEPTH] = { "db-depth", "a database record has another depth", false, "recorded",
	    "counted" },
	[AUDIT_DB_ENTRIES] = { "db-entries", "a database record has another number of entries",
	    false, "recorded", "counted" },
	[AUDIT_DB_BRANCH] = { "db-branch-pages",
	    "a database record has another number of branch pages", false, "recorded", "counted" },
	[AUDIT_DB_LEAF] = { "db-leaf-pages", "a database record has another number of leaf pages",
	    false, "recorded", "counted" },
	[AUDIT_DB_OVERFLOW] = { "db-overflow-pages",
	    "a database record has another number of overflow pages", false, "recorded",
	    "counted" },
	[AUDIT_FREE_RECORD] = { "free-record", "a free-list record has an impossible size", false,
	    "found", "limit" },
	[AUDIT_FREE_ORDER] = { "free-order", "a free-list record is not in descending order", false,
	    "page", "after" },
	[AUDIT_FREE_RANGE] = { "free-range", "a free-list record lists no page of the snapshot",
	    false, "page", "last page" },
	[AUDIT_FREE_TXNID] = { "free-txnid", "a free-list record's transaction is impossible",
	    false, "transaction", "snapshot" },
	[AUDIT_FREE_TWICE] = { "free-twice", "a page is listed free twice", false, NULL, NULL },
	[AUDIT_FREE_USED] = { "free-used", "a page is free and used", false, NULL, NULL },
};

bool audit_is_note(enum audit_class c)
{
	return classes[c].note;
}

const char *audit_class_name(enum audit_class c)
{
	return classes[c].name;
}

const char *audit_class_text(enum audit_class c)
{
	return classes[c].text;
}

void audit_print_problem(FILE *out, const struct audit_problem *p)
{
	fprintf(out, "%s %s: ", classes[p->what].note ? "note " : "error", classes[p->what].name);
	if (p->db[0])
		fprintf(out, "database %s, ", p->db);
	if (p->page != AUDIT_NO_PAGE)
		fprintf(out, "page %" PRIu64 ", ", p->page);
	if (p->index >= 0)
		fprintf(out, "index %d, ", p->index);
	fputs(classes[p->what].text, out);
	if (classes[p->what].got)
		fprintf(out, " (%s %" PRIu64, classes[p->what].got, p->got);
	if (classes[p->what].want)
		fprintf(out, ", %s %" PRIu64, classes[p->what].want, p->want);
	fputs(classes[p->what].got ? ")\n" : "\n", out);
}

static void print_name(FILE *out, const struct audit_db *db)
{
	if (db->is_free || db->is_main) {
		fputs(db->is_free ? "(free)" : "(main)", out);
		return;
	}
	for (size_t i = 0; i < db->name.n; i++) {
		uint8_t c = db->name.p[i];

		fprintf(out, c >= 0x20 && c < 0x7f && c != '\\' ? "%c" : "\\x%02x", c);
	}
}

void audit_print_text(FILE *out, const struct audit_report *r)
{
	for (size_t i = 0; i < r->n_problems; i++)
		audit_print_problem(out, &r->problems[i]);
	if (r->n_problems < r->errors + r->notes)
		fprintf(out, "... and %" PRIu64 " more\n", r->errors + r->notes - r->n_problems);
	if (!r->readable) {
		fputs("no snapshot to audit\n", out);
		return;
	}
	fprintf(out,
	    "transaction %" PRIu64 " in meta page %d (the two: %" PRIu64 ", %" PRIu64
	    "), page size %u, last page %" PRIu64 "\n",
	    r->txnid, r->slot, r->meta_txnid[0], r->meta_txnid[1], r->page_size, r->last_page);
	for (size_t i = 0; i < r->n_dbs; i++) {
		const struct audit_db *db = &r->dbs[i];

		fputs("  ", out);
		print_name(out, db);
		fprintf(out,
		    ": flags 0x%02x, depth %u, %" PRIu64 " entries, %" PRIu64 " branch, %" PRIu64
		    " leaf, %" PRIu64 " overflow",
		    db->flags, db->depth, db->entries, db->branch_pages, db->leaf_pages,
		    db->overflow_pages);
		if (db->dup_trees)
			fprintf(out, ", %" PRIu64 " trees of values with %" PRIu64 " pages",
			    db->dup_trees, db->dup_pages);
		if (db->keys_unordered)
			fputs(", order of keys not checked", out);
		if (db->dups_unordered)
			fputs(", order of values not checked", out);
		fputc('\n', out);
	}
	fprintf(out,
	    "%" PRIu64 " pages used, %" PRIu64 " free in %" PRIu64 " records; content %016" PRIx64
	    "%016" PRIx64 "\n",
	    r->used_pages, r->free_pages, r->free_records, r->digest.sum[1], r->digest.sum[0]);
	fprintf(out, "%" PRIu64 " errors, %" PRIu64 " notes\n", r->errors, r->notes);
}

/* A JSON string of any bytes: those that are not ASCII text come as the code point of their value
 * (Latin-1), so that the bytes can be had back. */
static void json_bytes(FILE *out, const uint8_t *p, size_t n)
{
	fputc('"', out);
	for (size_t i = 0; i < n; i++) {
		if (p[i] < 0x20 || p[i] >= 0x7f || p[i] == '"' || p[i] == '\\')
			fprintf(out, "\\u%04x", p[i]);
		else
			fputc(p[i], out);
	}
	fputc('"', out);
}

static void json_db(FILE *out, const struct audit_db *db)
{
	fputs("{\"name\":", out);
	if (db->is_free || db->is_main)
		fputs("null", out);
	else
		json_bytes(out, db->name.p, db->name.n);
	fprintf(out,
	    ",\"kind\":\"%s\",\"flags\":%u,\"depth\":%u,\"entries\":%" PRIu64
	    ",\"branch_pages\":%" PRIu64 ",\"leaf_pages\":%" PRIu64 ",\"overflow_pages\":%" PRIu64
	    ",\"dup_trees\":%" PRIu64 ",\"dup_pages\":%" PRIu64
	    ",\"key_order_checked\":%s,\"dup_order_checked\":%s}",
	    db->is_free	  ? "free"
	    : db->is_main ? "main"
			  : "named",
	    db->flags, db->depth, db->entries, db->branch_pages, db->leaf_pages, db->overflow_pages,
	    db->dup_trees, db->dup_pages, db->keys_unordered ? "false" : "true",
	    db->dups_unordered ? "false" : "true");
}

static void json_problem(FILE *out, const struct audit_problem *p)
{
	fprintf(out, "{\"class\":\"%s\",\"note\":%s,\"database\":", classes[p->what].name,
	    classes[p->what].note ? "true" : "false");
	json_bytes(out, (const uint8_t *)p->db, strnlen(p->db, sizeof(p->db)));
	if (p->page == AUDIT_NO_PAGE)
		fputs(",\"page\":null", out);
	else
		fprintf(out, ",\"page\":%" PRIu64, p->page);
	fprintf(out, ",\"index\":%d,\"got\":%" PRIu64 ",\"want\":%" PRIu64 "}", p->index, p->got,
	    p->want);
}

void audit_print_json(FILE *out, const struct audit_report *r)
{
	fprintf(out,
	    "{\"readable\":%s,\"sound\":%s,\"errors\":%" PRIu64 ",\"notes\":%" PRIu64
	    ",\"txnid\":%" PRIu64 ",\"slot\":%d,\"meta_txnids\":[%" PRIu64 ",%" PRIu64
	    "],\"page_size\":%u,\"last_page\":%" PRIu64 ",\"map_size\":%" PRIu64
	    ",\"used_pages\":%" PRIu64 ",\"free_pages\":%" PRIu64 ",\"free_records\":%" PRIu64
	    ",\"digest\":\"%016" PRIx64 "%016" PRIx64 "\",\"databases\":[",
	    r->readable ? "true" : "false", audit_sound(r) ? "true" : "false", r->errors, r->notes,
	    r->txnid, r->slot, r->meta_txnid[0], r->meta_txnid[1], r->page_size, r->last_page,
	    r->map_size, r->used_pages, r->free_pages, r->free_records, r->digest.sum[1],
	    r->digest.sum[0]);
	for (size_t i = 0; i < r->n_dbs; i++) {
		if (i)
			fputc(',', out);
		json_db(out, &r->dbs[i]);
	}
	fputs("],\"problems\":[", out);
	for (size_t i = 0; i < r->n_problems; i++) {
		if (i)
			fputc(',', out);
		json_problem(out, &r->problems[i]);
	}
	fputs("],\"counts\":{", out);
	for (int c = 0, first = 1; c < AUDIT_CLASS_COUNT; c++) {
		if (!r->count[c])
			continue;
		fprintf(out, "%s\"%s\":%" PRIu64, first ? "" : ",", classes[c].name, r->count[c]);
		first = 0;
	}
	fputs("}}\n", out);
}
