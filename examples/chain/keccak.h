/* SPDX-License-Identifier: BSD-2-Clause
 *
 * keccak.h - Keccak-256 with the padding of the original submission (0x01), as Monero uses it.
 *
 * Not SHA3-256: the standard changed the padding to 0x06 after Monero's format was in use, and the
 * packaged libraries offer only the standard. The permutation itself is the same, and nettle
 * exports it; the sponge around it is here.
 */
#ifndef CHAIN_KECCAK_H
#define CHAIN_KECCAK_H

#include <stddef.h>
#include <stdint.h>

#include <nettle/sha3.h>

#define HASH_SIZE   32
#define KECCAK_RATE 136 /* bytes absorbed per permutation: 200 - 2 * HASH_SIZE */

struct keccak {
	struct sha3_state state;
	size_t fill; /* bytes absorbed since the last permutation, < KECCAK_RATE */
};

void keccak_init(struct keccak *k);
void keccak_update(struct keccak *k, const void *data, size_t len);
/* k must be initialised again before it is used again. */
void keccak_final(struct keccak *k, uint8_t out[HASH_SIZE]);
/* All of it at once. */
void keccak256(const void *data, size_t len, uint8_t out[HASH_SIZE]);

#endif
