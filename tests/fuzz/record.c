/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.c - any bytes in the place of a record of the store: refused, or read as something that is
 * written back as the same bytes.
 *
 * Arbitrary bytes do not have a right checksum. So the input is tried as it is, and again with the
 * checksum made right.
 */
#include "fuzz.h"

#include <string.h>

/* For its checksum. */
#include "../../store/record.c"

#define PSIZE 4096u

static void check_ranges(const struct pgw_ranges *ranges, uint64_t last_pg)
{
	for (size_t i = 0; i < ranges->n; i++) {
		struct pgw_range r = ranges->v[i];

		CHECK(r.len && r.start % PSIZE == 0 && r.len % PSIZE == 0);
		CHECK(pgw_range_end(r) <= (last_pg + 1) * PSIZE);
		CHECK(!i || pgw_range_end(ranges->v[i - 1]) <= r.start);
	}
}

static void decode(const unsigned char slot[PGW__RECORD_SIZE])
{
	unsigned char again[PGW__RECORD_SIZE];
	struct pgw_ranges ranges, back;
	struct pgw__record r, copy;

	pgw_ranges_init(&ranges);
	pgw_ranges_init(&back);
	if (!pgw__record_decode(slot, PSIZE, &r, &ranges)) {
		check_ranges(&ranges, pgw__get64(r.meta, PGW__META_LAST_PG));
		pgw_ranges_normalize(&ranges);
		CHECK(!pgw__record_encode(&r, &ranges, PSIZE, again));
		CHECK(!pgw__record_decode(again, PSIZE, &copy, &back));
		CHECK(copy.seq == r.seq && copy.txnid == r.txnid);
		CHECK(!memcmp(copy.meta, r.meta, sizeof(r.meta)));
		CHECK(!r.has_digest || back.n == ranges.n);
	} else {
		CHECK(!ranges.n);
	}
	pgw_ranges_finish(&ranges);
	pgw_ranges_finish(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char slot[PGW__RECORD_SIZE] = { 0 };
	uint32_t length;

	memcpy(slot, data, size < sizeof(slot) ? size : sizeof(slot));
	decode(slot);
	length = pgw__get32(slot, AT_LENGTH);
	if (length < FIXED || length > PGW__RECORD_SIZE)
		pgw__put32(slot, AT_LENGTH, length = FIXED + length % (PGW__RECORD_SIZE - FIXED));
	memcpy(slot + AT_MAGIC, magic, sizeof(magic));
	checksum(slot, length, slot + AT_CHECKSUM);
	decode(slot);
	return 0;
}
