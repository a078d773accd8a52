/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.h - durability that was asked for without a call: PAGEWISE_STORE.
 */
#ifndef PGW_STORE_OPTIONS_H
#define PGW_STORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <pagewise/store.h>

/* What an environment has that is opened with mdb_env_open. */
const struct pgw_env_options *pgw__options_default(void);

/* Change *o as text says: "durability:group,checkpoint_ms:50". What cannot be understood is left
 * out, and the first such item copied to bad (cap bytes). False if there was one. */
bool pgw__options_parse(const char *text, struct pgw_env_options *o, char *bad, size_t cap);

/* May *o be used? 0 or -EINVAL. */
int pgw__options_check(const struct pgw_env_options *o);

/* Does a transaction of an environment with these flags of LMDB go through the checkpointer? */
bool pgw__options_checkpointed(const struct pgw_env_options *o, unsigned flags);

#endif
