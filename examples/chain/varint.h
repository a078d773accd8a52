/* SPDX-License-Identifier: BSD-2-Clause
 *
 * varint.h - numbers as the format writes them. cursor.h reads them.
 */
#ifndef CHAIN_VARINT_H
#define CHAIN_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define VARINT_MAX 10 /* bytes of 64 bits */

/* Writes v to p, which has room for it; how many bytes that were. */
static inline size_t varint_put(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	while (v >= 0x80) {
		p[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	p[n++] = (uint8_t)v;
	return n;
}

static inline size_t varint_size(uint64_t v)
{
	size_t n = 1;

	for (; v >= 0x80; v >>= 7)
		n++;
	return n;
}

/* Little-endian, as all fixed-width numbers. */
static inline size_t u32_put(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	return 4;
}

#endif
