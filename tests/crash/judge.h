/* SPDX-License-Identifier: BSD-2-Clause
 *
 * judge.h - is this image of a data file what a crash may leave?
 *
 * The auditor reads it, stock LMDB opens it and reads all of it, and what both find must be the
 * content of exactly one committed transaction, not older than what was acknowledged. Now and then
 * stock LMDB also writes to it and the auditor looks again: a page that is free and used shows
 * then.
 */
#ifndef PGW_TESTS_JUDGE_H
#define PGW_TESTS_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit.h"

/* What was committed: digest[i] is the content after transaction first + i. */
struct history {
	uint64_t first, last; /* last: the newest that was tried */
	const struct audit_digest *digest;
	uint64_t acknowledged; /* this one or a later one must be found; 0: there may be no file */
};

struct judge {
	void *stock;	/* handle of the system's liblmdb */
	char path[128]; /* where images are put for stock LMDB */
	uint64_t images, opened, written;
};

/* dir: for images; in memory if it is to be quick. 0, or -ENOENT with why on standard error: there
 * is no liblmdb.so.0. */
int judge_init(struct judge *j, const char *dir);
void judge_finish(struct judge *j);

/* NULL, or what is wrong: text until the next call. *txnid: the transaction found, 0 if none.
 * image: len bytes. write: let stock LMDB write to a copy too. */
const char *judge_image(struct judge *j, const uint8_t *image, size_t len, const struct history *h,
    bool write, uint64_t *txnid);

/* Put an image into a file. Exits if that fails. */
void judge_save(const char *path, const uint8_t *image, size_t len);

#endif
