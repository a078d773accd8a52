/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.h - durability that was asked for without a call: PAGEWISE_STORE.
 */
#ifndef PGW_STORE_OPTIONS_H
#define PGW_STORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <pagewise/store.h>

/* What an environment has that is opened with mdb_env_open. Changed before there is any (load.c). */
struct pgw_env_options *pgw__options_default(void);

/* An item of the text that is not understood. */
struct pgw__options_error {
	const char *item; /* len bytes of the text */
	size_t len;
	const char *why; /* static */
};

/* Change *o as *text says: "durability:group,checkpoint_ms:50". True at its end. False: *error is left
 * out; the next call goes on behind it. */
bool pgw__options_parse(
    const char **text, struct pgw_env_options *o, struct pgw__options_error *error);

/* May *o be used? 0 or -EINVAL. */
int pgw__options_check(const struct pgw_env_options *o);

/* Does LMDB commit without a barrier, with these flags of an environment? MDB_MAPASYNC is about a writable
 * map only, and says nothing without. */
bool pgw__options_unsynced(unsigned flags);

/* Does a transaction of an environment with these flags of LMDB go through the checkpointer? */
bool pgw__options_checkpointed(const struct pgw_env_options *o, unsigned flags);

#endif
