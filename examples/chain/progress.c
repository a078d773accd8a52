/* SPDX-License-Identifier: BSD-2-Clause
 *
 * progress.c - see progress.h.
 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EVERY_NS 200000000
#define BAR	 24

static void bar(char out[BAR + 1], uint64_t done, uint64_t all)
{
	size_t n = all ? (size_t)((double)done / (double)all * BAR) : 0;

	if (n > BAR)
		n = BAR;
	memset(out, '.', BAR);
	memset(out, '#', n);
	out[BAR] = 0;
}

static double mean_ms(const struct import_commits *c)
{
	return c->n ? (double)c->ns / 1e6 / (double)c->n : 0;
}

void progress_draw(struct progress *p, const struct import_result *r)
{
	const struct import_commits *c = r->live.n ? &r->live : &r->bulk;
	char drawn[BAR + 1];

	if (r->elapsed_ns < p->next_ns)
		return;
	/* Of a pipe nobody knows how much is to come. */
	if (r->file_size) {
		bar(drawn, r->file_offset, r->file_size);
		fprintf(stderr, "\r[%s] %5.1f %%", drawn,
		    (double)r->file_offset * 100 / (double)r->file_size);
	} else {
		fprintf(stderr, "\r");
	}
	fprintf(stderr, "  block %" PRIu64 "  %.2f MB/s", r->height,
	    (double)r->bytes * 1e3 / (double)(r->elapsed_ns + 1));
	if (r->cost.known)
		fprintf(stderr, "  dirty %.1f MB", (double)r->cost.dirty_bytes / 1e6);
	fprintf(stderr, "  commit %.2f ms%s\033[K", mean_ms(c), r->live.n ? ", live" : "");
	p->shown = true;
	p->next_ns = r->elapsed_ns + EVERY_NS;
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputc('\n', stderr);
	p->shown = false;
}
