/* SPDX-License-Identifier: BSD-2-Clause
 *
 * identity.h - which file this is, and in which life of its page cache.
 *
 * Two questions are asked of a record that lies in a file:
 *
 * - Was it written for this file, or did it come along in a copy? Inode number and time of birth
 *   answer. The number alone does not: a file system gives the number of a deleted file to the next
 *   one. The device number does not: it changes from boot to boot (btrfs: from mount to mount). It
 *   decides only where the file system keeps no time of birth.
 * - Has the page cache lived on since? Then all that was written is still there, synced or not.
 *   The boot alone is not enough, a volume can be lost and mounted again within one. The mount must
 *   be the same one, by the id that is never used twice (Linux 6.8). Without it the answer is no.
 */
#ifndef PGW_STORE_IDENTITY_H
#define PGW_STORE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

struct pgw__identity {
	uint64_t inode;
	uint64_t device;
	uint64_t birth;		/* ns since 1970; 0: not kept */
	uint64_t mount;		/* unique id; 0: the kernel has none */
	unsigned char boot[16]; /* zero: unknown */
};

/* 0, or -errno if the file cannot be examined; *out is untouched then. A pointer, constant but in
 * tests: one that plays a power cut has images of a file in other files, and boots in between. */
extern int (*pgw__identity_of)(int fd, struct pgw__identity *out);

bool pgw__identity_same_file(const struct pgw__identity *a, const struct pgw__identity *b);
bool pgw__identity_same_cache(const struct pgw__identity *a, const struct pgw__identity *b);

#endif
