/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reason.c - names, and the texts that say why the shim does what it does.
 *
 * A reason is one line that a person can act on: what answered what, and what that usually means.
 */
#include <errno.h>
#include <sys/mman.h>

#include "probe.h"

/* The same on all architectures that have them; headers may be older. */
#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static const struct {
	const char *name, *call;
	int number;
} advices[PGW_ADVICE_COUNT] = {
#define ADVICE(x) [PGW_##x] = { #x, "process_madvise " #x, MADV_##x }
	ADVICE(DONTNEED),
	ADVICE(FREE),
	ADVICE(DONTNEED_LOCKED),
	ADVICE(COLD),
	ADVICE(PAGEOUT),
	ADVICE(WILLNEED),
	ADVICE(POPULATE_READ),
	ADVICE(POPULATE_WRITE),
	ADVICE(COLLAPSE),
	ADVICE(DONTDUMP),
	ADVICE(DODUMP),
#undef ADVICE
};

static const char *const reasons[PGW__REASON_COUNT] = {
	[PGW__R_UNKNOWN] = "not decided",
	[PGW__R_OFF] = "PAGEWISE_KERNEL=off: nothing is probed, madvise is taken at its word",
	[PGW__R_FORCED_VECTORED] =
	    "PAGEWISE_KERNEL=vectored: process_madvise is used without a probe",
	[PGW__R_FORCED_LOOP] = "PAGEWISE_KERNEL=loop",
	[PGW__R_NEVER_BATCHED] = "process_madvise does not take this advice",
	[PGW__R_TOO_LARGE_TO_GAIN] = "ranges that can collapse are too large to gain by batching",
	[PGW__R_SELF_SEEN] = "process_madvise works through PIDFD_SELF; the effect was seen",
	[PGW__R_SELF_TAKEN] =
	    "process_madvise takes it through PIDFD_SELF; the effect cannot be seen",
	[PGW__R_PIDFD_SEEN] = "process_madvise works through a pidfd; the effect was seen",
	[PGW__R_PIDFD_TAKEN] =
	    "process_madvise takes it through a pidfd; the effect cannot be seen",
	[PGW__R_NO_SCRATCH] = "no memory to probe with (address space or map limit); asked again "
			      "next time",
	[PGW__R_BUSY] = "the probe met a shortage of resources; asked again next time",
	[PGW__R_NO_DESCRIPTOR] =
	    "no free descriptor for a pidfd (RLIMIT_NOFILE); asked again next time",
	[PGW__R_MADVISE_ENOSYS] =
	    "madvise answers ENOSYS: a kernel without CONFIG_ADVISE_SYSCALLS, "
	    "or a seccomp filter",
	[PGW__R_MADVISE_EINVAL] = "madvise answers EINVAL: this kernel does not know the advice",
	[PGW__R_MADVISE_EPERM] = "madvise is not permitted: a seccomp filter or security module",
	[PGW__R_MADVISE_NO_SWAP] = "madvise answers EBADF for anonymous memory: a kernel without "
				   "swap; files only",
	[PGW__R_MADVISE_NO_EFFECT] =
	    "madvise answers 0 and does nothing: an emulator (qemu-user) or a seccomp filter",
	[PGW__R_MADVISE_OTHER] = "madvise answers an error that is not expected of it",
	[PGW__R_VECTOR_ENOSYS] =
	    "process_madvise answers ENOSYS: a kernel before Linux 5.10, or a seccomp filter",
	[PGW__R_VECTOR_EINVAL] = "process_madvise answers EINVAL: this kernel does not take the "
				 "advice for the calling process (Linux 6.13 does), or a seccomp "
				 "filter",
	[PGW__R_VECTOR_EPERM] = "process_madvise answers EPERM: blocked by a seccomp filter, or "
				"CAP_SYS_NICE or CAP_SYS_PTRACE is missing",
	[PGW__R_VECTOR_EACCES] =
	    "process_madvise answers EACCES: blocked by a seccomp filter or a security module",
	[PGW__R_VECTOR_EBADF] = "process_madvise answers EBADF: this kernel does not have "
				"PIDFD_SELF, or a seccomp filter",
	[PGW__R_VECTOR_ESRCH] = "process_madvise answers ESRCH for this process: a seccomp filter",
	[PGW__R_VECTOR_EFAULT] = "process_madvise answers EFAULT for ranges that madvise takes",
	[PGW__R_VECTOR_EAGAIN] = "process_madvise keeps answering EAGAIN or EINTR",
	[PGW__R_VECTOR_ENOMEM] = "process_madvise answers ENOMEM for ranges that madvise takes",
	[PGW__R_VECTOR_OTHER] = "process_madvise answers an error that is not expected of it",
	[PGW__R_VECTOR_ZERO] = "process_madvise answers 0 and does nothing: a seccomp filter",
	[PGW__R_VECTOR_TOO_MUCH] = "process_madvise reports more bytes than it was given",
	[PGW__R_VECTOR_SHORT] = "process_madvise stops short before ranges that madvise takes",
	[PGW__R_VECTOR_NO_EFFECT] = "process_madvise reports success and does nothing: a filter or "
				    "an emulator",
	[PGW__R_VECTOR_TAKES_ALL] =
	    "process_madvise accepts a misaligned range: it is not the kernel that answers",
	[PGW__R_PIDFD_OPEN] = "process_madvise answers EBADF to PIDFD_SELF, and pidfd_open is "
			      "refused: an old kernel or a seccomp filter",
};

const char *pgw__reason_text(enum pgw__reason r)
{
	return reasons[r];
}

enum pgw__reason pgw__reason_vector(int err)
{
	switch (-err) {
	case ENOSYS:
		return PGW__R_VECTOR_ENOSYS;
	case EINVAL:
		return PGW__R_VECTOR_EINVAL;
	case EPERM:
		return PGW__R_VECTOR_EPERM;
	case EACCES:
		return PGW__R_VECTOR_EACCES;
	case EBADF:
		return PGW__R_VECTOR_EBADF;
	case ESRCH:
		return PGW__R_VECTOR_ESRCH;
	case EFAULT:
		return PGW__R_VECTOR_EFAULT;
	case EAGAIN:
	case EINTR:
		return PGW__R_VECTOR_EAGAIN;
	case ENOMEM:
		return PGW__R_VECTOR_ENOMEM;
	default:
		return PGW__R_VECTOR_OTHER;
	}
}

int pgw__advice_number(enum pgw_advice advice)
{
	return advices[advice].number;
}

const char *pgw__advice_call(enum pgw_advice advice)
{
	return advices[advice].call;
}

const char *pgw_advice_name(enum pgw_advice advice)
{
	return (unsigned)advice < PGW_ADVICE_COUNT ? advices[advice].name : NULL;
}

const char *pgw_route_name(enum pgw_route route)
{
	static const char *const names[] = { "none", "loop", "vectored" };

	return (unsigned)route < 3 ? names[route] : NULL;
}

const char *pgw_kernel_mode_name(enum pgw_kernel_mode mode)
{
	static const char *const names[] = { "auto", "vectored", "loop", "off" };

	return (unsigned)mode < 4 ? names[mode] : NULL;
}

const char *pgw_self_name(enum pgw_self self)
{
	static const char *const names[] = { "none", "PIDFD_SELF", "pidfd" };

	return (unsigned)self < 3 ? names[self] : NULL;
}
