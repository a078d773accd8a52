/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recovering.h - bring crash images of a fenced file back with the store's recovery.
 *
 * Images lie in a file of their own. While they are recovered, system calls of this thread are not
 * recorded as those of the store at work. Now and then the recovery itself is cut short: after any
 * of its calls the power goes, the disk keeps any part of what it wrote, and it starts over.
 */
#ifndef PGW_TESTS_RECOVERING_H
#define PGW_TESTS_RECOVERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagewise/store.h>

#include "disk.h"

struct recovering {
	char path[128];
	int fd;
	uint64_t recovered, interrupted;
	struct pgw_recover_report report; /* of the last one */
	bool trust_digests;		  /* planted bug: the digest is not looked at */
};

/* Every file is taken for the same one, in a boot of its own. 0, or -errno. */
int recovering_init(struct recovering *r, const char *dir);
void recovering_finish(struct recovering *r);

/* image: *len bytes in a buffer of max. Plain images are left alone. interrupt: cut the recovery
 * short, some times. NULL, or what is wrong: text until the next call. */
const char *recovering_image(
    struct recovering *r, uint8_t *image, size_t *len, size_t max, bool interrupt, struct rng *rng);

#endif
