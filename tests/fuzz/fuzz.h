/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fuzz.h - what a fuzz target is made of: one function, called by libFuzzer or by replay.c.
 */
#ifndef PGW_TESTS_FUZZ_H
#define PGW_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() that is there in every build. */
#define CHECK(x)                                                                          \
	do {                                                                              \
		if (!(x)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #x); \
			abort();                                                          \
		}                                                                         \
	} while (0)

/* The input, byte by byte; zeros once it has ended. */
struct input {
	const uint8_t *p;
	size_t left;
};

static inline uint8_t next_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

static inline uint16_t next_u16(struct input *in)
{
	uint16_t high = next_byte(in);

	return (uint16_t)(high << 8 | next_byte(in));
}

static inline uint64_t next_u64(struct input *in)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | next_byte(in);
	return v;
}

#endif
