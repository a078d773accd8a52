/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cursor.c - see cursor.h.
 */
#include "cursor.h"

void cursor_init(struct cursor *c, const void *data, size_t len, uint64_t origin)
{
	*c = (struct cursor){ .base = data, .len = len, .origin = origin };
}

void cursor_fail_at(struct cursor *c, size_t pos, const char *what, const char *why)
{
	if (c->why)
		return;
	c->what = what;
	c->why = why;
	c->where = c->origin + pos;
}

void cursor_fail(struct cursor *c, const char *what, const char *why)
{
	cursor_fail_at(c, c->pos, what, why);
}

struct span cursor_take(struct cursor *c, size_t n, size_t size, const char *what)
{
	size_t bytes;

	if (c->why)
		return (struct span){ c->base, 0 };
	if (__builtin_mul_overflow(n, size, &bytes) || bytes > cursor_left(c)) {
		cursor_fail(c, what, "runs past the end of the data");
		return (struct span){ c->base, 0 };
	}
	c->pos += bytes;
	return cursor_since(c, c->pos - bytes);
}

uint8_t cursor_u8(struct cursor *c, const char *what)
{
	struct span s = cursor_take(c, 1, 1, what);

	return s.n ? s.p[0] : 0;
}

uint32_t cursor_u32(struct cursor *c, const char *what)
{
	struct span s = cursor_take(c, 4, 1, what);

	if (!s.n)
		return 0;
	return (uint32_t)s.p[0] | (uint32_t)s.p[1] << 8 | (uint32_t)s.p[2] << 16 |
	       (uint32_t)s.p[3] << 24;
}

uint64_t cursor_varint(struct cursor *c, const char *what)
{
	uint64_t v = 0;
	size_t start = c->pos;

	if (c->why)
		return 0;
	for (unsigned shift = 0; c->pos < c->len; shift += 7) {
		uint8_t byte = c->base[c->pos++];
		uint64_t bits = byte & 0x7f;

		if (shift == 63 && byte > 1) {
			c->pos = start;
			cursor_fail(c, what, "varint over 64 bits");
			return 0;
		}
		v |= bits << shift;
		if (byte & 0x80)
			continue;
		if (byte == 0 && shift > 0) {
			c->pos = start;
			cursor_fail(c, what, "varint not in its shortest form");
			return 0;
		}
		return v;
	}
	c->pos = start;
	cursor_fail(c, what, "runs past the end of the data");
	return 0;
}

size_t cursor_count(struct cursor *c, size_t min_size, const char *what)
{
	size_t start = c->pos;
	uint64_t n = cursor_varint(c, what);

	if (n > cursor_left(c) / min_size) {
		cursor_fail_at(c, start, what, "counts more than the data can hold");
		return 0;
	}
	return (size_t)n;
}

void cursor_end(struct cursor *c, const char *what)
{
	if (!c->why && c->pos != c->len)
		cursor_fail(c, what, "bytes left over");
}
