/* SPDX-License-Identifier: BSD-2-Clause
 *
 * weight.c - see weight.h.
 *
 * The window is kept sorted as a plain array: a new block moves at most 800 kB once, less than what
 * hashing a block costs, and the median is a look-up.
 */
#include "weight.h"

#include <stdlib.h>
#include <string.h>

#define FORK_LONG_TERM 10 /* before it, the long-term weight is the weight */
#define FORK_2021      15 /* bounds below as well, and other factors */

int weight_window_init(struct weight_window *w, size_t size, uint64_t end)
{
	*w = (struct weight_window){ .size = size, .end = end };
	w->ring = malloc(2 * size * sizeof(*w->ring));
	if (!w->ring)
		return -1;
	w->sorted = w->ring + size;
	return 0;
}

void weight_window_finish(struct weight_window *w)
{
	free(w->ring);
	memset(w, 0, sizeof(*w));
}

/* The first place in the sorted array whose value is not below v. */
static size_t place_of(const struct weight_window *w, uint64_t v)
{
	size_t low = 0, high = w->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (w->sorted[mid] < v)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void weight_window_push(struct weight_window *w, uint64_t long_term)
{
	uint64_t *slot = &w->ring[w->end % w->size];
	size_t at;

	if (w->n == w->size) {
		at = place_of(w, *slot);
		w->n--;
		memmove(&w->sorted[at], &w->sorted[at + 1], (w->n - at) * sizeof(*w->sorted));
	}
	at = place_of(w, long_term);
	memmove(&w->sorted[at + 1], &w->sorted[at], (w->n - at) * sizeof(*w->sorted));
	w->sorted[at] = long_term;
	w->n++;
	*slot = long_term;
	w->end++;
}

static uint64_t median(const struct weight_window *w)
{
	uint64_t a, b;

	if (w->n == 0)
		return 0;
	b = w->sorted[w->n / 2];
	if (w->n % 2)
		return b;
	a = w->sorted[w->n / 2 - 1];
	return a + (b - a) / 2;
}

uint64_t weight_long_term(const struct weight_window *w, uint64_t fork, uint64_t weight)
{
	uint64_t middle, high;

	if (fork < FORK_LONG_TERM)
		return weight;
	middle = median(w);
	if (middle < WEIGHT_FLOOR)
		middle = WEIGHT_FLOOR;
	if (fork < FORK_2021) {
		high = middle + middle * 2 / 5;
	} else {
		high = middle + middle * 7 / 10;
		if (weight < middle * 10 / 17)
			weight = middle * 10 / 17;
	}
	return weight < high ? weight : high;
}
