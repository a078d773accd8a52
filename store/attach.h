/* SPDX-License-Identifier: BSD-2-Clause
 *
 * attach.h - become the one writing process of an environment in group or relaxed durability, and
 * stop being it.
 */
#ifndef PGW_STORE_ATTACH_H
#define PGW_STORE_ATTACH_H

#include "checkpoint.h"
#include "env.h"

/* The gate is held, and the thread has no write transaction. 0, or LMDB's or this library's code;
 * the environment is as before then, and *why says why: "another process has it open". Static. */
int pgw__attach(
    struct pgw__env *e, MDB_env *lmdb, const struct pgw_env_options *options, const char **why);

/* Before LMDB closes the environment: make everything durable and give the file back to plain LMDB.
 * After a failure, or in a child of the process that attached, the fence stays. */
void pgw__detach(struct pgw__env *e);

/* A write transaction of an environment that is not attached has begun (LMDB's writer lock is held).
 * A file that is fenced all the same belongs to another process, or to one that died while others
 * had it open: then it is made plain. 0, or PGW_BUSY or -errno: nothing may be written. */
int pgw__attach_check_plain(struct pgw__env *e);

/* Is the file fenced, by whomever? */
bool pgw__attach_fenced(const struct pgw__env *e);

/* Who is not attached is asked for a sync. Of a fenced file that makes nothing durable: after a power cut its
 * owner's records count. 0; PGW_BUSY: it has an owner; or, the owner having died, the file is made plain as
 * above, for which LMDB's writer lock is taken. */
int pgw__attach_check_sync(struct pgw__env *e, MDB_env *lmdb);

/* Have children of this process leave its environments alone. Any thread, any number of times. */
void pgw__attach_watch_forks(void);

/* Is the environment at path attached in this process already? LMDB does not support opening it twice
 * in a process: closing one would drop the locks of the other. */
bool pgw__attached_here(const char *path, unsigned flags);

/* Open the file behind a descriptor anew, to read and write. The descriptor, or -errno. */
int pgw__reopen(int fd);

/* The lock that tells one writing process from another, on the file of fd. *owner: a descriptor that
 * has it until it is closed. 0, PGW_BUSY, or errno. */
int pgw__owner_lock(int fd, int *owner);
/* Does anybody have it? */
bool pgw__owner_exists(int fd);

#endif
