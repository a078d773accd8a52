/* SPDX-License-Identifier: BSD-2-Clause
 *
 * environment.h - what the subcommands for LMDB environments share.
 */
#ifndef PGW_TOOLS_ENVIRONMENT_H
#define PGW_TOOLS_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <pagewise/store.h>

#define ENVIRONMENT_TIME 64

/* A time since 1970 in ns, as text in UTC; "unknown" for 0. */
const char *environment_time(uint64_t ns, char out[ENVIRONMENT_TIME]);

/* PGW_RECOVER_NOSUBDIR if path is no directory. */
unsigned environment_flags(const char *path);

void environment_print(const struct pgw_recover_report *r, bool check);

#endif
