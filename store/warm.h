/* SPDX-License-Identifier: BSD-2-Clause
 *
 * warm.h - warming as an option of opening.
 */
#ifndef PGW_STORE_WARM_H
#define PGW_STORE_WARM_H

#include "env.h"

/* pgw_env_warm with what the options of the environment say. It may fail: nothing depends on it. */
void pgw__warm_at_open(struct pgw__env *e, MDB_env *env, const struct pgw_env_options *options);

#endif
