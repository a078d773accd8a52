/* SPDX-License-Identifier: BSD-2-Clause
 *
 * seam.c - LMDB's view of the operating system.
 *
 * Here the writes of a transaction are noted, and LMDB's syncs become those of commit.c. Which of
 * LMDB's functions is at work is in pgw__call; calls on anything but an environment's data file
 * (the lock file, a copy that is being written) pass through.
 */
#include "seam.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "commit.h"
#include "fence.h"
#include "lockfile.h"
#include "map.h"
#include "pin.h"
#include "recover.h"
#include "sys.h"

/* LMDB refers to stderr as data, which code that is not position-independent enough cannot do
 * across libraries. It is used when an assertion fails. */
FILE *pgw__seam_stderr;

__attribute__((constructor)) static void set_stderr(void)
{
	pgw__seam_stderr = stderr;
}

/* -errno to libc's convention. */
static ssize_t answer(ssize_t r)
{
	if (r >= 0)
		return r;
	errno = (int)-r;
	return -1;
}

/* The thread's call, if it is op. */
static struct pgw__call *within(enum pgw__op op)
{
	return pgw__call && pgw__call->op == op ? pgw__call : NULL;
}

/* The environment whose data file fd is. */
static struct pgw__env *data_file(int fd)
{
	if (pgw__call && atomic_load_explicit(&pgw__call->env->fd, memory_order_relaxed) == fd)
		return pgw__call->env;
	return pgw__env_by_fd(fd);
}

/* Attached: a commit makes no barrier of its own (checkpoint.c). */
static bool attached(const struct pgw__env *e)
{
	return atomic_load_explicit(&e->checkpointer, memory_order_relaxed) != NULL;
}

/* A page, or a run of overflow pages, by a call of its own. A file system may keep what one call wrote
 * in one folio, and writes a folio's dirty blocks together: pages of other transactions, or freed ones,
 * would go to the disk whenever one beside them must. */
static ssize_t write_apart(int fd, const struct iovec *v, int n, off_t off)
{
	ssize_t total = 0, r;

	for (int i = 0; i < n; i++) {
		r = pgw__write_all(fd, &v[i], 1, off + total);
		if (r < 0)
			return r;
		total += r;
	}
	return total;
}

static ssize_t write_data(struct pgw__env *e, int fd, const struct iovec *v, int n, off_t off)
{
	struct pgw__call *commit = within(PGW__OP_COMMIT);
	uint64_t len = 0;
	ssize_t r;

	for (int i = 0; i < n; i++)
		len += v[i].iov_len;
	pgw__dirty_add(
	    &e->dirty, (uint64_t)off, len); /* before: a failed write may have changed it */
	if (commit)
		commit->wrote = true;
	else
		e->spilled = true;
	r = attached(e) ? write_apart(fd, v, n, off) : pgw__write_all(fd, v, n, off);
	if (commit)
		commit->disk_full = r == -ENOSPC || r == -EDQUOT;
	return answer(r);
}

/* The meta page, through LMDB's descriptor for it: that one syncs each write, so the data file's is
 * taken where a barrier is not wanted. */
static ssize_t write_meta(struct pgw__call *commit, int fd, const void *buf, size_t len, off_t off)
{
	const struct iovec v = { .iov_base = (void *)buf, .iov_len = len };
	int data_fd = atomic_load_explicit(&commit->env->fd, memory_order_relaxed);

	if (attached(commit->env))
		return pgw__write_all(data_fd, &v, 1, off);
	return pgw__commit_meta_write(commit, fd, buf, len, off);
}

ssize_t pgw__seam_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	const struct iovec v = { .iov_base = (void *)buf, .iov_len = len };
	struct pgw__call *commit = within(PGW__OP_COMMIT);
	struct pgw__env *e = data_file(fd);

	if (e)
		return write_data(e, fd, &v, 1, off);
	if (commit)
		return answer(write_meta(commit, fd, buf, len, off));
	return pwrite(fd, buf, len, off);
}

ssize_t pgw__seam_pwritev(int fd, const struct iovec *v, int n, off_t off)
{
	struct pgw__env *e = data_file(fd);

	return e ? write_data(e, fd, v, n, off) : pwritev(fd, v, n, off);
}

/* LMDB seeks before it writes a run of pages. The position is kept here and the run written with
 * pwritev: one call instead of two. */
off_t pgw__seam_lseek(int fd, off_t off, int whence)
{
	struct pgw__env *e = whence == SEEK_SET ? data_file(fd) : NULL;

	if (!e)
		return lseek(fd, off, whence);
	e->pos = off;
	return off;
}

ssize_t pgw__seam_writev(int fd, const struct iovec *v, int n)
{
	struct pgw__env *e = data_file(fd);

	return e ? write_data(e, fd, v, n, e->pos) : writev(fd, v, n);
}

/* A sync of the data file, by whatever call; meta: of this range only. */
static int sync_data_file(struct pgw__call *call, uint64_t off, uint64_t len)
{
	if (call->op == PGW__OP_SYNC) {
		int rc = pgw__sync_all(call->env);

		call->synced = !rc;
		return rc;
	}
	/* The pages are written, the meta page is not. */
	if (attached(call->env)) {
		int rc = pgw__space_for_meta(call->env, 3);

		call->disk_full = rc;
		return rc;
	}
	if (!call->data_synced)
		return pgw__commit_data(call);
	return pgw__commit_meta(call, off, len);
}

static struct pgw__call *syncing(void)
{
	struct pgw__call *call = within(PGW__OP_COMMIT);

	return call ? call : within(PGW__OP_SYNC);
}

int pgw__seam_fdatasync(int fd)
{
	struct pgw__call *call = syncing();

	if (!call || atomic_load_explicit(&call->env->fd, memory_order_relaxed) != fd)
		return (int)answer(pgw__sys.fdatasync(fd));
	return (int)answer(sync_data_file(call, 0, 0));
}

int pgw__seam_fsync(int fd)
{
	struct pgw__call *call = syncing();

	if (!call || atomic_load_explicit(&call->env->fd, memory_order_relaxed) != fd)
		return (int)answer(pgw__sys.fsync(fd));
	return (int)answer(sync_data_file(call, 0, 0));
}

int pgw__seam_msync(void *addr, size_t len, int flags)
{
	struct pgw__call *call = flags & MS_SYNC ? syncing() : NULL;
	uintptr_t start;

	if (!call)
		return (int)answer(pgw__sys.msync(addr, len, flags));
	start = atomic_load_explicit(&call->env->map_start, memory_order_relaxed);
	return (int)answer(sync_data_file(call, (uintptr_t)addr - start, len));
}

/* Is this the data file's map that is being made or given up? */
static bool is_data_map(const struct pgw__call *call, int fd)
{
	int data_fd;

	return call && !mdb_env_get_fd(call->lmdb, &data_fd) && data_fd == fd;
}

static struct pgw__call *mapping(void)
{
	struct pgw__call *call = within(PGW__OP_OPEN);

	return call ? call : within(PGW__OP_RESIZE);
}

/* LMDB gives the file of a writable map the map's length. Where it is shorter than that of others it would cut off what
 * they have stored behind the last page that is in use, in a transaction that is running. Only who opens the file
 * alone can know that there are none. */
int pgw__seam_ftruncate(int fd, off_t len)
{
	struct pgw__call *call = mapping();
	struct stat st;

	if (is_data_map(call, fd) && !call->exclusive && !fstat(fd, &st) && st.st_size > len)
		return 0;
	return ftruncate(fd, len);
}

/* LMDB stores into its lock file through a map, and makes it by ftruncate: on a full disk that would
 * be SIGBUS. Where space cannot be asked for, it is as LMDB has it. */
static int make_room(const struct pgw__call *call, int fd, size_t len, int prot)
{
	int rc;

	if (!call || fd != call->lock_fd || call->op != PGW__OP_OPEN || !(prot & PROT_WRITE))
		return 0;
	rc = pgw__sys.allocate(fd, 0, len);
	return rc == -ENOSPC || rc == -EDQUOT ? rc : 0;
}

void *pgw__seam_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	struct pgw__call *call = mapping();
	int rc = make_room(call, fd, len, prot);
	void *p;

	if (rc) {
		errno = -rc;
		return MAP_FAILED;
	}
	p = is_data_map(call, fd) ? pgw__map_extend(call, len) : MAP_FAILED;
	if (p == MAP_FAILED)
		p = mmap(addr, len, prot, flags, fd, off);
	if (p == MAP_FAILED && is_data_map(call, fd) && pgw__map_make_way(call))
		p = mmap(addr, len, prot, flags, fd, off);
	if (p != MAP_FAILED && is_data_map(call, fd)) {
		/* Who sets coredump_filter to dump shared files does not mean a terabyte of map. */
		(void)pgw__sys.madvise(p, len, MADV_DONTDUMP);
		pgw__env_set_map(call->env, p, len);
	}
	return p;
}

int pgw__seam_munmap(void *addr, size_t len)
{
	struct pgw__call *call = mapping();

	if (!call || atomic_load(&call->env->map_start) != (uintptr_t)addr)
		return munmap(addr, len);
	pgw__env_set_map(call->env, NULL, 0);
	if (call->op != PGW__OP_RESIZE)
		return munmap(addr, len);
	call->old_map = addr; /* readers may be in it (map.c) */
	call->old_len = len;
	return 0;
}

int pgw__seam_mid2l_append(void *list, struct pgw__lmdb_dirty_page *entry)
{
	struct pgw__env *e = pgw__env_by_address(entry->page);

	if (e) {
		uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);

		pgw__dirty_add(&e->dirty, (uintptr_t)entry->page - start, e->psize);
		pgw__space_note(&e->space, entry->pgno);
	}
	return mdb_mid2l_append(list, entry);
}

/* The most entries that LMDB's lists have. */
#define DIRTY_MAX ((1u << 17) - 1)

/* LMDB makes room for a page in its list by moving the entries behind it, one after the other, which is an
 * eighth of a large batch's time: each page that is used again goes before all that come from the
 * end of the file. */
int pgw__seam_mid2l_insert(void *list, struct pgw__lmdb_dirty_page *entry)
{
	struct pgw__lmdb_dirty_page *v = list;
	size_t n = v->pgno, at;

	if (!n || entry->pgno > v[n].pgno)
		at = n + 1;
	else
		at = mdb_mid2l_search(list, entry->pgno);
	/* What LMDB refuses it refuses itself. */
	if (n >= DIRTY_MAX || at < 1 || (at <= n && v[at].pgno == entry->pgno))
		return mdb_mid2l_insert(list, entry);
	memmove(&v[at + 1], &v[at], (n + 1 - at) * sizeof(*v));
	v[at] = *entry;
	v->pgno = n + 1;
	return 0;
}

/* Seconds that mdb_env_close waits for a write transaction that should have ended before. */
#define CLOSE_PATIENCE 2

/* A program that closes an environment within a write transaction, or has ended one in another thread than
 * it was begun in, has left LMDB's lock locked. LMDB's own mdb_env_close does not take it. */
int pgw__seam_mutex_lock(pthread_mutex_t *mutex)
{
	struct timespec t;

	if (!within(PGW__OP_CLOSE))
		return pthread_mutex_lock(mutex);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += CLOSE_PATIENCE;
	return pthread_mutex_timedlock(mutex, &t);
}

/* LMDB lets go of its writer lock, and of no other during a commit. */
int pgw__seam_mutex_unlock(pthread_mutex_t *mutex)
{
	struct pgw__call *commit = within(PGW__OP_COMMIT);

	if (commit) {
		pgw__space_end(commit->env);
		if (commit->disk_full)
			pgw__space_give_back(commit->env, commit->lmdb);
	}
	return pthread_mutex_unlock(mutex);
}

/* --- opening: which lock LMDB got, and what it sees of a fenced file --- */

/* LMDB tells a lock file that it has for itself by an exclusive lock of the first byte. It makes it
 * shared when the environment is open. */
static bool is_exclusive(int cmd, const struct flock *l)
{
	return cmd == F_SETLK && l->l_start == 0 && l->l_type == F_WRLCK;
}

int pgw__seam_fcntl(int fd, int cmd, ...)
{
	struct pgw__call *call = within(PGW__OP_OPEN);
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (call && is_exclusive(cmd, arg))
		rc = (int)answer(-pgw__lock_file_exclusive(fd, call->path, call->open_flags));
	else
		rc = fcntl(fd, cmd, arg);
	if (call && (cmd == F_SETLK || cmd == F_SETLKW)) {
		const struct flock *l = arg;

		if (l->l_start == 0 && !rc) {
			call->lock_fd = fd;
			call->exclusive = l->l_type == F_WRLCK;
			if (call->exclusive)
				pgw__space_lock_file(fd);
		}
	}
	return rc;
}

static int recover(struct pgw__call *call, int fd)
{
	struct pgw__recovery rv = { .fd = fd,
		.lock_fd = call->lock_fd,
		.no_locks = call->open_flags & MDB_NOLOCK,
		.exclusive = call->exclusive,
		.flags = call->recover_flags,
		.report = call->recover_report };
	int rc = pgw__recover(&rv);

	return rc ? rc : call->recover_flags & PGW_RECOVER_CHECK ? ECANCELED : 0;
}

/* LMDB reads the header before it maps the file. Both pages are looked at before it sees the first.
 * An error is LMDB's result, whatever number it is. */
ssize_t pgw__seam_pread(int fd, void *buf, size_t len, off_t off)
{
	struct pgw__call *call = within(PGW__OP_OPEN);
	ssize_t n;

	if (call && off == 0) {
		int rc = recover(call, fd);

		if (rc) {
			errno = rc;
			return -1;
		}
	}
	n = pread(fd, buf, len, off);
	if (call && n > 0)
		pgw__fence_hide(buf, (uint64_t)n);
	return n;
}

/* mdb_env_copy writes the meta pages as they are in the map: the copy gets neither fence nor records.
 * (A compacting copy makes meta pages of its own, in another thread.) */
ssize_t pgw__seam_write(int fd, const void *buf, size_t len)
{
	struct pgw__call *call = within(PGW__OP_COPY);
	uintptr_t start = call ? atomic_load(&call->env->map_start) : 0;
	uint64_t off = (uintptr_t)buf - start, end;
	unsigned char *pages;
	ssize_t n;
	int saved;

	if (!call || (uintptr_t)buf < start || off >= 2 * (uint64_t)call->env->psize)
		return write(fd, buf, len);
	end = 2 * (uint64_t)call->env->psize;
	/* LMDB opens the copy with O_DIRECT. */
	pages = aligned_alloc(call->env->psize, end);
	if (!pages) {
		errno = ENOMEM;
		return -1;
	}
	memcpy(pages, (const void *)start, end);
	for (int i = 0; i < 2; i++)
		pgw__fence_clean_page(pages + i * call->env->psize, call->env->psize);
	n = write(fd, pages + off, len < end - off ? len : end - off);
	saved = errno;
	free(pages);
	errno = saved;
	return n;
}

/* --- the reader slot of a thread, or of a pin (pin.h) --- */

/* LMDB's destructor gives a slot back; it is the same one for all environments. */
int pgw__seam_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	atomic_store_explicit(&pgw__pin_give_back, destructor, memory_order_relaxed);
	return pthread_key_create(key, destructor);
}

void *pgw__seam_getspecific(pthread_key_t key)
{
	return pgw__pin_at_work ? pgw__pin_at_work->slot : pthread_getspecific(key);
}

int pgw__seam_setspecific(pthread_key_t key, const void *value)
{
	if (!pgw__pin_at_work)
		return pthread_setspecific(key, value);
	pgw__pin_at_work->slot = (void *)value;
	return 0;
}
