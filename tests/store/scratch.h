/* SPDX-License-Identifier: BSD-2-Clause
 *
 * scratch.h - a folder for a test's files.
 */
#ifndef PGW_TESTS_SCRATCH_H
#define PGW_TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Make one, on a tmpfs if there is one; ends the program if it cannot. */
void scratch_make(char *dir, size_t size);

/* Make one where the test runs, on whatever file system that is. */
void scratch_make_here(char *dir, size_t size);

/* With all that is in it. */
void scratch_remove(const char *dir);

#endif
