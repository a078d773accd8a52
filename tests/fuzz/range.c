/* SPDX-License-Identifier: BSD-2-Clause
 *
 * range.c - two sets of ranges, any operations on them, compared with two bitmaps.
 *
 * The numbers end at 2^64: half of the inputs work just below that.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <pagewise/range.h>

#define BITS 1024

static uint64_t base; /* what bit 0 stands for */

struct model {
	uint8_t bit[BITS];
};

static void add(struct pgw_ranges *s, struct model *m, uint64_t from, uint64_t len)
{
	size_t before = s->n;
	int err;

	if (len > BITS - from)
		len = BITS - from;
	err = pgw_ranges_add(s, base + from, len);
	if (!err)
		memset(m->bit + from, 1, len);
	else
		CHECK(err == -ENOSPC && s->fixed && s->n <= before);
}

static void align(struct pgw_ranges *s, struct model *m, uint64_t unit, bool out)
{
	if (out)
		pgw_ranges_align_out(s, unit);
	else
		pgw_ranges_align_in(s, unit);
	for (uint64_t i = 0; i < BITS; i += unit) {
		uint64_t n = 0;

		for (uint64_t k = i; k < i + unit; k++)
			n += m->bit[k];
		memset(m->bit + i, out ? n > 0 : n == unit, unit);
	}
}

static void subtract(struct pgw_ranges *s, struct model *m, struct pgw_ranges *o, struct model *mo)
{
	int err = pgw_ranges_subtract(s, o);

	if (err) {
		CHECK(err == -ENOSPC && s->fixed);
		return;
	}
	for (size_t i = 0; i < BITS; i++)
		m->bit[i] &= !mo->bit[i];
}

static void unite(struct pgw_ranges *s, struct model *m, struct pgw_ranges *o, struct model *mo)
{
	for (size_t i = 0; i < o->n; i++)
		add(s, m, o->v[i].start - base, o->v[i].len);
	(void)mo;
}

static void contains(struct pgw_ranges *s, const struct model *m, uint64_t from, uint64_t len)
{
	bool all = true;

	if (len > BITS - from)
		len = BITS - from;
	for (uint64_t i = from; i < from + len; i++)
		all &= m->bit[i];
	CHECK(pgw_ranges_contains(s, base + from, len) == all);
}

static void compare(struct pgw_ranges *s, const struct model *m)
{
	uint64_t at = 0, sum = 0;

	pgw_ranges_normalize(s);
	CHECK(s->n <= s->cap || !s->n);
	for (size_t i = 0; i < s->n; i++) {
		uint64_t from = s->v[i].start - base;

		CHECK(s->v[i].len && from < BITS && s->v[i].len <= BITS - from);
		CHECK(!i || from > at);
		for (; at < from; at++)
			CHECK(!m->bit[at]);
		for (; at < from + s->v[i].len; at++)
			CHECK(m->bit[at]);
		sum += s->v[i].len;
	}
	for (; at < BITS; at++)
		CHECK(!m->bit[at]);
	CHECK(pgw_ranges_bytes(s) == sum);
}

static void step(
    struct input *in, struct pgw_ranges *s, struct model *m, struct pgw_ranges *o, struct model *mo)
{
	uint8_t what = next_byte(in);
	uint64_t from = next_u16(in) % BITS, len = next_byte(in);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		add(s, m, from, len);
		break;
	case 3:
		/* The last unit below 2^64 cannot be covered: its end is no number. */
		if (base)
			break;
		align(s, m, UINT64_C(1) << len % 8, what & 64);
		break;
	case 4:
		subtract(s, m, o, mo);
		break;
	case 5:
		unite(s, m, o, mo);
		break;
	case 6:
		contains(s, m, from, len);
		break;
	default:
		compare(s, m);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct model m = { { 0 } }, mo = { { 0 } };
	struct pgw_range storage[64];
	struct pgw_ranges s, o;
	uint8_t how = next_byte(&in);

	base = how & 1 ? UINT64_MAX - BITS : 0;
	pgw_ranges_init(&o);
	if (how & 2)
		pgw_ranges_init_fixed(&s, storage, how >> 2);
	else
		pgw_ranges_init(&s);
	while (in.left) {
		if (next_byte(&in) & 1)
			step(&in, &s, &m, &o, &mo);
		else
			step(&in, &o, &mo, &s, &m);
	}
	compare(&s, &m);
	compare(&o, &mo);
	pgw_ranges_finish(&s);
	pgw_ranges_finish(&o);
	return 0;
}
