/* SPDX-License-Identifier: BSD-2-Clause
 *
 * output_file.h - a file that appears under its name when it is whole and on the disk.
 */
#ifndef CHAIN_OUTPUT_FILE_H
#define CHAIN_OUTPUT_FILE_H

#include <stdio.h>

#include "error.h"

/* Calls fill with a stream to PATH.part, which then becomes path, or what path links to. One process at a
 * time: a second one gets an error (CHAIN_REFUSED). For the path "-" it is standard output, and what is no file (a device, a pipe) is written to as it is. Nothing is left
 * behind after an error, but what went there. */
int output_file(const char *path, int (*fill)(void *ctx, FILE *f, struct chain_error *err),
    void *ctx, struct chain_error *err);

#endif
