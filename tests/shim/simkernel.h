/* SPDX-License-Identifier: BSD-2-Clause
 *
 * simkernel.h - a kernel small enough to be known completely, behind the table of shim/sys.h.
 *
 * Memory: a window of addresses that nobody maps, each page with flags (locked, sealed, unmapped)
 * and a count of the advice it got; and whatever was mapped through the table (real memory: the
 * probe's scratch pages), where advice has its effect. Files: one file whose pages go from dirty to
 * durable as Linux moves them, with a device that forgets what it was not told to flush.
 *
 * Between the caller and the kernel there may be a filter (intercept), as seccomp is one: it
 * answers in the kernel's place. fail_at is a filter that answers one call with an error.
 *
 * One kernel per process, in the global sim. Not thread-safe.
 */
#ifndef PGW_TESTS_SIMKERNEL_H
#define PGW_TESTS_SIMKERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <pagewise/advise.h>
#include <pagewise/range.h>

#define SIM_PAGE  4096u
#define SIM_PAGES 16384u

/* Where no system maps anything. */
#if UINTPTR_MAX == UINT64_MAX
#define SIM_BASE UINT64_C(0x700000000000)
#define SIM_MAP	 UINT64_C(0x600000000000)
#else
#define SIM_BASE UINT64_C(0xa0000000)
#define SIM_MAP	 UINT64_C(0xb0000000)
#endif

#define SIM_FILE_PAGES 16384u
#define SIM_FILE_FD    77

enum sim_call {
	SIM_MADVISE,
	SIM_PROCESS_MADVISE,
	SIM_PIDFD_OPEN,
	SIM_MAP_ANON,
	SIM_UNMAP,
	SIM_UNLOCK,
	SIM_MINCORE,
	SIM_MSYNC,
	SIM_FDATASYNC,
	SIM_FSYNC,
	SIM_SYNC_FILE_RANGE,
	SIM_FS_MAGIC,
	SIM_FD_MODE,
	SIM_FD_FLAGS,
	SIM_FD_MOVE,
	SIM_CLOSE,
	SIM_GETPID,
	SIM_CALL_COUNT
};

enum sim_page_flag {
	SIM_LOCKED = 1,	  /* madvise: EINVAL */
	SIM_SEALED = 2,	  /* EPERM */
	SIM_UNMAPPED = 4, /* ENOMEM */
};

enum sim_file_page {
	SIM_DURABLE,
	SIM_DIRTY,
	SIM_STARTED, /* write-out started, not waited for */
	SIM_WRITTEN, /* in the device's cache */
};

struct sim_args {
	int fd; /* pidfd, fd */
	int advice;
	unsigned flags;
	const struct iovec *v; /* process_madvise */
	size_t n;
	uint64_t start, len; /* madvise, msync (file offset), sync_file_range, ... */
};

struct sim_record {
	enum sim_call call;
	struct sim_args args;
	int64_t answer;
};

#define SIM_LOG 4096

struct sim {
	/* memory */
	uint8_t flags[SIM_PAGES];
	uint32_t advised[SIM_PAGES];
	uint8_t claimed[SIM_PAGES]; /* some call has said of this page that it was done */

	/* what this kernel has; sim_install switches everything on */
	bool has_process_madvise;
	bool has_pidfd_self;
	bool takes_self[PGW_ADVICE_COUNT]; /* process_madvise, of the caller's own memory */
	bool knows[PGW_ADVICE_COUNT];	   /* madvise */
	bool does_nothing;		   /* madvise answers 0 and does nothing (an emulator) */
	bool born_locked;		   /* mlockall(MCL_FUTURE) */
	size_t max_maps;		   /* map_anon fails beyond */
	pid_t pid;

	/* the file */
	uint8_t file[SIM_FILE_PAGES];
	uint64_t magic;
	mode_t mode;
	int open_flags;
	char *map; /* what pgw_sync_init was given; never touched */
	unsigned device_flushes;

	/* the filter */
	bool (*intercept)(enum sim_call call, const struct sim_args *args, int64_t *answer);
	unsigned fail_at; /* the n-th call of all, from 1; 0: none */
	int fail_errno;
	bool failed;

	/* what happened */
	unsigned calls[SIM_CALL_COUNT];
	unsigned total;
	struct sim_record log[SIM_LOG];
	size_t logged;
	int pidfds_open;
};

extern struct sim sim;

/* First of all in main: leaves with 77 where pages are not SIM_PAGE bytes. */
void sim_or_skip(void);

/* A fresh kernel that can do everything, in the place of the real one; nothing decided yet. mode:
 * PAGEWISE_KERNEL. */
void sim_install(const char *mode);

/* The real one again. */
void sim_remove(void);

/* Forget what happened; the state stays. */
void sim_forget(void);

/* The range of pages [first, first + n) of the window. */
struct pgw_range sim_range(size_t first, size_t n);

/* Are all the pages of r marked done (or claimed to be)? */
bool sim_is_claimed(struct pgw_range r);

void sim_set_flags(size_t first, size_t n, uint8_t flags);

/* The pidfd that was opened last gets another meaning: closed (pid 0), or another process. */
void sim_steal_pidfd(pid_t pid);

/* Pages [first, first + n) of the file become dirty. */
void sim_dirty(size_t first, size_t n);
bool sim_is_durable(size_t first, size_t n);

#endif
