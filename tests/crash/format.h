/* SPDX-License-Identifier: BSD-2-Clause
 *
 * format.h - LMDB's file format, version 1, as it lies on disk on 64-bit little-endian machines.
 *
 * Written from the format's description, for the auditor alone; nothing is taken from lmdb.h. All
 * loads go through memcpy: nothing in a damaged file is aligned.
 *
 *   page    0 page number, 8 pad (size of a fixed-size value), 10 flags, 12 lower, 14 upper
 *           (overflow: 12 number of pages, 32 bits), 16 node offsets, 16 bits each
 *   node    0 low 32 bits of the value's size (branch: of the page number), 4 flags (branch: high
 *           16 bits of the page number), 6 key size, 8 key, then the value
 *   record  0 pad, 4 flags, 6 depth, 8 branch pages, 16 leaf pages, 24 overflow pages, 32 entries,
 *           40 root; 48 bytes
 *   meta    after a page header: 16 magic, 20 version, 24 address, 32 map size, 40 free database
 *           (its pad is the page size), 88 main database, 136 last page, 144 transaction
 */
#ifndef PGW_TESTS_FORMAT_H
#define PGW_TESTS_FORMAT_H

#include <stdint.h>
#include <string.h>

#define FMT_MAGIC   0xBEEFC0DEu
#define FMT_VERSION 1u

#define FMT_PAGE_HEADER 16u
#define FMT_NODE_HEADER 8u
#define FMT_RECORD_SIZE 48u
#define FMT_META_END	152u /* header and meta */
#define FMT_PAGE_MIN	256u
#define FMT_PAGE_MAX	32768u /* offsets are 16 bits */
#define FMT_DEPTH_MAX	32u    /* of a cursor's stack */
#define FMT_NO_ROOT	UINT64_MAX

/* page flags */
#define FMT_BRANCH   0x01u
#define FMT_LEAF     0x02u
#define FMT_OVERFLOW 0x04u
#define FMT_META     0x08u
#define FMT_DIRTY    0x10u
#define FMT_LEAF2    0x20u
#define FMT_SUBPAGE  0x40u

/* node flags */
#define FMT_BIG	 0x01u /* the value is the number of the first page of an overflow run */
#define FMT_TREE 0x02u /* the value is a database record */
#define FMT_DUP	 0x04u /* the value is a sub-page; with FMT_TREE: the record of a tree of values */

/* database flags */
#define FMT_REVERSEKEY 0x02u
#define FMT_DUPSORT    0x04u
#define FMT_INTEGERKEY 0x08u
#define FMT_DUPFIXED   0x10u
#define FMT_INTEGERDUP 0x20u
#define FMT_REVERSEDUP 0x40u
#define FMT_DB_FLAGS   0x7eu

static inline uint16_t fmt_u16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t fmt_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t fmt_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t fmt_page_number(const uint8_t *page)
{
	return fmt_u64(page);
}

static inline uint16_t fmt_page_pad(const uint8_t *page)
{
	return fmt_u16(page + 8);
}

static inline uint16_t fmt_page_flags(const uint8_t *page)
{
	return fmt_u16(page + 10);
}

static inline uint32_t fmt_page_lower(const uint8_t *page)
{
	return fmt_u16(page + 12);
}

static inline uint32_t fmt_page_upper(const uint8_t *page)
{
	return fmt_u16(page + 14);
}

static inline uint32_t fmt_page_run(const uint8_t *page)
{
	return fmt_u32(page + 12);
}

static inline uint64_t fmt_node_child(const uint8_t *node)
{
	return (uint64_t)fmt_u32(node) | (uint64_t)fmt_u16(node + 4) << 32;
}

static inline uint32_t fmt_node_size(const uint8_t *node)
{
	return fmt_u32(node);
}

static inline uint16_t fmt_node_flags(const uint8_t *node)
{
	return fmt_u16(node + 4);
}

static inline uint16_t fmt_node_key_size(const uint8_t *node)
{
	return fmt_u16(node + 6);
}

struct fmt_record {
	uint32_t pad;
	uint16_t flags, depth;
	uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

static inline void fmt_record(const uint8_t *p, struct fmt_record *r)
{
	r->pad = fmt_u32(p);
	r->flags = fmt_u16(p + 4);
	r->depth = fmt_u16(p + 6);
	r->branch_pages = fmt_u64(p + 8);
	r->leaf_pages = fmt_u64(p + 16);
	r->overflow_pages = fmt_u64(p + 24);
	r->entries = fmt_u64(p + 32);
	r->root = fmt_u64(p + 40);
}

struct fmt_meta {
	uint32_t magic, version;
	uint64_t map_size, last_page, txnid;
	struct fmt_record free_db, main_db;
};

static inline void fmt_meta(const uint8_t *page, struct fmt_meta *m)
{
	m->magic = fmt_u32(page + 16);
	m->version = fmt_u32(page + 20);
	m->map_size = fmt_u64(page + 32);
	fmt_record(page + 40, &m->free_db);
	fmt_record(page + 88, &m->main_db);
	m->last_page = fmt_u64(page + 136);
	m->txnid = fmt_u64(page + 144);
}

#endif
