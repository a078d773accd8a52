/* SPDX-License-Identifier: BSD-2-Clause
 *
 * survive.h - what the files of survive.c share.
 */
#ifndef PGW_TEST_SURVIVE_H
#define PGW_TEST_SURVIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cases.h"

/* Has every one of n bytes this value? */
bool is(const unsigned char *p, size_t n, unsigned char value);

/* Replace blocks at random; every byte is checked. */
bool memory_works(size_t rounds, uint64_t seed);

/* Three threads do that until the end. */
void start_load(void);
bool end_load(void);

/* Wait for a child. 0 if it left with 0. */
int wait_for(pid_t pid);

/* The cases of other files. */
int fork_threads(void);
int fork_flush(void);
int fork_alone(void);
int fork_deep(void);
int vfork_exec(void);
int raw_fork(void);
int filter_enosys(void);
int filter_eperm(void);
int filter_zero(void);
int filter_late(void);
int filter_madvise_zero(void);
int filter_kill(void);
int no_threads(void);
int many_short_threads(void);
int main_leaves(void);
int main_leaves_first(void);
int main_leaves_child(void);
int main_ends_raw(void);
int exit_while_purging(void);
int exit_in_handlers(void);
int exit_child(void);
int signals(void);

#endif
