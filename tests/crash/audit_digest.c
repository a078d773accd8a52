/* SPDX-License-Identifier: BSD-2-Clause
 *
 * audit_digest.c - the auditor's digest of a snapshot's content.
 *
 * Each item is hashed by itself (128 bits of XXH3, lengths included, so that no two items can be
 * cut differently into the same bytes) and the hashes are added, each half modulo 2^64. Addition
 * makes the digest independent of order and lets a model take an item away again. It is a check
 * against accidents, not against an adversary.
 */
#include "audit.h"

#include <xxhash.h>

enum item { ITEM_DATABASE = 1, ITEM_TRIPLE = 2 };

static XXH128_hash_t hash_item(
    enum item kind, struct audit_bytes db, struct audit_bytes key, struct audit_bytes value)
{
	const struct {
		uint64_t kind, n[3];
		XXH128_hash_t part[3];
	} whole = {
		kind,
		{ db.n, key.n, value.n },
		{ XXH3_128bits(db.p, db.n), XXH3_128bits(key.p, key.n),
		    XXH3_128bits(value.p, value.n) },
	};

	return XXH3_128bits(&whole, sizeof(whole));
}

static void add(struct audit_digest *d, XXH128_hash_t h)
{
	d->sum[0] += h.low64;
	d->sum[1] += h.high64;
}

static void sub(struct audit_digest *d, XXH128_hash_t h)
{
	d->sum[0] -= h.low64;
	d->sum[1] -= h.high64;
}

static struct audit_bytes flags_bytes(const uint8_t le[2])
{
	return (struct audit_bytes){ le, 2 };
}

void audit_digest_add(
    struct audit_digest *d, struct audit_bytes db, struct audit_bytes key, struct audit_bytes value)
{
	add(d, hash_item(ITEM_TRIPLE, db, key, value));
}

void audit_digest_sub(
    struct audit_digest *d, struct audit_bytes db, struct audit_bytes key, struct audit_bytes value)
{
	sub(d, hash_item(ITEM_TRIPLE, db, key, value));
}

void audit_digest_add_db(struct audit_digest *d, struct audit_bytes db, uint16_t flags)
{
	const uint8_t le[2] = { flags & 0xff, flags >> 8 };

	add(d, hash_item(ITEM_DATABASE, db, (struct audit_bytes){ NULL, 0 }, flags_bytes(le)));
}

void audit_digest_sub_db(struct audit_digest *d, struct audit_bytes db, uint16_t flags)
{
	const uint8_t le[2] = { flags & 0xff, flags >> 8 };

	sub(d, hash_item(ITEM_DATABASE, db, (struct audit_bytes){ NULL, 0 }, flags_bytes(le)));
}
