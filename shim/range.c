/* SPDX-License-Identifier: BSD-2-Clause
 *
 * range.c - page ranges and sets of them.
 *
 * A set is an array. Adding appends; order is made when it is asked for ("normal"), because a
 * transaction dirties pages in any order and asks once. Two rules keep that cheap:
 *
 *  R1  An add that continues or overlaps the range added last changes that one: runs never become
 *      many entries, whichever way they grow.
 *  R2  A full array is normalized before it grows, and grows only if that freed less than half of
 *      it: the array stays within a constant factor of what the set needs, and the cost of sorting
 *      is spread over the adds that filled it.
 */
#include <pagewise/range.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

struct pgw_range pgw_range_align_in(struct pgw_range r, uint64_t unit)
{
	uint64_t mask = unit - 1;
	uint64_t end = pgw_range_end(r) & ~mask;

	if (r.start > UINT64_MAX - mask)
		return (struct pgw_range){ r.start & ~mask, 0 };
	r.start = (r.start + mask) & ~mask;
	r.len = end > r.start ? end - r.start : 0;
	return r;
}

struct pgw_range pgw_range_align_out(struct pgw_range r, uint64_t unit)
{
	uint64_t mask = unit - 1;
	uint64_t end = pgw_range_end(r);

	if (!r.len)
		return r;
	end = end > UINT64_MAX - mask ? ~mask : (end + mask) & ~mask;
	r.start &= ~mask;
	r.len = end - r.start;
	return r;
}

struct pgw_range pgw_range_take(struct pgw_range *r, uint64_t max)
{
	struct pgw_range front = { r->start, r->len < max ? r->len : max };

	r->start += front.len;
	r->len -= front.len;
	return front;
}

static void swap(struct pgw_range *a, struct pgw_range *b)
{
	struct pgw_range t = *a;

	*a = *b;
	*b = t;
}

static bool ascending(const struct pgw_range *v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (v[i].start < v[i - 1].start)
			return false;
	return true;
}

/* Restore the heap below hole, which has been taken out as x. */
static void sift(struct pgw_range *v, size_t hole, size_t n)
{
	struct pgw_range x = v[hole];

	for (size_t child; (child = 2 * hole + 1) < n; hole = child) {
		if (child + 1 < n && v[child + 1].start > v[child].start)
			child++;
		if (v[child].start <= x.start)
			break;
		v[hole] = v[child];
	}
	v[hole] = x;
}

/* Heap sort: in place, no recursion, no bad case. */
void pgw_range_sort(struct pgw_range *v, size_t n)
{
	if (ascending(v, n))
		return;
	for (size_t i = n / 2; i-- > 0;)
		sift(v, i, n);
	for (size_t i = n - 1; i > 0; i--) {
		swap(&v[0], &v[i]);
		sift(v, 0, i);
	}
}

size_t pgw_range_normalize(struct pgw_range *v, size_t n)
{
	size_t out = 0;

	pgw_range_sort(v, n);
	for (size_t i = 0; i < n; i++) {
		if (!v[i].len)
			continue;
		if (out && v[i].start <= pgw_range_end(v[out - 1])) {
			if (pgw_range_end(v[i]) > pgw_range_end(v[out - 1]))
				v[out - 1].len = pgw_range_end(v[i]) - v[out - 1].start;
			continue;
		}
		v[out++] = v[i];
	}
	return out;
}

void pgw_ranges_init(struct pgw_ranges *s)
{
	*s = (struct pgw_ranges){ .normal = true };
}

void pgw_ranges_init_fixed(struct pgw_ranges *s, struct pgw_range *storage, size_t cap)
{
	*s = (struct pgw_ranges){ .v = storage, .cap = cap, .normal = true, .fixed = true };
}

void pgw_ranges_finish(struct pgw_ranges *s)
{
	if (!s)
		return;
	if (s->fixed) {
		pgw_ranges_clear(s);
		return;
	}
	free(s->v);
	pgw_ranges_init(s);
}

void pgw_ranges_clear(struct pgw_ranges *s)
{
	s->n = 0;
	s->normal = true;
}

void pgw_ranges_normalize(struct pgw_ranges *s)
{
	if (s->normal)
		return;
	s->n = pgw_range_normalize(s->v, s->n);
	s->normal = true;
}

/* Room for cap ranges. */
static int reserve(struct pgw_ranges *s, size_t cap)
{
	struct pgw_range *v;

	if (cap <= s->cap)
		return 0;
	if (s->fixed)
		return -ENOSPC;
	if (cap > SIZE_MAX / sizeof(*v))
		return -ENOMEM;
	v = realloc(s->v, cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->v = v;
	s->cap = cap;
	return 0;
}

/* Index of the first range of a normal set that ends at or after pos; n if there is none. */
static size_t first_ending_at(const struct pgw_ranges *s, uint64_t pos)
{
	size_t lo = 0, hi = s->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (pgw_range_end(s->v[mid]) < pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* R1. r is not empty. */
static bool join_last(struct pgw_ranges *s, struct pgw_range r)
{
	struct pgw_range *last;
	uint64_t end;

	if (!s->n)
		return false;
	last = &s->v[s->n - 1];
	if (r.start > pgw_range_end(*last) || pgw_range_end(r) < last->start)
		return false;
	end = pgw_range_end(*last) > pgw_range_end(r) ? pgw_range_end(*last) : pgw_range_end(r);
	if (r.start < last->start) {
		last->start = r.start;
		if (s->n > 1 && r.start <= pgw_range_end(last[-1]))
			s->normal = false;
	}
	last->len = end - last->start;
	return true;
}

/* Join r with the ranges of a full, normal set that it touches. */
static int join_any(struct pgw_ranges *s, struct pgw_range r)
{
	size_t first = first_ending_at(s, r.start), next = first;
	uint64_t end = pgw_range_end(r);

	while (next < s->n && s->v[next].start <= end)
		next++;
	if (next == first)
		return -ENOSPC;
	if (pgw_range_end(s->v[next - 1]) > end)
		end = pgw_range_end(s->v[next - 1]);
	if (s->v[first].start > r.start)
		s->v[first].start = r.start;
	s->v[first].len = end - s->v[first].start;
	memmove(&s->v[first + 1], &s->v[next], (s->n - next) * sizeof(*s->v));
	s->n -= next - first - 1;
	return 0;
}

/* R2: make room for one more. */
static int make_room(struct pgw_ranges *s)
{
	if (s->n < s->cap)
		return 0;
	pgw_ranges_normalize(s);
	if (s->fixed)
		return s->n < s->cap ? 0 : -ENOSPC;
	if (s->cap && s->n <= s->cap / 2)
		return 0;
	if (!reserve(s, s->cap ? 2 * s->cap : FIRST_CAPACITY))
		return 0;
	return s->n < s->cap ? 0 : -ENOMEM;
}

int pgw_ranges_add(struct pgw_ranges *s, uint64_t start, uint64_t len)
{
	struct pgw_range r = { start, len };
	int err;

	if (len > UINT64_MAX - start)
		return -EOVERFLOW;
	if (!len || join_last(s, r))
		return 0;
	err = make_room(s);
	if (err)
		return join_any(s, r) ? err : 0;
	/* Normalizing may have changed which range is the last. */
	if (join_last(s, r))
		return 0;
	if (s->n && start < s->v[s->n - 1].start)
		s->normal = false;
	s->v[s->n++] = r;
	return 0;
}

int pgw_ranges_add_all(struct pgw_ranges *dst, const struct pgw_ranges *src)
{
	for (size_t i = 0; i < src->n; i++) {
		int err = pgw_ranges_add(dst, src->v[i].start, src->v[i].len);

		if (err)
			return err;
	}
	return 0;
}

static void align(
    struct pgw_ranges *s, uint64_t unit, struct pgw_range (*one)(struct pgw_range r, uint64_t unit))
{
	pgw_ranges_normalize(s);
	for (size_t i = 0; i < s->n; i++)
		s->v[i] = one(s->v[i], unit);
	s->n = pgw_range_normalize(s->v, s->n); /* still in order: linear */
}

void pgw_ranges_align_out(struct pgw_ranges *s, uint64_t unit)
{
	align(s, unit, pgw_range_align_out);
}

void pgw_ranges_align_in(struct pgw_ranges *s, uint64_t unit)
{
	align(s, unit, pgw_range_align_in);
}

/* What is left of r without the ranges of o from index *at on (ascending); the pieces go to out,
 * or are only counted if it is NULL. *at moves to the first range that may matter for what follows
 * r. */
static size_t cut(struct pgw_range r, const struct pgw_ranges *o, size_t *at, struct pgw_range *out)
{
	size_t pieces = 0;
	uint64_t pos = r.start, end = pgw_range_end(r);

	while (*at < o->n && pgw_range_end(o->v[*at]) <= pos)
		++*at;
	while (*at < o->n && o->v[*at].start < end) {
		if (o->v[*at].start > pos) {
			if (out)
				out[pieces] = (struct pgw_range){ pos, o->v[*at].start - pos };
			pieces++;
		}
		pos = pgw_range_end(o->v[*at]);
		if (pos >= end)
			return pieces;
		++*at;
	}
	if (out)
		out[pieces] = (struct pgw_range){ pos, end - pos };
	return pieces + 1;
}

int pgw_ranges_subtract(struct pgw_ranges *s, struct pgw_ranges *other)
{
	size_t extra = 0, at = 0, out = 0, n;
	int err;

	pgw_ranges_normalize(s);
	pgw_ranges_normalize(other);
	if (!s->n)
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		size_t pieces = cut(s->v[i], other, &at, NULL);

		extra += pieces > 1 ? pieces - 1 : 0;
	}
	n = s->n;
	err = reserve(s, n + extra);
	if (err)
		return err;
	/* With the input moved up by extra, the output never reaches what is still to be read. */
	memmove(s->v + extra, s->v, n * sizeof(*s->v));
	at = 0;
	for (size_t i = 0; i < n; i++)
		out += cut(s->v[extra + i], other, &at, s->v + out);
	s->n = out;
	return 0;
}

bool pgw_ranges_contains(struct pgw_ranges *s, uint64_t start, uint64_t len)
{
	size_t i;

	if (!len)
		return true;
	if (len > UINT64_MAX - start)
		return false;
	pgw_ranges_normalize(s);
	i = first_ending_at(s, start + len);
	return i < s->n && s->v[i].start <= start;
}

uint64_t pgw_ranges_bytes(struct pgw_ranges *s)
{
	uint64_t sum = 0;

	pgw_ranges_normalize(s);
	for (size_t i = 0; i < s->n; i++)
		sum += s->v[i].len;
	return sum;
}

struct pgw_range pgw_ranges_span(struct pgw_ranges *s)
{
	pgw_ranges_normalize(s);
	if (!s->n)
		return (struct pgw_range){ 0, 0 };
	return (struct pgw_range){ s->v[0].start, pgw_range_end(s->v[s->n - 1]) - s->v[0].start };
}
