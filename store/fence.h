/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fence.h - keep plain LMDB out of a file while its newest snapshot may not be durable.
 *
 * Plain LMDB would take the newest meta page for the truth and recycle the pages of the snapshot
 * that a record stands for. So while records are needed, both meta pages carry a version number
 * that LMDB refuses (MDB_VERSION_MISMATCH). LMDB never writes that field again, so only this
 * library lowers the fence.
 *
 * The two fields are in different sectors. A file with one of them raised counts as fenced: the
 * fence is raised before anything needs it and lowered when nothing does any more.
 */
#ifndef PGW_STORE_FENCE_H
#define PGW_STORE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"

enum pgw__fence {
	PGW__FENCE_DOWN,   /* the file is LMDB's */
	PGW__FENCE_UP,	   /* the records count */
	PGW__FENCE_FAILED, /* and a sync has failed: what the page cache says may not be on disk */
};

/* The parts of the two meta pages that matter here. */
struct pgw__heads {
	enum pgw__fence fence;
	uint32_t psize;
	struct {
		unsigned char meta[PGW__META_SIZE];
		unsigned char record[PGW__RECORD_SIZE];
	} page[2];
};

/* Read them. 0; -ENODATA: the file is shorter (a new one is empty); -EINVAL: not the meta pages of
 * an LMDB file that can be fenced; or what reading gives. *out is undefined on failure. */
int pgw__heads_read(int fd, struct pgw__heads *out);

/* The newer of the two meta images. */
const unsigned char *pgw__heads_newest(const struct pgw__heads *h);

/* Set both version fields. Nothing is synced. 0 or -errno. */
int pgw__fence_set(int fd, uint32_t psize, enum pgw__fence state);

/* The state shown by a mapped file. */
enum pgw__fence pgw__fence_of_map(const void *map, uint32_t psize);

/* Make a meta page that was copied look as if there had never been a fence or a record. */
void pgw__fence_clean_page(unsigned char *page, uint32_t psize);

/* What LMDB is to see of a fenced page that it reads into buf. */
void pgw__fence_hide(void *buf, uint64_t len);

#endif
