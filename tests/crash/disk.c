/* SPDX-License-Identifier: BSD-2-Clause
 *
 * disk.c - a file on a disk with a volatile write cache (disk.h has the model).
 */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t rng_next(struct rng *r)
{
	/* splitmix64 */
	uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

static void *need(void *p)
{
	if (!p) {
		fputs("crash tests: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

void disk_init(struct disk *d, size_t max)
{
	*d = (struct disk){ .max = max };
	d->durable = need(calloc(max, 1));
	d->now = need(calloc(max, 1));
}

void disk_finish(struct disk *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->writes[i].data);
	free(d->writes);
	free(d->durable);
	free(d->now);
}

static void add(struct disk *d, uint64_t off, const uint8_t *buf, uint32_t len)
{
	struct disk_write *w;

	if (d->n == d->cap) {
		d->cap = d->cap ? d->cap * 2 : 256;
		d->writes = need(reallocarray(d->writes, d->cap, sizeof(*d->writes)));
	}
	w = &d->writes[d->n++];
	*w = (struct disk_write){ .off = off, .len = len, .data = need(malloc(len)) };
	memcpy(w->data, buf, len);
	memcpy(d->now + off, buf, len);
	if (off + len > d->now_len)
		d->now_len = off + len;
}

void disk_write(struct disk *d, uint64_t off, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	if (off + len > d->max) {
		fputs("crash tests: the file outgrew the model\n", stderr);
		exit(1);
	}
	while (len) {
		size_t n = DISK_PAGE - off % DISK_PAGE;

		if (n > len)
			n = len;
		add(d, off, p, (uint32_t)n);
		p += n;
		off += n;
		len -= n;
	}
}

size_t disk_observe(struct disk *d, const uint8_t *file, size_t len)
{
	size_t changed = 0;

	for (size_t off = 0; off < len; off += DISK_PAGE) {
		size_t n = len - off < DISK_PAGE ? len - off : DISK_PAGE;

		if (!memcmp(d->now + off, file + off, n))
			continue;
		disk_write(d, off, file + off, n);
		changed++;
	}
	return changed;
}

static bool touches(const struct disk_write *w, uint64_t off, uint64_t len)
{
	/* The kernel writes whole pages. */
	return w->off / DISK_PAGE * DISK_PAGE < off + len &&
	       (w->off / DISK_PAGE + 1) * DISK_PAGE > off;
}

static void make_durable(struct disk *d, struct disk_write *w)
{
	memcpy(d->durable + w->off, w->data, w->len);
	if (w->off + w->len > d->durable_len)
		d->durable_len = w->off + w->len;
	free(w->data);
}

void disk_written(struct disk *d, uint64_t off, uint64_t len)
{
	for (size_t i = 0; i < d->n; i++) {
		if (touches(&d->writes[i], off, len))
			d->writes[i].written = true;
	}
}

void disk_flush(struct disk *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++) {
		if (d->writes[i].written)
			make_durable(d, &d->writes[i]);
		else
			d->writes[kept++] = d->writes[i];
	}
	d->n = kept;
}

void disk_write_through(struct disk *d, uint64_t off, uint64_t len)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++) {
		if (touches(&d->writes[i], off, len))
			make_durable(d, &d->writes[i]);
		else
			d->writes[kept++] = d->writes[i];
	}
	d->n = kept;
}

/* ---- cuts ---- */

static size_t apply(
    uint8_t *out, size_t out_len, const struct disk_write *w, uint32_t from, uint32_t len)
{
	memcpy(out + w->off + from, w->data + from, len);
	return w->off + from + len > out_len ? w->off + from + len : out_len;
}

/* Each sector of a write with a chance of one half. */
static size_t apply_torn(uint8_t *out, size_t out_len, const struct disk_write *w, struct rng *r)
{
	uint32_t from = 0;

	while (from < w->len) {
		uint32_t len = DISK_SECTOR - (uint32_t)((w->off + from) % DISK_SECTOR);

		if (len > w->len - from)
			len = w->len - from;
		if (rng_next(r) & 1)
			out_len = apply(out, out_len, w, from, len);
		from += len;
	}
	return out_len;
}

size_t disk_cut(const struct disk *d, enum disk_cut how, struct rng *r, uint8_t *out)
{
	size_t len = d->durable_len;
	size_t chosen = d->n ? rng_below(r, d->n) : 0;

	memcpy(out, d->durable, d->durable_len);
	if (d->now_len > d->durable_len) /* an image is never longer than the file */
		memset(out + d->durable_len, 0, d->now_len - d->durable_len);
	for (size_t i = 0; i < d->n; i++) {
		const struct disk_write *w = &d->writes[i];
		bool meta = w->off < 2 * DISK_PAGE, whole = false, torn = false;

		switch (how) {
		case CUT_EVERYTHING:
			whole = true;
			break;
		case CUT_PREFIX:
			whole = i < chosen;
			torn = i == chosen;
			break;
		case CUT_PAGES:
			whole = rng_next(r) & 1;
			break;
		case CUT_SECTORS:
			torn = true;
			break;
		case CUT_META_ONLY:
			whole = meta;
			break;
		case CUT_NO_META:
			whole = !meta;
			break;
		case CUT_ALL_BUT_ONE:
			whole = w->off / DISK_PAGE != d->writes[chosen].off / DISK_PAGE;
			break;
		default:
			break;
		}
		if (whole)
			len = apply(out, len, w, 0, w->len);
		else if (torn)
			len = apply_torn(out, len, w, r);
	}
	return len;
}

const char *disk_cut_name(enum disk_cut how)
{
	static const char *const names[CUT_COUNT] = { "nothing", "everything", "prefix", "pages",
		"sectors", "meta-only", "no-meta", "all-but-one" };

	return names[how];
}
