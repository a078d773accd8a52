/* SPDX-License-Identifier: BSD-2-Clause
 *
 * format.h - the bytes of a data file that this library reads or writes itself.
 *
 * LMDB's two meta pages are pages 0 and 1. Of each, LMDB writes the first 152 bytes and nothing
 * else after the file was created:
 *
 *     0    page header; its flags, at 10, have PAGE_META
 *    16    meta image: magic, version, ..., txnid. Transaction T is in page T & 1
 *   152    zero
 *   512    a record of ours (record.h), up to 4096; other sectors than LMDB's, so that neither can
 *          tear the other
 *
 * Magic and version are never written again by LMDB. A version that is not LMDB's keeps LMDB out:
 * that is the fence (fence.h). All numbers are in the order of the machine, as LMDB's are.
 */
#ifndef PGW_STORE_FORMAT_H
#define PGW_STORE_FORMAT_H

#include <stdint.h>
#include <string.h>

#define PGW__HEADER_FLAGS 10
#define PGW__PAGE_META	  0x08

#define PGW__META_OFFSET 16
#define PGW__META_SIZE	 136

/* Offsets in the meta image. */
#define PGW__META_MAGIC	  0
#define PGW__META_VERSION 4
#define PGW__META_PSIZE	  24
#define PGW__META_LAST_PG 120
#define PGW__META_TXNID	  128

#define PGW__LMDB_MAGIC	  0xBEEFC0DEu
#define PGW__LMDB_VERSION 1u

#define PGW__RECORD_OFFSET 512
#define PGW__RECORD_SIZE   3584

/* The page sizes that have room for a record, and that LMDB can have. */
#define PGW__PSIZE_MIN 4096u
#define PGW__PSIZE_MAX 65536u

static inline uint32_t pgw__get32(const void *p, size_t off)
{
	uint32_t v;

	memcpy(&v, (const char *)p + off, sizeof(v));
	return v;
}

static inline uint64_t pgw__get64(const void *p, size_t off)
{
	uint64_t v;

	memcpy(&v, (const char *)p + off, sizeof(v));
	return v;
}

static inline void pgw__put32(void *p, size_t off, uint32_t v)
{
	memcpy((char *)p + off, &v, sizeof(v));
}

static inline void pgw__put64(void *p, size_t off, uint64_t v)
{
	memcpy((char *)p + off, &v, sizeof(v));
}

#endif
