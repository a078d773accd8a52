/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit_internal.h - between audit.c (metas, free list, coverage) and audit_tree.c (pages, nodes).
 */
#ifndef PGW_TESTS_AUDIT_INTERNAL_H
#define PGW_TESTS_AUDIT_INTERNAL_H

#include "audit.h"
#include "format.h"

enum page_state { PAGE_UNSEEN, PAGE_USED, PAGE_FREE };

/* A named database seen in the main one, walked after it. */
struct audit_named {
	struct audit_bytes name;
	struct fmt_record record;
};

struct audit {
	const uint8_t *buf;
	uint64_t psize;
	uint64_t file_pages; /* whole ones in the file */
	uint64_t last_page;
	uint64_t txnid;
	uint8_t *state; /* enum page_state of pages below n_state */
	uint64_t n_state;
	/* Free pages beyond the end of the file, which is legal. */
	uint64_t *far;
	size_t n_far, cap_far;
	struct audit_named *named;
	size_t n_named, cap_named;
	size_t cap_dbs;
	const struct audit_options *opt;
	struct audit_report *r;
	bool out_of_memory; /* stop walking; audit_memory fails */
};

enum tree_kind { TREE_FREE, TREE_MAIN, TREE_NAMED, TREE_DUP };

struct tree {
	struct audit *a;
	enum tree_kind kind;
	const struct fmt_record *rec;
	const char *name; /* for problems */
	int (*compare)(struct audit_bytes a, struct audit_bytes b);
	bool unordered;	 /* do not check key order */
	bool integer;	 /* keys are 4 or 8 bytes, all the same */
	bool fixed;	 /* keys are key_size bytes */
	size_t key_size; /* what the first key had, once known (integer, or fixed size) */
	uint32_t depth;	 /* of the first leaf met; 0: none yet */
	uint64_t entries, branch_pages, leaf_pages, overflow_pages;
	/* TREE_DUP: the tree whose key this is, and that key. */
	struct tree *owner;
	struct audit_bytes owner_key;
	/* The others: what is reported of the database, and the tree_ of its sorted values. */
	struct audit_db *db;
	int (*dup_compare)(struct audit_bytes a, struct audit_bytes b);
	bool dups_unordered, dup_integer;
	size_t dup_size;
};

/* Note a problem. index and the numbers as in struct audit_problem. */
void audit_note(struct audit *a, enum audit_class what, const char *db, uint64_t page, int index,
    uint64_t got, uint64_t want);

/* Claim n pages from first for one owner. False, with the problem noted, if any of them cannot be
 * used: the caller must not read it. */
bool audit_claim(struct audit *a, const char *db, uint64_t from, uint64_t first, uint64_t n);

/* Take one entry of a free-list record: list is its IDL, bytes long. */
void audit_free_record(
    struct tree *t, uint64_t page, int index, struct audit_bytes key, struct audit_bytes value);

/* Walk a tree whose record is t->rec and compare the counts. */
void audit_tree(struct tree *t);

/* Set up a tree by its record's flags. */
void audit_tree_init(struct audit *a, struct tree *t, enum tree_kind kind,
    const struct fmt_record *rec, const char *name, struct audit_db *db);

#endif
