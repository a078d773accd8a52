/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.h - the record of a durable snapshot, as it lies in a meta page.
 *
 * A record says: the snapshot whose meta image I hold is durable, if the pages in my ranges have my
 * digest. It is written together with those pages, before the one barrier that covers both; so only
 * the digest can tell whether the barrier was reached. A record without a digest was written after
 * a barrier of its own had covered the pages, and needs no proof but its checksum.
 *
 * There are two, in the two meta pages, written in turn: what is being written can be torn, and the
 * other one is whole then.
 */
#ifndef PGW_STORE_RECORD_H
#define PGW_STORE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <pagewise/range.h>

#include "format.h"
#include "identity.h"

struct pgw__record {
	uint64_t seq; /* grows with every record of a file; the slot is seq & 1 */
	uint64_t txnid;
	uint64_t wall; /* ns since 1970, when the snapshot was cut */
	bool has_digest;
	unsigned char digest[16];
	struct pgw__identity id;
	unsigned char meta[PGW__META_SIZE];
};

/* Write the record, with the ranges if it has a digest (normal form, whole pages of psize).
 * 0, or -E2BIG: the ranges do not fit. */
int pgw__record_encode(const struct pgw__record *r, const struct pgw_ranges *ranges, uint32_t psize,
    unsigned char out[PGW__RECORD_SIZE]);

/* The reverse, of arbitrary bytes. ranges: a set on the heap that is emptied and filled.
 * 0; -ENOENT: nothing but zeros; -EBADMSG: torn, or not a record; -EPROTO: a whole record of
 * another version of the format, or one that contradicts itself; -ENOMEM. On failure *r is
 * untouched. */
int pgw__record_decode(const unsigned char in[PGW__RECORD_SIZE], uint32_t psize,
    struct pgw__record *r, struct pgw_ranges *ranges);

/* The digest of ranges of a file, read through a map of it or, if that is NULL, from fd. The ranges
 * are in normal form. 0; -ENODATA: the file ends before; or what reading gives. */
int pgw__record_digest(
    const void *map, int fd, const struct pgw_ranges *ranges, unsigned char out[16]);

#endif
