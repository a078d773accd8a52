/* SPDX-License-Identifier: BSD-2-Clause
 *
 * keccak.c - Keccak-256 against published values.
 */
#include <string.h>

#include "support.h"

static void assert_hash(const void *data, size_t n, const char *hex)
{
	uint8_t hash[HASH_SIZE];
	char got[HEX_SIZE];

	keccak256(data, n, hash);
	assert_string_equal(chain_hex(hash, got), hex);
}

static void published(void **state)
{
	uint8_t a3[200];

	/* Keccak team, ShortMsgKAT_256 of the original submission: 0, 8 and 16 bits. */
	assert_hash("", 0, "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
	assert_hash("\xcc", 1, "eead6dbfc7340a56caedc044696a168870549a6a7f6f56961e84a54bd9970b8a");
	assert_hash(
	    "\x41\xfb", 2, "a8eaceda4d47b3281a795ad9e1ea2122b407baf9aabcb9e18b5717b7873537d2");
	/* The usual texts, and more than one block. */
	assert_hash("abc", 3, "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
	assert_hash("The quick brown fox jumps over the lazy dog", 43,
	    "4d741b6f1eb29cb2a9b9911c82f56fa8d73b04959d3d9d222895df6c0b28aa15");
	memset(a3, 0xa3, sizeof(a3));
	assert_hash(
	    a3, sizeof(a3), "3a57666b048777f2c953dc4456f45a2588e1cb6f2da760122d530ac2ce607d4a");
}

/* Every cut of a message into two updates, around one and two blocks. */
static void in_parts(void **state)
{
	uint8_t data[2 * KECCAK_RATE + 3], whole[HASH_SIZE], parts[HASH_SIZE];
	struct keccak k;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)test_random();
	for (size_t n = 0; n <= sizeof(data); n++) {
		keccak256(data, n, whole);
		for (size_t cut = 0; cut <= n; cut++) {
			keccak_init(&k);
			keccak_update(&k, data, cut);
			keccak_update(&k, data + cut, n - cut);
			keccak_final(&k, parts);
			assert_memory_equal(whole, parts, HASH_SIZE);
		}
	}
}

/* The padding by its definition, where it fills a block of its own (136), one byte (135), two. */
static void padding(void **state)
{
	for (size_t n = KECCAK_RATE - 2; n <= KECCAK_RATE; n++) {
		uint8_t data[2 * KECCAK_RATE] = { 0 }, hash[HASH_SIZE];
		size_t blocks = n == KECCAK_RATE ? 2 : 1;
		struct sha3_state st = { 0 };

		memset(data, 0x5c, n);
		keccak256(data, n, hash);
		data[n] |= 0x01;
		data[blocks * KECCAK_RATE - 1] |= 0x80;
		for (size_t b = 0; b < blocks; b++) {
			for (size_t i = 0; i < KECCAK_RATE; i++)
				((uint8_t *)st.a)[i] ^= data[b * KECCAK_RATE + i];
			sha3_permute(&st);
		}
		assert_memory_equal(hash, st.a, HASH_SIZE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published),
		cmocka_unit_test(in_parts),
		cmocka_unit_test(padding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
