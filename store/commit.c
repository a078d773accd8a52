/* SPDX-License-Identifier: BSD-2-Clause
 *
 * commit.c - strict durability, narrowed to the dirty ranges.
 *
 * LMDB commits transaction T in four steps, and this file is the second and the fourth:
 *
 *   write the pages of T    barrier    write T's meta page (slot T & 1)    barrier
 *
 * On disk the newest whole meta page decides. LMDB never changes a page that the last two
 * committed snapshots can reach, so the disk is sound if, whenever a meta page may reach it, all
 * that this page leads to is there already. Stock LMDB gets that by syncing the whole file. Syncing
 * only T's ranges needs to know that everything older is durable:
 *
 * I1  If e->trusted, snapshot e->base is durable but for its own meta page: each page that it can
 *     reach, and the directory entry and size of the file. Unless e->meta_pending, its meta page
 *     is durable too.
 * I2  A narrow sync for T is made only if trusted and base == T - 1. T - 1 is what LMDB found
 *     under the writer lock, and txnids of committed transactions are never used twice while the
 *     lock file lives; so nothing was committed between, by anybody. Snapshot T consists of pages
 *     of T - 1, durable by I1, and of pages that T dirtied, in e->dirty. A sync of e->dirty makes
 *     I1 true for T.
 * I3  e->dirty holds at least what the transaction changed, or is marked incomplete. Without
 *     MDB_WRITEMAP: every write to the data file passes seam.c; this includes pages spilled early
 *     and those of nested transactions, also of aborted ones. With it: every page passes
 *     mdb_mid2l_append before it is stored into (dirty.c). The set only grows until the next
 *     transaction begins: what was freed again stays in it.
 * I4  A transaction that is aborted, or fails before its first barrier, has changed only pages
 *     that no snapshot reaches. It leaves base and trust as they are, and its ranges are dropped.
 * I5  With MDB_NOMETASYNC the meta page of T is left unsynced, and is among the ranges of T + 1
 *     (meta_pending). So when T + 1's own meta page can reach the disk, T's is there, and pages
 *     that T + 2 recycles (reachable from T - 1, not from T) are not needed by anything on disk.
 * I6  With MDB_NOSYNC or MDB_MAPASYNC no barrier is made, base stays behind, and I2 fails for the
 *     next transaction: it syncs the whole file, and I1 holds again. Nothing needs to be told when
 *     flags change: what counts is which barriers were made.
 * I7  All else that makes I1 doubtful clears trusted: opening (the file may come from a process
 *     that was killed) and resizing (the file may have been extended or cut). A writer in another
 *     process, or through another handle of this one, shows as base != T - 1.
 * I8  A failed sync ends the environment (failed is set and stays): the kernel reports an error of
 *     write-out once, drops the pages, and a retry succeeds. For the same reason syncs through the
 *     data descriptor are serialized, with the look at failed inside: else one thread could be
 *     told of the error and another, whose pages were lost with it, of success.
 * I9  Nor does a failed sync end with the process: its pages stay in the page cache, clean. If
 *     they were of a transaction that failed with it, no snapshot needs them. If a meta page was
 *     among them (its own sync, or I5), the file looks newer than the disk is, and who opens it next
 *     would rest on a page that no later sync writes. So whatever syncs the whole file dirties both
 *     meta pages anew.
 *
 * State of an environment, changed under the writer lock only:
 *
 *   event                                       from                        to
 *   the whole file is synced for T              any                         base T, meta pending
 *   ranges of T, and meta T - 1 if pending      base T - 1                  base T, meta pending
 *   meta page of T is synced                    base T, meta pending        base T
 *   opened, resized                             any                         untrusted
 *   a sync fails                                any                         failed
 *
 * mdb_env_sync may run beside a writer. It syncs the whole file and changes none of this. What was committed
 * before it is known to be durable afterwards, so that the next one need not sync.
 *
 * The whole file is synced by fdatasync, which on Linux covers stores through a map as well.
 */
#include "commit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "stats.h"
#include "sys.h"

static void count_report(struct pgw__env *e, const struct pgw_sync_report *r)
{
	PGW__ENV_COUNT(e, sync_file_range_calls, r->sync_file_range_calls);
	PGW__ENV_COUNT(e, sync_file_range_bytes, r->sync_file_range_bytes);
	PGW__ENV_COUNT(e, msync_calls, r->msync_calls);
	PGW__ENV_COUNT(e, msync_bytes, r->msync_bytes);
	PGW__ENV_COUNT(e, fdatasync_calls, r->fdatasync_calls);
	PGW__ENV_COUNT(e, barriers, r->barriers);
	PGW__ENV_COUNT(e, synced_bytes, r->range_bytes);
}

/* I8. The first error is kept: it is nearest to the cause. */
static int failed(struct pgw__env *e, int rc)
{
	int none = 0;

	PGW__ENV_COUNT(e, failed_syncs, 1);
	atomic_compare_exchange_strong(&e->failed, &none, rc);
	return rc;
}

/* Sync the directory, once an open. sync_lock is held. A directory that cannot be synced (some file systems
 * refuse, and a program may have closed the descriptor) costs no commit; one that fails does. */
static int sync_directory(struct pgw__env *e)
{
	int rc;

	if (e->dir_fd < 0)
		return 0;
	if (!pgw__env_has_directory(e)) {
		pgw__note_fallback(
		    "directory sync", "the program has closed the directory's descriptor");
		pgw__env_forget_directory(e);
		return 0;
	}
	rc = pgw__sys.fsync(e->dir_fd);
	PGW__ENV_COUNT(e, directory_syncs, 1);
	if (!rc)
		PGW__ENV_COUNT(e, barriers, 1);
	if (rc == -EIO || rc == -ENOSPC || rc == -EDQUOT)
		return rc;
	if (rc)
		pgw__note_fallback("directory sync", "fsync of the directory is refused");
	pgw__env_forget_directory(e);
	return 0;
}

/* What is dirty in the file beside the ranges. */
enum beside { MUCH, LITTLE, NOTHING };

/* Sync ranges, or everything if ranges is NULL. */
static int sync_file(struct pgw__env *e, struct pgw_ranges *ranges, enum beside beside)
{
	struct pgw_sync_report report = { 0 };
	struct pgw_sync_file file;
	int rc;

	pthread_mutex_lock(&e->sync_lock);
	rc = atomic_load(&e->failed);
	if (rc) {
		pthread_mutex_unlock(&e->sync_lock);
		return rc;
	}
	rc = sync_directory(e);
	if (!rc) {
		file = e->file;
		file.alone = beside != MUCH;
		file.only = beside == NOTHING;
		rc = ranges ? pgw_sync(&file, ranges, &report) : pgw_sync_all(&file, &report);
		count_report(e, &report);
	}
	if (rc)
		rc = failed(e, rc);
	pthread_mutex_unlock(&e->sync_lock);
	return rc;
}

int pgw__sync_ranges(struct pgw__env *e, struct pgw_ranges *ranges, bool alone)
{
	return sync_file(e, ranges, alone ? LITTLE : MUCH);
}

int pgw__start_ranges(struct pgw__env *e, struct pgw_ranges *ranges, bool alone)
{
	struct pgw_sync_report report = { 0 };
	struct pgw_sync_file file = e->file;
	int rc;

	file.alone = alone;
	rc = pgw_sync_start(&file, ranges, &report);

	count_report(e, &report);
	return rc ? failed(e, rc) : 0;
}

int pgw__env_fail(struct pgw__env *e, int rc)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&e->failed, &none, rc))
		PGW__ENV_COUNT(e, failed_syncs, 1);
	return atomic_load(&e->failed);
}

static int sync_whole(struct pgw__env *e, enum pgw_full_sync why)
{
	PGW__ENV_COUNT(e, full_syncs[why], 1);
	return sync_file(e, NULL, MUCH);
}

/* I9. The number of a page is at its beginning and never changes, so this races with nobody. */
static int touch_meta_pages(const struct pgw__env *e)
{
	int fd = atomic_load_explicit(&e->fd, memory_order_relaxed);

	for (uint64_t off = 0; off <= e->psize; off += e->psize) {
		uint64_t pgno;
		const struct iovec v = { .iov_base = &pgno, .iov_len = sizeof(pgno) };
		ssize_t r;

		if (pread(fd, &pgno, sizeof(pgno), (off_t)off) != sizeof(pgno))
			return -EIO;
		do
			r = pgw__write_all(fd, &v, 1, (off_t)off);
		while (r == -EINTR);
		if (r < 0)
			return (int)r;
	}
	return 0;
}

/* May T be synced by its ranges (I2)? If not, *why says so. */
static bool narrow(const struct pgw__env *e, uint64_t txnid, enum pgw_full_sync *why)
{
	if (!e->trusted)
		*why = e->distrust;
	else if (e->base + 1 != txnid)
		*why = e->nosync + 1 == txnid ? PGW_FULL_NOSYNC : PGW_FULL_OTHER_WRITER;
	else
		return true;
	return false;
}

/* The ranges of the transaction, in e->scratch. */
static int collect(struct pgw__env *e)
{
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	uintptr_t end = atomic_load_explicit(&e->map_end, memory_order_relaxed);
	const void *map = e->writemap ? (const void *)start : NULL;
	int rc = pgw__dirty_collect(&e->dirty, map, end - start, e->psize, &e->scratch);

	if (rc)
		return rc;
	PGW__ENV_COUNT(e, dirty_bytes, pgw_ranges_bytes(&e->scratch));
	PGW__ENV_COUNT(e, dirty_ranges, e->scratch.n);
	return 0;
}

static int add_pending_meta(struct pgw__env *e)
{
	if (!e->meta_pending)
		return 0;
	return pgw_ranges_add(&e->scratch, (e->base & 1) * e->psize, e->psize);
}

static int commit_whole(struct pgw__env *e, enum pgw_full_sync why)
{
	int rc = touch_meta_pages(e);

	if (!rc)
		rc = sync_whole(e, why);
	if (!rc)
		e->strays = false;
	return rc;
}

/* By I2 all that is older is durable, and nobody else writes. What is dirty beside the ranges is of
 * transactions that were given up. */
static int commit_ranges(struct pgw__env *e)
{
	return sync_file(e, &e->scratch, e->strays ? LITTLE : NOTHING);
}

int pgw__commit_data(struct pgw__call *call)
{
	struct pgw__env *e = call->env;
	enum pgw_full_sync why;
	bool ranges = narrow(e, call->txnid, &why);
	int rc = collect(e);

	if (ranges && !rc && !e->scratch.n) {
		ranges = false;
		why = PGW_FULL_UNTRACKED;
	} else if (ranges && (rc || add_pending_meta(e))) {
		ranges = false;
		why = PGW_FULL_NO_MEMORY;
	}
	rc = ranges ? commit_ranges(e) : commit_whole(e, why);
	/* I4: without a meta page the transaction has changed nothing. */
	if (!rc)
		rc = pgw__space_for_meta(e, 1u << (call->txnid & 1));
	if (rc) {
		call->disk_full = rc == -ENOSPC || rc == -EDQUOT;
		return rc;
	}
	e->dirty_synced = true;
	e->trusted = true;
	e->base = call->txnid;
	e->meta_pending = true; /* until pgw__commit_meta, if LMDB comes to it */
	call->data_synced = true;
	return 0;
}

void pgw__commit_durable(struct pgw__env *e, uint64_t txnid)
{
	uint64_t now = atomic_load_explicit(&e->durable_txnid, memory_order_relaxed);

	while (now < txnid && !atomic_compare_exchange_weak_explicit(&e->durable_txnid, &now, txnid,
				  memory_order_relaxed, memory_order_relaxed))
		;
}

static void meta_durable(struct pgw__call *call)
{
	struct pgw__env *e = call->env;

	if (!call->data_synced)
		return; /* I1 does not hold for this transaction */
	e->meta_pending = false;
	pgw__commit_durable(e, call->txnid);
}

int pgw__commit_meta(struct pgw__call *call, uint64_t off, uint64_t len)
{
	struct pgw__env *e = call->env;
	struct pgw_range storage;
	struct pgw_ranges set;
	int rc;

	pgw_ranges_init_fixed(&set, &storage, 1);
	rc = pgw_ranges_add(&set, off, len);
	if (!rc)
		rc = sync_file(e, &set, LITTLE);
	if (!rc)
		meta_durable(call);
	return rc;
}

/* The rest of a buffer whose first part was written. 0 or -errno. */
static int write_rest(int fd, const char *p, size_t len, off_t off)
{
	while (len) {
		const struct iovec v = { .iov_base = (void *)p, .iov_len = len };
		int64_t r = pgw__sys.pwritev(fd, &v, 1, (uint64_t)off);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r ? (int)r : -EIO;
		p += r;
		off += r;
		len -= (size_t)r;
	}
	return 0;
}

/* The rest of what a call began. 0 or -errno. */
static int continue_write(int fd, const struct iovec *v, int n, size_t done, off_t off)
{
	for (int i = 0; i < n; i++) {
		size_t skip = done < v[i].iov_len ? done : v[i].iov_len;
		int rc = write_rest(
		    fd, (const char *)v[i].iov_base + skip, v[i].iov_len - skip, off + (off_t)skip);

		if (rc)
			return rc;
		done -= skip;
		off += (off_t)v[i].iov_len;
	}
	return 0;
}

/* A write that ends at the limit of a file's size (RLIMIT_FSIZE) is short, and only one that begins there is
 * answered with SIGXFSZ. The program must not get that for a call that is ours alone. */
static int continue_quietly(int fd, const struct iovec *v, int n, size_t done, off_t off)
{
	static const struct timespec now;
	sigset_t xfsz, before;
	int rc;

	sigemptyset(&xfsz);
	sigaddset(&xfsz, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &xfsz, &before);
	rc = continue_write(fd, v, n, done, off);
	if (rc == -EFBIG && !sigismember(&before, SIGXFSZ))
		(void)sigtimedwait(&xfsz, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

ssize_t pgw__write_all(int fd, const struct iovec *v, int n, off_t off)
{
	int64_t total = 0, r;
	int rc;

	for (int i = 0; i < n; i++)
		total += (int64_t)v[i].iov_len;
	r = pgw__sys.pwritev(fd, v, n, (uint64_t)off);
	if (r < 0 || r == total)
		return r;
	rc = continue_quietly(fd, v, n, (size_t)r, off);
	return rc ? rc : total;
}

static bool is_dsync(struct pgw__env *e, int fd)
{
	int flags;

	if (fd == e->meta_fd)
		return true;
	flags = pgw__sys.fd_flags(fd);
	if (flags < 0 || !(flags & O_DSYNC))
		return false;
	e->meta_fd = fd; /* LMDB keeps it as long as the environment is open */
	return true;
}

ssize_t pgw__commit_meta_write(
    struct pgw__call *call, int fd, const void *buf, size_t len, off_t off)
{
	const struct iovec v = { .iov_base = (void *)buf, .iov_len = len };
	struct pgw__env *e = call->env;
	ssize_t r = pgw__env_check_fd(e, fd);

	if (r)
		return pgw__env_fail(e, (int)r);
	r = pgw__write_all(fd, &v, 1, off);
	if (!is_dsync(e, fd))
		return r;
	PGW__ENV_COUNT(e, osync_writes, 1);
	PGW__ENV_COUNT(e, osync_bytes, len);
	if (r < 0) {
		if (r != -EINTR)
			failed(e, (int)r);
		return r;
	}
	PGW__ENV_COUNT(e, barriers, 1);
	meta_durable(call);
	return r;
}

int pgw__sync_all(struct pgw__env *e)
{
	int rc = atomic_load(&e->failed);

	if (!rc)
		rc = touch_meta_pages(e);
	return rc ? rc : sync_whole(e, PGW_FULL_ASKED);
}

void pgw__commit_begin(struct pgw__env *e)
{
	if (e->dirty.ranges.n > 0 && !e->dirty_synced)
		e->strays = true;
	e->dirty_synced = false;
	pgw__dirty_clear(&e->dirty);
	e->spilled = false;
}

void pgw__commit_remapped(struct pgw__env *e)
{
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	uintptr_t end = atomic_load_explicit(&e->map_end, memory_order_relaxed);

	pthread_mutex_lock(&e->sync_lock); /* mdb_env_sync may be at work: it is no transaction */
	pgw_sync_remap(&e->file, (void *)start, end - start);
	pthread_mutex_unlock(&e->sync_lock);
	e->trusted = false;
	e->distrust = PGW_FULL_REMAPPED;
	pgw__space_reset(e);
}
