/* SPDX-License-Identifier: BSD-2-Clause
 *
 * front.h - what api.c shares with the functions that stand in for LMDB's.
 */
#ifndef PGW_STORE_FRONT_H
#define PGW_STORE_FRONT_H

#include "env.h"

struct pgw_recover_report;

/* mdb_env_open, with PGW_RECOVER_* flags and a report. */
int pgw__open_env(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode,
    unsigned recover_flags, struct pgw_recover_report *report);

/* Commit a write transaction of the outermost level. wait: as the environment's durability has it. */
int pgw__commit_writer(struct pgw__env *e, MDB_env *env, MDB_txn *txn, bool wait);

#endif
