/* SPDX-License-Identifier: BSD-2-Clause
 *
 * output_file.h - a file that appears under its name when it is whole and on the disk.
 */
#ifndef CHAIN_OUTPUT_FILE_H
#define CHAIN_OUTPUT_FILE_H

#include <stdio.h>

#include "error.h"

/* Calls fill with a stream to PATH.part, which then becomes path; or, for the path "-", with standard
 * output. Nothing is left behind after an error, but what went to standard output. */
int output_file(const char *path, int (*fill)(void *ctx, FILE *f, struct chain_error *err),
    void *ctx, struct chain_error *err);

#endif
