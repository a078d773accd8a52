/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit.h - an auditor of LMDB data files that shares no code with LMDB.
 *
 * It reads the file format itself (version 1, 64-bit, little-endian, page size from the file) and
 * checks one snapshot completely: that every page up to the last one is used exactly once or free
 * exactly once, that every page is what its parent says, that keys are in order, and that every
 * count in a database record is true. It is what the crash tests believe, so it must not believe
 * anything in the file: any bytes whatsoever get a report, never a crash.
 *
 * Not thread-safe per report; different reports are independent.
 */
#ifndef PGW_TESTS_AUDIT_H
#define PGW_TESTS_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What can be wrong. audit_class_name gives the short name that the command prints. */
enum audit_class {
	/* the file and its two meta pages */
	AUDIT_FILE_SHORT,   /* too short for two meta pages */
	AUDIT_META_MAGIC,   /* not LMDB's magic number */
	AUDIT_META_VERSION, /* not format version 1 (a fence of pagewise's store, for instance) */
	AUDIT_META_PAGE,    /* page number or flags of a meta page are wrong */
	AUDIT_META_PSIZE,   /* page size impossible, or the two meta pages disagree */
	AUDIT_META_LAST,    /* last page below 1 or beyond what 64 bits can address */
	AUDIT_META_TXNID,   /* no meta page has the transaction that was asked for; or both have the
			     * same and differ */
	AUDIT_META_SLOT,    /* note: transaction N is not in slot N & 1 */
	AUDIT_META_MAPSIZE, /* note: the last page lies beyond the stated map size */
	/* pages */
	AUDIT_PAGE_RANGE,  /* a reference to page 0, 1, or beyond the last page */
	AUDIT_PAGE_EOF,	   /* a used page lies beyond the end of the file */
	AUDIT_PAGE_TWICE,  /* used by two parents */
	AUDIT_PAGE_LOST,   /* neither used nor free */
	AUDIT_PAGE_NUMBER, /* the number in the header is another */
	AUDIT_PAGE_FLAGS,  /* not the type that belongs here, or marked dirty */
	AUDIT_PAGE_BOUNDS, /* free-space bounds are impossible */
	AUDIT_PAGE_KEYS,   /* a leaf without a key, a branch with too few */
	AUDIT_TREE_DEPTH,  /* leaves at different depths, or deeper than LMDB can go */
	/* nodes */
	AUDIT_NODE_BOUNDS,  /* an offset or a length leaves the page */
	AUDIT_NODE_OVERLAP, /* nodes overlap, or do not fill their heap */
	AUDIT_NODE_FLAGS,   /* flags that cannot be here */
	AUDIT_NODE_SIZE,    /* a database record or a page number of the wrong size */
	AUDIT_KEY_SIZE,	    /* a key of an integer or fixed-size database has another size */
	AUDIT_KEY_ORDER,    /* keys of a page not in strict ascending order */
	AUDIT_KEY_BOUND,    /* a key outside of what the branch above says */
	AUDIT_DUP_ORDER,    /* the same two for the sorted values of one key */
	AUDIT_SUBPAGE,	    /* a sub-page's header is impossible */
	AUDIT_OVERFLOW_RUN, /* an overflow run is too short for its value, or leaves the file */
	/* database records */
	AUDIT_DB_RECORD,   /* flags or root are impossible */
	AUDIT_DB_DEPTH,	   /* md_depth */
	AUDIT_DB_ENTRIES,  /* md_entries */
	AUDIT_DB_BRANCH,   /* md_branch_pages */
	AUDIT_DB_LEAF,	   /* md_leaf_pages */
	AUDIT_DB_OVERFLOW, /* md_overflow_pages */
	/* the free list */
	AUDIT_FREE_RECORD, /* a record of the wrong shape */
	AUDIT_FREE_ORDER,  /* page numbers not in strict descending order */
	AUDIT_FREE_RANGE,  /* lists page 0, 1, or one beyond the last page */
	AUDIT_FREE_TXNID,  /* a record of transaction 0 or of one after the snapshot */
	AUDIT_FREE_TWICE,  /* a page is listed twice */
	AUDIT_FREE_USED,   /* a page is both free and used */
	AUDIT_CLASS_COUNT
};

#define AUDIT_NAME_MAX 64 /* bytes of a database's name that a problem keeps, with the NUL */

struct audit_problem {
	enum audit_class what;
	uint64_t page;		 /* the page it was seen on; AUDIT_NO_PAGE if on none */
	int index;		 /* node, free-list entry or meta slot; -1 if none */
	uint64_t got, want;	 /* where two numbers disagree, else 0 */
	char db[AUDIT_NAME_MAX]; /* escaped; "(free)", "(main)" for LMDB's own two */
};

#define AUDIT_NO_PAGE UINT64_MAX

/* Digest of a set of (database, key, value) triples and of (database, flags) pairs, independent of
 * order: a model can keep it up to date by adding and taking away. 128 bits. */
struct audit_digest {
	uint64_t sum[2];
};

/* A key or a value. Not aligned. */
struct audit_bytes {
	const uint8_t *p;
	size_t n;
};

/* One database of the snapshot, as counted (not as recorded; differences are problems). */
struct audit_db {
	struct audit_bytes name; /* points into the file; n 0 for LMDB's own two */
	bool is_free, is_main;
	uint16_t flags; /* as recorded */
	uint32_t depth;
	uint64_t entries, branch_pages, leaf_pages, overflow_pages;
	/* Trees of sorted values that grew out of their sub-page: their pages, which the database
	 * record does not count, and how many trees. */
	uint64_t dup_trees, dup_pages;
	bool keys_unordered, dups_unordered; /* not checked: the caller said so */
};

/* What was found. Filled in by audit_memory; release with audit_finish. */
struct audit_report {
	bool readable; /* a snapshot was found and walked */
	uint32_t page_size;
	int slot; /* meta page of the snapshot */
	uint64_t txnid, last_page, map_size;
	uint64_t meta_txnid[2]; /* of both slots, 0 if unreadable */
	bool meta_ok[2];
	uint64_t used_pages, free_pages, free_records;
	struct audit_digest digest;

	struct audit_db *dbs; /* free, main, then named ones in the order of the main database */
	size_t n_dbs;

	uint64_t count[AUDIT_CLASS_COUNT]; /* every problem and note */
	uint64_t errors, notes;
	struct audit_problem *problems; /* the first max_problems */
	size_t n_problems;
};

struct audit_options {
	uint64_t txnid;	     /* audit the snapshot of this transaction; 0: the current one */
	size_t max_problems; /* to keep in detail; 0: 64 */
	/* Databases whose keys or sorted values have a comparison function of the application's:
	 * NULL-terminated lists of names, or "*" for all. Order is then not checked there. */
	const char *const *custom_key_order;
	const char *const *custom_dup_order;
	/* Called for every triple, in the order of the tree, if not NULL. A key without sorted
	 * values comes once, with sorted values once for each. */
	void (*visit)(
	    void *arg, const struct audit_db *db, struct audit_bytes key, struct audit_bytes value);
	void *arg;
};

/* Audit a file's content in memory. buf: len bytes, which must stay until audit_finish. options may
 * be NULL. A file full of errors is a result, not a failure: 0, or -ENOMEM with *r empty. Takes
 * memory of one byte per page. */
int audit_memory(
    const void *buf, size_t len, const struct audit_options *options, struct audit_report *r);

void audit_finish(struct audit_report *r);

/* Nothing but notes. */
static inline bool audit_sound(const struct audit_report *r)
{
	return r->readable && !r->errors;
}

bool audit_is_note(enum audit_class c);
const char *audit_class_name(enum audit_class c); /* "page-twice" */
const char *audit_class_text(enum audit_class c); /* one line for a reader */

/* One line: class, database, page, index, numbers. */
void audit_print_problem(FILE *out, const struct audit_problem *p);
void audit_print_text(FILE *out, const struct audit_report *r);
void audit_print_json(FILE *out, const struct audit_report *r);

/* The digest's parts. A database that exists counts by its name and flags; a triple by its
 * database's name, key and value. The unnamed database has the empty name and does not count by
 * itself. add_* and sub_* are inverses. */
void audit_digest_add(struct audit_digest *d, struct audit_bytes db, struct audit_bytes key,
    struct audit_bytes value);
void audit_digest_sub(struct audit_digest *d, struct audit_bytes db, struct audit_bytes key,
    struct audit_bytes value);
void audit_digest_add_db(struct audit_digest *d, struct audit_bytes db, uint16_t flags);
void audit_digest_sub_db(struct audit_digest *d, struct audit_bytes db, uint16_t flags);

static inline bool audit_digest_equal(struct audit_digest a, struct audit_digest b)
{
	return a.sum[0] == b.sum[0] && a.sum[1] == b.sum[1];
}

#endif
