/* SPDX-License-Identifier: BSD-2-Clause
 *
 * commit.h - durability of one environment: what is synced, when, and what is known afterwards.
 *
 * The first three are called by the seam in place of LMDB's own sync calls, with LMDB's writer lock
 * held; e is the entry of call. Results are 0 or -errno.
 */
#ifndef PGW_STORE_COMMIT_H
#define PGW_STORE_COMMIT_H

#include <sys/types.h>
#include <sys/uio.h>

#include "env.h"

/* Make durable what the meta page of call->txnid will lead to. */
int pgw__commit_data(struct pgw__call *call);

/* Make the meta page durable that LMDB has stored at off of the map. */
int pgw__commit_meta(struct pgw__call *call, uint64_t off, uint64_t len);

/* Write the meta page through a descriptor of LMDB that is not the data file's first one. The
 * result is pwrite's, or -errno. */
ssize_t pgw__commit_meta_write(
    struct pgw__call *call, int fd, const void *buf, size_t len, off_t off);

/* mdb_env_sync: everything that was committed before. Any thread, also beside a writer. */
int pgw__sync_all(struct pgw__env *e);

/* Make ranges durable, by one barrier. Serialized with other syncs of the environment; an error is
 * final for it. The set is scratch. alone: hardly anything else in the file is dirty. */
int pgw__sync_ranges(struct pgw__env *e, struct pgw_ranges *ranges, bool alone);

/* Start write-out of ranges. alone and errors as above. */
int pgw__start_ranges(struct pgw__env *e, struct pgw_ranges *ranges, bool alone);

/* End the environment with rc (-errno), unless it has ended: the error it has ended with. */
int pgw__env_fail(struct pgw__env *e, int rc);

/* Everything up to this transaction, of whomever, is durable. Any thread. */
void pgw__commit_durable(struct pgw__env *e, uint64_t txnid);

/* A write transaction starts; the writer lock is held. */
void pgw__commit_begin(struct pgw__env *e);

/* The map moved; no transaction is running. */
void pgw__commit_remapped(struct pgw__env *e);

/* Write all of it at off, or fail: a short write is continued, so that its cause is seen (LMDB
 * takes one for EIO). The number of bytes, or -errno. EINTR only if nothing was written. */
ssize_t pgw__write_all(int fd, const struct iovec *v, int n, off_t off);

#endif
