/* SPDX-License-Identifier: BSD-2-Clause
 *
 * probe.h - decisions about the kernel, for the shim's own use (pagewise/probe.h is the public
 * side).
 */
#ifndef PGW_SHIM_PROBE_H
#define PGW_SHIM_PROBE_H

#include <stdint.h>

#include <pagewise/probe.h>

/* process_madvise takes no more ranges a call (UIO_MAXIOV). */
#define PGW__VECTOR_MAX 1024

/* It takes no more bytes a call either: the rest is left out, without an error (MAX_RW_COUNT, for
 * pages of 4 KiB). */
#define PGW__VECTOR_BYTES 0x7ffff000u

/* Why something is as it is. The texts are in reason.c. */
enum pgw__reason {
	PGW__R_UNKNOWN,
	/* decided without a probe */
	PGW__R_OFF,
	PGW__R_FORCED_VECTORED,
	PGW__R_FORCED_LOOP,
	PGW__R_NEVER_BATCHED,
	PGW__R_TOO_LARGE_TO_GAIN,
	/* process_madvise is good */
	PGW__R_SELF_SEEN,
	PGW__R_SELF_TAKEN,
	PGW__R_PIDFD_SEEN,
	PGW__R_PIDFD_TAKEN,
	/* the probe itself could not be made */
	PGW__R_NO_SCRATCH,
	PGW__R_BUSY,
	PGW__R_NO_DESCRIPTOR,
	/* what madvise answers */
	PGW__R_MADVISE_ENOSYS,
	PGW__R_MADVISE_EINVAL,
	PGW__R_MADVISE_EPERM,
	PGW__R_MADVISE_NO_SWAP,
	PGW__R_MADVISE_NO_EFFECT,
	PGW__R_MADVISE_OTHER,
	/* what process_madvise answers */
	PGW__R_VECTOR_ENOSYS,
	PGW__R_VECTOR_EINVAL,
	PGW__R_VECTOR_EPERM,
	PGW__R_VECTOR_EACCES,
	PGW__R_VECTOR_EBADF,
	PGW__R_VECTOR_ESRCH,
	PGW__R_VECTOR_EFAULT,
	PGW__R_VECTOR_EAGAIN,
	PGW__R_VECTOR_ENOMEM,
	PGW__R_VECTOR_OTHER,
	PGW__R_VECTOR_ZERO,
	PGW__R_VECTOR_TOO_MUCH,
	PGW__R_VECTOR_SHORT,
	PGW__R_VECTOR_NO_EFFECT,
	PGW__R_VECTOR_TAKES_ALL,
	/* what pidfd_open answers */
	PGW__R_PIDFD_OPEN,
	PGW__REASON_COUNT
};

const char *pgw__reason_text(enum pgw__reason r);

/* The reason for an answer of process_madvise to ranges that are good. err: -errno. */
enum pgw__reason pgw__reason_vector(int err);

struct pgw__decision {
	enum pgw_route route;
	enum pgw_self self;
	bool proven;
	int error; /* errno, positive */
	enum pgw__reason reason;
};

/* The decision in force for an advice, which must be a valid one; probes it if need be. */
struct pgw__decision pgw__decide(enum pgw_advice advice);

/* From now on, advise in the loop. error: -errno or 0. */
void pgw__downgrade(enum pgw_advice advice, int error, enum pgw__reason reason);

/* From now on, name this process by a pidfd. Only for advice where pgw__pidfd_is_safe. */
void pgw__use_pidfd(enum pgw_advice advice);

/* May a pidfd be used, which may turn out to be another process's? Only for advice that the kernel
 * refuses to give to others: in a forked child an inherited pidfd means the parent. */
bool pgw__pidfd_is_safe(enum pgw_advice advice);

/* The kernel's number of an advice. */
int pgw__advice_number(enum pgw_advice advice);

/* "process_madvise DONTNEED", for notes. */
const char *pgw__advice_call(enum pgw_advice advice);

/* Forget all decisions, and read PAGEWISE_KERNEL again. For tests: not while others decide. */
void pgw__probe_reset(void);

/* --- self.c: how process_madvise names this process --- */

#define PGW__PIDFD_SELF (-10000)

/* A number for process_madvise's first argument; -errno if there is none to be had. */
int pgw__self_get(enum pgw_self self, int *out);

/* bad was the answer of pgw__self_get, and the kernel refuses it: the program closed it, or has
 * reused its number. Opens another one (and does not close bad, which may be the program's). */
int pgw__self_renew(enum pgw_self self, int bad, int *out);

/* A pidfd for a probe, and what becomes of it: kept for pgw__self_get, or closed. */
int pgw__self_open(int *out);
void pgw__self_keep(int fd);

/* Part of pgw__probe_reset. */
void pgw__self_reset(void);

#endif
