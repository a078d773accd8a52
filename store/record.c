/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.c - see record.h.
 *
 * Layout, format 1. Ranges follow the fixed part: for each, the pages between the end of the one
 * before and its start, and its pages, as LEB128 numbers. The checksum is XXH3-128 of the first
 * `length` bytes with the checksum itself taken as zero; the rest of the slot is zero.
 */
#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define FORMAT 1u

static const unsigned char magic[8] = { 'p', 'g', 'w', 'r', 'e', 'c', 'r', 'd' };

enum {
	AT_MAGIC = 0,
	AT_CHECKSUM = 8,
	AT_FORMAT = 24,
	AT_LENGTH = 28,
	AT_SEQ = 32,
	AT_TXNID = 40,
	AT_WALL = 48,
	AT_FLAGS = 56,
	AT_RANGES = 60, /* how many */
	AT_DIGEST = 64,
	AT_INODE = 80,
	AT_DEVICE = 88,
	AT_BIRTH = 96,
	AT_MOUNT = 104,
	AT_BOOT = 112,
	AT_META = 128,
	FIXED = AT_META + PGW__META_SIZE
};

#define FLAG_DIGEST 1u

static void checksum(const unsigned char *slot, uint32_t length, unsigned char out[16])
{
	static const unsigned char zero[16];
	XXH3_state_t state;
	XXH128_canonical_t canonical;

	XXH3_128bits_reset(&state);
	XXH3_128bits_update(&state, slot, AT_CHECKSUM);
	XXH3_128bits_update(&state, zero, 16);
	XXH3_128bits_update(&state, slot + AT_FORMAT, length - AT_FORMAT);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
	memcpy(out, canonical.digest, 16);
}

/* False if there is no room. */
static bool put_number(unsigned char *slot, uint32_t *at, uint64_t v)
{
	do {
		if (*at == PGW__RECORD_SIZE)
			return false;
		slot[(*at)++] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	return true;
}

/* False if it is cut off or too large. */
static bool get_number(const unsigned char *slot, uint32_t length, uint32_t *at, uint64_t *v)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 63; shift += 7) {
		if (*at == length)
			return false;
		n |= (uint64_t)(slot[*at] & 0x7f) << shift;
		if (!(slot[(*at)++] & 0x80)) {
			*v = n;
			return true;
		}
	}
	return false;
}

static int put_ranges(
    unsigned char *slot, const struct pgw_ranges *ranges, uint32_t psize, uint32_t *at)
{
	uint64_t before = 0;

	for (size_t i = 0; i < ranges->n; i++) {
		uint64_t start = ranges->v[i].start / psize, pages = ranges->v[i].len / psize;

		if (!put_number(slot, at, start - before) || !put_number(slot, at, pages))
			return -E2BIG;
		before = start + pages;
	}
	return 0;
}

int pgw__record_encode(const struct pgw__record *r, const struct pgw_ranges *ranges, uint32_t psize,
    unsigned char out[PGW__RECORD_SIZE])
{
	unsigned char slot[PGW__RECORD_SIZE] = { 0 };
	uint32_t length = FIXED;

	if (r->has_digest && put_ranges(slot, ranges, psize, &length))
		return -E2BIG;
	memcpy(slot + AT_MAGIC, magic, sizeof(magic));
	pgw__put32(slot, AT_FORMAT, FORMAT);
	pgw__put32(slot, AT_LENGTH, length);
	pgw__put64(slot, AT_SEQ, r->seq);
	pgw__put64(slot, AT_TXNID, r->txnid);
	pgw__put64(slot, AT_WALL, r->wall);
	pgw__put32(slot, AT_FLAGS, r->has_digest ? FLAG_DIGEST : 0);
	pgw__put32(slot, AT_RANGES, r->has_digest ? (uint32_t)ranges->n : 0);
	if (r->has_digest)
		memcpy(slot + AT_DIGEST, r->digest, 16);
	pgw__put64(slot, AT_INODE, r->id.inode);
	pgw__put64(slot, AT_DEVICE, r->id.device);
	pgw__put64(slot, AT_BIRTH, r->id.birth);
	pgw__put64(slot, AT_MOUNT, r->id.mount);
	memcpy(slot + AT_BOOT, r->id.boot, 16);
	memcpy(slot + AT_META, r->meta, PGW__META_SIZE);
	checksum(slot, length, slot + AT_CHECKSUM);
	memcpy(out, slot, PGW__RECORD_SIZE);
	return 0;
}

static int get_ranges(const unsigned char *slot, uint32_t length, uint32_t psize, uint64_t last_pg,
    struct pgw_ranges *ranges)
{
	uint32_t at = FIXED;
	uint64_t next = 0;

	for (uint32_t i = pgw__get32(slot, AT_RANGES); i; i--) {
		uint64_t gap, pages;

		if (!get_number(slot, length, &at, &gap) || !get_number(slot, length, &at, &pages))
			return -EPROTO;
		/* next <= last_pg + 1 <= 2^47, and a number is below 2^63: no overflow. */
		if (!pages || gap > last_pg || next + gap > last_pg ||
		    pages - 1 > last_pg - (next + gap))
			return -EPROTO;
		if (pgw_ranges_add(ranges, (next + gap) * psize, pages * psize))
			return -ENOMEM;
		next += gap + pages;
	}
	return at == length ? 0 : -EPROTO;
}

/* Does the meta image fit the record and the file? */
static bool plausible(const unsigned char *slot, uint32_t psize)
{
	const unsigned char *meta = slot + AT_META;

	return pgw__get32(meta, PGW__META_MAGIC) == PGW__LMDB_MAGIC &&
	       pgw__get32(meta, PGW__META_PSIZE) == psize &&
	       pgw__get64(meta, PGW__META_TXNID) == pgw__get64(slot, AT_TXNID) &&
	       pgw__get64(meta, PGW__META_LAST_PG) < (UINT64_C(1) << 47);
}

static bool all_zero(const unsigned char *p, size_t n)
{
	while (n && !*p)
		p++, n--;
	return !n;
}

static void get_fixed(const unsigned char *slot, struct pgw__record *r)
{
	r->seq = pgw__get64(slot, AT_SEQ);
	r->txnid = pgw__get64(slot, AT_TXNID);
	r->wall = pgw__get64(slot, AT_WALL);
	r->has_digest = pgw__get32(slot, AT_FLAGS) & FLAG_DIGEST;
	memcpy(r->digest, slot + AT_DIGEST, 16);
	r->id.inode = pgw__get64(slot, AT_INODE);
	r->id.device = pgw__get64(slot, AT_DEVICE);
	r->id.birth = pgw__get64(slot, AT_BIRTH);
	r->id.mount = pgw__get64(slot, AT_MOUNT);
	memcpy(r->id.boot, slot + AT_BOOT, 16);
	memcpy(r->meta, slot + AT_META, PGW__META_SIZE);
}

int pgw__record_decode(const unsigned char in[PGW__RECORD_SIZE], uint32_t psize,
    struct pgw__record *r, struct pgw_ranges *ranges)
{
	uint32_t length = pgw__get32(in, AT_LENGTH);
	unsigned char sum[16];
	int rc;

	pgw_ranges_clear(ranges);
	if (all_zero(in, PGW__RECORD_SIZE))
		return -ENOENT;
	if (memcmp(in + AT_MAGIC, magic, sizeof(magic)) || length < FIXED ||
	    length > PGW__RECORD_SIZE)
		return -EBADMSG;
	checksum(in, length, sum);
	if (memcmp(sum, in + AT_CHECKSUM, 16))
		return -EBADMSG;
	if (pgw__get32(in, AT_FORMAT) != FORMAT || (pgw__get32(in, AT_FLAGS) & ~FLAG_DIGEST) ||
	    !plausible(in, psize))
		return -EPROTO;
	rc = get_ranges(in, length, psize, pgw__get64(in, AT_META + PGW__META_LAST_PG), ranges);
	if (rc) {
		pgw_ranges_clear(ranges);
		return rc;
	}
	get_fixed(in, r);
	return 0;
}

#define CHUNK ((size_t)1 << 18)

static int update_from_file(XXH3_state_t *state, int fd, struct pgw_range r, unsigned char *buf)
{
	while (r.len) {
		struct pgw_range part = pgw_range_take(&r, CHUNK);

		for (uint64_t done = 0; done < part.len;) {
			ssize_t n = pread(fd, buf, part.len - done, (off_t)(part.start + done));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				return n ? -errno : -ENODATA;
			XXH3_128bits_update(state, buf, (size_t)n);
			done += (uint64_t)n;
		}
	}
	return 0;
}

int pgw__record_digest(
    const void *map, int fd, const struct pgw_ranges *ranges, unsigned char out[16])
{
	unsigned char *buf = map ? NULL : malloc(CHUNK);
	XXH128_canonical_t canonical;
	XXH3_state_t state;
	int rc = 0;

	if (!map && !buf)
		return -ENOMEM;
	XXH3_128bits_reset(&state);
	for (size_t i = 0; i < ranges->n && !rc; i++) {
		struct pgw_range r = ranges->v[i];

		if (map)
			XXH3_128bits_update(&state, (const char *)map + r.start, r.len);
		else
			rc = update_from_file(&state, fd, r, buf);
	}
	free(buf);
	if (rc)
		return rc;
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
	memcpy(out, canonical.digest, 16);
	return 0;
}
