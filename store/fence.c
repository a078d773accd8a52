/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fence.c - see fence.h.
 */
#include "fence.h"

#include <errno.h>
#include <unistd.h>

#include "commit.h"

/* Any value that is neither LMDB's 1 nor its development version's 999. */
#define VERSION_UP     0x50475701u
#define VERSION_FAILED 0x504757ffu

#define AT_VERSION (PGW__META_OFFSET + PGW__META_VERSION)

static enum pgw__fence fence_of(uint32_t v0, uint32_t v1)
{
	if (v0 == VERSION_FAILED || v1 == VERSION_FAILED)
		return PGW__FENCE_FAILED;
	if (v0 == VERSION_UP || v1 == VERSION_UP)
		return PGW__FENCE_UP;
	return PGW__FENCE_DOWN;
}

static int read_all(int fd, void *buf, size_t len, uint64_t off)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENODATA;
		done += (size_t)n;
	}
	return 0;
}

static bool is_meta_page(const unsigned char *page)
{
	uint16_t flags;

	memcpy(&flags, page + PGW__HEADER_FLAGS, sizeof(flags));
	return (flags & PGW__PAGE_META) &&
	       pgw__get32(page, PGW__META_OFFSET + PGW__META_MAGIC) == PGW__LMDB_MAGIC;
}

int pgw__heads_read(int fd, struct pgw__heads *out)
{
	unsigned char page[PGW__PSIZE_MIN];
	uint32_t psize = 0, version[2];

	for (int i = 0; i < 2; i++) {
		int rc = read_all(fd, page, sizeof(page), i ? psize : 0);

		if (rc)
			return rc;
		if (!is_meta_page(page))
			return -EINVAL;
		if (!i)
			psize = pgw__get32(page, PGW__META_OFFSET + PGW__META_PSIZE);
		if (psize < PGW__PSIZE_MIN || psize > PGW__PSIZE_MAX || (psize & (psize - 1)))
			return -EINVAL;
		version[i] = pgw__get32(page, AT_VERSION);
		memcpy(out->page[i].meta, page + PGW__META_OFFSET, PGW__META_SIZE);
		memcpy(out->page[i].record, page + PGW__RECORD_OFFSET, PGW__RECORD_SIZE);
	}
	out->psize = psize;
	out->fence = fence_of(version[0], version[1]);
	return 0;
}

const unsigned char *pgw__heads_newest(const struct pgw__heads *h)
{
	const unsigned char *a = h->page[0].meta, *b = h->page[1].meta;

	return pgw__get64(a, PGW__META_TXNID) < pgw__get64(b, PGW__META_TXNID) ? b : a;
}

int pgw__fence_set(int fd, uint32_t psize, enum pgw__fence state)
{
	uint32_t version = PGW__LMDB_VERSION;
	struct iovec v = { .iov_base = &version, .iov_len = sizeof(version) };

	if (state == PGW__FENCE_UP)
		version = VERSION_UP;
	if (state == PGW__FENCE_FAILED)
		version = VERSION_FAILED;
	for (int i = 0; i < 2; i++) {
		ssize_t r = pgw__write_all(fd, &v, 1, (off_t)i * psize + AT_VERSION);

		if (r == -EINTR)
			r = pgw__write_all(fd, &v, 1, (off_t)i * psize + AT_VERSION);
		if (r < 0)
			return (int)r;
	}
	return 0;
}

enum pgw__fence pgw__fence_of_map(const void *map, uint32_t psize)
{
	const volatile uint32_t *v0 = (const void *)((const char *)map + AT_VERSION);
	const volatile uint32_t *v1 = (const void *)((const char *)map + psize + AT_VERSION);

	return fence_of(*v0, *v1);
}

void pgw__fence_clean_page(unsigned char *page, uint32_t psize)
{
	uint32_t version = pgw__get32(page, AT_VERSION);

	if (fence_of(version, version) != PGW__FENCE_DOWN)
		pgw__put32(page, AT_VERSION, PGW__LMDB_VERSION);
	if (psize >= PGW__RECORD_OFFSET + PGW__RECORD_SIZE)
		memset(page + PGW__RECORD_OFFSET, 0, PGW__RECORD_SIZE);
}

void pgw__fence_hide(void *buf, uint64_t len)
{
	uint32_t version;

	if (len < AT_VERSION + sizeof(version))
		return;
	version = pgw__get32(buf, AT_VERSION);
	if (fence_of(version, version) != PGW__FENCE_DOWN)
		pgw__put32(buf, AT_VERSION, PGW__LMDB_VERSION);
}
