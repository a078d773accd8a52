/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/probe.h - what this kernel takes, found by asking it.
 *
 * A probe works on scratch pages of its own and checks the effect, not only the return value:
 * system call filters and emulators can answer 0 and do nothing. Each advice is probed when it is
 * first needed, once per process, and the decision is kept with its reason. A decision can only get
 * worse at run time (a filter may be installed late), never better.
 *
 * The environment variable PAGEWISE_KERNEL is read before anything is probed (and ignored in
 * set-user-ID programs, see secure_getenv(3)):
 *
 *   auto      probe, use the best (default)
 *   vectored  use process_madvise without probing it; what fails at run time falls back as usual
 *   loop      never call process_madvise; the effect of plain madvise is still checked
 *   off       make no probing call at all; plain madvise, whose answers are taken as they are
 *
 * All functions may be called from any thread, inside an allocator, and after fork. They do not
 * allocate, and leave errno as it was.
 */
#ifndef PAGEWISE_PROBE_H
#define PAGEWISE_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names follow madvise(2). */
enum pgw_advice {
	PGW_DONTNEED,	     /* drop pages; they read as zero (private anonymous memory) */
	PGW_FREE,	     /* the kernel may drop pages later, until they are written again */
	PGW_DONTNEED_LOCKED, /* PGW_DONTNEED that takes locked pages too (Linux 5.18) */
	PGW_COLD,	     /* reclaim these first */
	PGW_PAGEOUT,	     /* reclaim these now */
	PGW_WILLNEED,	     /* read ahead */
	PGW_POPULATE_READ,   /* map pages as a read fault would (Linux 5.14) */
	PGW_POPULATE_WRITE,  /* map pages as a write fault would (Linux 5.14) */
	PGW_COLLAPSE,	     /* make huge pages (Linux 6.1) */
	PGW_DONTDUMP,	     /* leave out of core dumps; loop only */
	PGW_DODUMP,	     /* undo PGW_DONTDUMP; loop only */
	PGW_ADVICE_COUNT
};

enum pgw_route {
	PGW_ROUTE_NONE,	    /* the kernel does not know this advice: pgw_advise gives -EOPNOTSUPP */
	PGW_ROUTE_LOOP,	    /* one madvise per range */
	PGW_ROUTE_VECTORED, /* process_madvise, up to 1024 ranges a call */
};

enum pgw_kernel_mode { PGW_KERNEL_AUTO, PGW_KERNEL_VECTORED, PGW_KERNEL_LOOP, PGW_KERNEL_OFF };

/* How process_madvise names this process. */
enum pgw_self {
	PGW_SELF_NONE,	     /* not needed or not available */
	PGW_SELF_PIDFD_SELF, /* PIDFD_SELF (-10000): no descriptor */
	PGW_SELF_PIDFD,	     /* a descriptor of pidfd_open(2) */
};

struct pgw_probe {
	enum pgw_route route;
	enum pgw_self self;
	bool proven;	    /* the effect was seen, not only a return value */
	int error;	    /* errno behind the decision, 0 if none */
	const char *reason; /* static or process-lifetime text, never NULL, one line */
};

/* The decision for one advice; probes it if it was not probed yet (unless the mode is off).
 * 0, or -EINVAL (no such advice) with *out untouched. */
int pgw_probe(enum pgw_advice advice, struct pgw_probe *out);

/* The mode in force, from PAGEWISE_KERNEL; an unknown value counts as auto and is reported once on
 * standard error. */
enum pgw_kernel_mode pgw_kernel_mode(void);

/* "DONTNEED", "vectored", ...; NULL for a value that is none. Static storage. */
const char *pgw_advice_name(enum pgw_advice advice);
const char *pgw_route_name(enum pgw_route route);
const char *pgw_kernel_mode_name(enum pgw_kernel_mode mode);
const char *pgw_self_name(enum pgw_self self);

/* After a PGW_DONTNEED that reported success, does private anonymous memory read as zero here?
 * (qemu-user's does not.) Where the answer is unknown (mode off) it is true: that is what
 * madvise(2) promises. */
bool pgw_dontneed_zeroes(void);

/* Bytes of a page, from sysconf(3), read once. */
size_t pgw_page_size(void);

#ifdef __cplusplus
}
#endif
#endif
