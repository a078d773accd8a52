/* SPDX-License-Identifier: BSD-2-Clause
 *
 * self.c - how process_madvise names the process that calls it.
 *
 * PIDFD_SELF needs nothing. Where the kernel does not have it, a pidfd is opened, and this file
 * deals with what a library's descriptor meets inside somebody else's program:
 *
 *  - It gets a high number: the program may expect its next open() to return 0, 1 or 2.
 *  - After fork it means the parent. So the process id is kept with it, and compared at each use.
 *  - The program may close it (closefrom) and reuse its number. So a number that the kernel refused
 *    is never closed here, only forgotten; and as it may have been ours all the same, that is done
 *    a limited number of times.
 *
 * The pair (process id, descriptor) is one atomic word; whoever loses the race to set it closes
 * what it opened. A vfork child, which shares this memory but not the descriptors, leaves its own
 * process id behind, and its parent opens another one: a descriptor is lost, nothing worse.
 */
#include "probe.h"

#include <errno.h>
#include <stdatomic.h>

#include "stats.h"
#include "sys.h"

#define RENEWALS_MAX 8

static _Atomic unsigned renewals;

/* Process id in the upper half, descriptor + 1 in the lower. 0: none. */
static _Atomic uint64_t current;

static uint64_t pack(pid_t pid, int fd)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)(fd + 1);
}

static bool unpack(uint64_t word, pid_t pid, int *fd)
{
	if (!word || (uint32_t)(word >> 32) != (uint32_t)pid)
		return false;
	*fd = (int)(uint32_t)word - 1;
	return true;
}

int pgw__self_open(int *out)
{
	/* Low limits on descriptors exist; numbers below 10 are what shells hand around. */
	static const int lowest[] = { 512, 64, 10 };
	int fd = pgw__sys.pidfd_open(pgw__sys.getpid(), 0), moved = -EMFILE;

	if (fd < 0)
		return fd;
	if (fd >= lowest[0]) {
		*out = fd;
		return 0;
	}
	for (size_t i = 0; i < sizeof(lowest) / sizeof(*lowest) && moved < 0; i++)
		moved = pgw__sys.fd_move(fd, lowest[i]);
	if (moved < 0) {
		pgw__sys.close(fd);
		return -EMFILE;
	}
	*out = moved;
	return 0;
}

/* Publish fd in the place of was. Whatever is current afterwards goes to *out. */
static void publish(uint64_t was, pid_t pid, int fd, int *out)
{
	if (atomic_compare_exchange_strong(&current, &was, pack(pid, fd))) {
		*out = fd;
		return;
	}
	if (unpack(was, pid, out))
		pgw__sys.close(fd);
	else
		*out = fd; /* a vfork child came between: usable, and not kept */
}

static int open_in_place_of(uint64_t was, pid_t pid, int *out)
{
	int fd, err = pgw__self_open(&fd);

	if (!err)
		publish(was, pid, fd, out);
	return err;
}

int pgw__self_get(enum pgw_self self, int *out)
{
	uint64_t word;
	pid_t pid;

	if (self == PGW_SELF_PIDFD_SELF) {
		*out = PGW__PIDFD_SELF;
		return 0;
	}
	pid = pgw__sys.getpid();
	word = atomic_load(&current);
	return unpack(word, pid, out) ? 0 : open_in_place_of(word, pid, out);
}

int pgw__self_renew(enum pgw_self self, int bad, int *out)
{
	uint64_t word = atomic_load(&current);
	pid_t pid;
	int fd;

	if (self != PGW_SELF_PIDFD)
		return -EBADF;
	pid = pgw__sys.getpid();
	if (unpack(word, pid, &fd) && fd != bad) {
		*out = fd; /* another thread was faster */
		return 0;
	}
	if (atomic_fetch_add(&renewals, 1) >= RENEWALS_MAX)
		return -EBADF;
	return open_in_place_of(word, pid, out);
}

void pgw__self_reset(void)
{
	atomic_store(&current, 0);
	atomic_store(&renewals, 0);
}

void pgw__self_keep(int fd)
{
	uint64_t word = atomic_load(&current);
	pid_t pid = pgw__sys.getpid();
	int ignored;

	if (unpack(word, pid, &ignored))
		pgw__sys.close(fd);
	else
		publish(word, pid, fd, &ignored);
}
