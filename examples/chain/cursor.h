/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cursor.h - reading bytes nobody vouches for.
 *
 * A cursor walks a buffer that it never leaves. Its first error sticks: what failed, where and why
 * is kept, the position stays, and every later read gives zero or an empty span. So a parser reads
 * field after field and asks once at the end; only a loop over a count that came from the input
 * must ask in between.
 */
#ifndef CHAIN_CURSOR_H
#define CHAIN_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the input, not owned. */
struct span {
	const uint8_t *p;
	size_t n;
};

struct cursor {
	const uint8_t *base;
	size_t pos, len;
	uint64_t origin; /* what base[0]'s offset is in the file, for errors */
	/* NULL until the first error; then both static texts, and the offset in the file. */
	const char *what, *why;
	uint64_t where;
};

/* data must outlive the cursor and every span taken from it. */
void cursor_init(struct cursor *c, const void *data, size_t len, uint64_t origin);

static inline bool cursor_ok(const struct cursor *c)
{
	return c->why == NULL;
}

static inline size_t cursor_left(const struct cursor *c)
{
	return c->len - c->pos;
}

/* The bytes from an earlier position to here. */
static inline struct span cursor_since(const struct cursor *c, size_t from)
{
	return (struct span){ c->base + from, c->pos - from };
}

/* Records an error at the present position, unless there is one. what, why: static. */
void cursor_fail(struct cursor *c, const char *what, const char *why);
void cursor_fail_at(struct cursor *c, size_t pos, const char *what, const char *why);

/* In all of these what names the field, for the error. */
uint8_t cursor_u8(struct cursor *c, const char *what);
uint32_t cursor_u32(struct cursor *c, const char *what);
/* At most 64 bits; refuses overflow and the non-minimal encoding (a last byte of 0). */
uint64_t cursor_varint(struct cursor *c, const char *what);
/* A varint that counts elements of at least min_size bytes each (min_size > 0): refused when they
 * cannot fit in what is left, so that no loop runs longer than the input. */
size_t cursor_count(struct cursor *c, size_t min_size, const char *what);
/* n elements of size bytes each. */
struct span cursor_take(struct cursor *c, size_t n, size_t size, const char *what);
/* Fails unless everything was read. */
void cursor_end(struct cursor *c, const char *what);

#endif
