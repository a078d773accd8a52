/* SPDX-License-Identifier: BSD-2-Clause
 *
 * keccak.c - see keccak.h.
 */
#include "keccak.h"

#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "examples/chain stores and hashes Monero's little-endian words as they lie in memory"
#endif

void keccak_init(struct keccak *k)
{
	memset(k, 0, sizeof(*k));
}

void keccak_update(struct keccak *k, const void *data, size_t len)
{
	const uint8_t *in = data;
	uint8_t *lanes = (uint8_t *)k->state.a;

	while (len > 0) {
		size_t n = KECCAK_RATE - k->fill;

		if (n > len)
			n = len;
		for (size_t i = 0; i < n; i++)
			lanes[k->fill + i] ^= in[i];
		k->fill += n;
		in += n;
		len -= n;
		if (k->fill == KECCAK_RATE) {
			sha3_permute(&k->state);
			k->fill = 0;
		}
	}
}

void keccak_final(struct keccak *k, uint8_t out[HASH_SIZE])
{
	uint8_t *lanes = (uint8_t *)k->state.a;

	/* Both may fall on the same byte, which then holds 0x81. */
	lanes[k->fill] ^= 0x01;
	lanes[KECCAK_RATE - 1] ^= 0x80;
	sha3_permute(&k->state);
	memcpy(out, lanes, HASH_SIZE);
}

void keccak256(const void *data, size_t len, uint8_t out[HASH_SIZE])
{
	struct keccak k;

	keccak_init(&k);
	keccak_update(&k, data, len);
	keccak_final(&k, out);
}
