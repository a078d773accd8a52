/* SPDX-License-Identifier: BSD-2-Clause
 *
 * image.h - a data file that a test makes in memory, and its bytes.
 */
#ifndef PGW_TEST_IMAGE_H
#define PGW_TEST_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Where the file of this test goes: with MDB_NOSUBDIR, its lock file beside it. */
extern char image_path[96];

/* A folder for it, in memory where that is possible; and all of it away. For
 * cmocka_run_group_tests(). */
int image_setup(void **state);
int image_teardown(void **state);

/* The bytes of the file, private: what a test changes does not reach it. munmap() ends them. */
uint8_t *image_map(size_t *len);

#endif
