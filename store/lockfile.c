/* SPDX-License-Identifier: BSD-2-Clause
 *
 * lockfile.c - see lockfile.h.
 *
 * LMDB asks for the lock exclusively. Who gets it sets the lock file up, and shares the lock when the
 * environment is open. Who does not get it waits until it is shared, and takes the file to be in order. It is
 * not if the first one has failed, or was killed, before it got so far; recovery may be what it was at, and
 * takes time. The newest transaction is number 0 in it then: a fenced file would be taken for one in use, and
 * in a plain one the next transaction would begin at 0, as it does with stock LMDB, and be lost. So who
 * has waited and finds nobody else is told that the lock is exclusive, and starts over. Where several have
 * waited, each finds the others; they let go, and one of them gets it.
 */
#include "lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "env.h"
#include "fence.h"

/* Where plain LMDB has waited as well and gone on from 0, nobody will get the lock. */
#define PATIENCE_S 10

/* Behind magic, format and the first mutex; the same in every LMDB 0.9. */
#define AT_TXNID (8 + sizeof(pthread_mutex_t))

static int lock(int fd, int cmd, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	while (fcntl(fd, cmd, &l))
		if (errno != EINTR)
			return errno;
	return 0;
}

static bool is_taken(int rc)
{
	return rc == EAGAIN || rc == EACCES;
}

static bool has_transactions(const char *path, unsigned flags)
{
	char *name = pgw__env_data_name(path, flags);
	struct pgw__heads heads;
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	bool has = false;

	if (fd >= 0) {
		has = !pgw__heads_read(fd, &heads) &&
		      pgw__get64(pgw__heads_newest(&heads), PGW__META_TXNID);
		close(fd);
	}
	free(name);
	return has;
}

/* Was the one before us killed, or did it fail, before it had set up the file? */
static bool is_unfinished(int fd, const char *path, unsigned flags)
{
	uint64_t txnid;

	if (pread(fd, &txnid, sizeof(txnid), AT_TXNID) != sizeof(txnid))
		txnid = 0;
	return !txnid && has_transactions(path, flags);
}

/* Not as long as others do. */
static void nap(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec = 100000 + (t.tv_nsec ^ getpid() * 40503L) % 900000;
	t.tv_sec = 0;
	nanosleep(&t, NULL);
}

static time_t seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

int pgw__lock_file_exclusive(int fd, const char *path, unsigned flags)
{
	const time_t end = seconds() + PATIENCE_S;

	for (;;) {
		int rc = lock(fd, F_SETLK, F_WRLCK);

		if (!is_taken(rc))
			return rc;
		rc = lock(fd, F_SETLKW, F_RDLCK);
		if (rc)
			return rc;
		rc = lock(fd, F_SETLK, F_WRLCK);
		if (!is_taken(rc) || !is_unfinished(fd, path, flags) || seconds() > end)
			return rc;
		(void)lock(fd, F_SETLK, F_UNLCK);
		nap();
	}
}
