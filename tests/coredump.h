/* SPDX-License-Identifier: BSD-2-Clause
 *
 * coredump.h - make a core dump of a child, and look into it.
 */
#ifndef PGW_TEST_COREDUMP_H
#define PGW_TEST_COREDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coredump {
	int fd;
	char dir[64], path[128];
	uint64_t bytes; /* of memory in it */
};

/* Run prepare(arg) in a child, which then aborts, and open its core dump. Leaves the process with 77
 * (and says why) where core dumps do not go to a file in the current folder; with 1 if there should
 * be one and is not. */
void coredump_make(struct coredump *c, void (*prepare)(void *arg), void *arg);

/* Read len bytes of the memory at addr. false: the dump does not have them. */
bool coredump_read(const struct coredump *c, uint64_t addr, void *to, size_t len);

/* Close and remove it. */
void coredump_remove(struct coredump *c);

#endif
