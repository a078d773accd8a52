/* SPDX-License-Identifier: BSD-2-Clause
 *
 * env.c - see env.h.
 *
 * An entry: free -> claimed (handle set) -> open (descriptor, map, file) -> detached (no key) ->
 * free.
 */
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "gate.h"
#include "options.h"
#include "queue.h"
#include "stats.h"
#include "sys.h"

static _Atomic(struct pgw__env *) list;
static struct pgw__env_counters closed;

__thread struct pgw__call *pgw__call;

/* The entry that this thread used last; only a hint. */
static __thread struct pgw__env *last;

static struct pgw__env *take_free(void)
{
	struct pgw__env *e;

	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next) {
		bool used = false;

		if (atomic_compare_exchange_strong_explicit(
			&e->used, &used, true, memory_order_acquire, memory_order_relaxed))
			return e;
	}
	return NULL;
}

static struct pgw__env *make_entry(void)
{
	struct pgw__env *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (pthread_mutex_init(&e->sync_lock, NULL)) {
		free(e);
		return NULL;
	}
	if (pgw__gate_init(e)) {
		pthread_mutex_destroy(&e->sync_lock);
		free(e);
		return NULL;
	}
	atomic_init(&e->used, true);
	atomic_init(&e->fd, -1);
	e->next = atomic_load_explicit(&list, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(
	    &list, &e->next, e, memory_order_release, memory_order_relaxed))
		;
	return e;
}

struct pgw__env *pgw__env_claim(MDB_env *lmdb)
{
	struct pgw__env *e = take_free();

	if (!e)
		e = make_entry();
	if (!e)
		return NULL;
	pgw__dirty_init(&e->dirty);
	pgw_ranges_init(&e->scratch);
	e->pos = 0;
	e->trusted = false;
	e->distrust = PGW_FULL_FIRST;
	e->base = 0;
	e->meta_pending = false;
	e->nosync = 0;
	e->meta_fd = -1;
	e->dir_fd = -1;
	e->lock_fd = -1;
	e->pin_slots = 0;
	e->options = *pgw__options_default();
	if (e->gated) /* it was closed within a write transaction, and nobody will open the gate */
		pthread_mutex_init(&e->gate, NULL);
	e->gated = false;
	e->gate_lost = false;
	atomic_store_explicit(&e->writing, false, memory_order_relaxed);
	e->attach_failed = false;
	e->inherited = false;
	e->given_up = NULL;
	atomic_store_explicit(&e->parents_txn, NULL, memory_order_relaxed);
	e->spilled = false;
	e->dirty_synced = false; /* of none: dirty is empty */
	e->strays = false;
	atomic_store_explicit(&e->short_of_space, 0, memory_order_relaxed);
	atomic_store(&e->checkpointer, NULL);
	atomic_store(&e->writer, NULL);
	atomic_store(&e->failed, 0);
	atomic_store(&e->durable_txnid, 0);
	atomic_store_explicit(&e->lmdb, lmdb, memory_order_release);
	return e;
}

/* The directory of the data file, or -1 where it cannot be opened. */
static int open_directory(const char *path, unsigned flags)
{
	char *dir = strdup(path), *slash;
	int fd;

	if (!dir)
		return -1;
	if (flags & MDB_NOSUBDIR) {
		slash = strrchr(dir, '/');
		if (slash)
			slash[slash == dir] = '\0'; /* "/x" is in "/" */
		else
			strcpy(dir, *dir ? "." : "");
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	return fd;
}

/* The file's name may not be durable: LMDB never makes it so, and neither has whoever committed to it
 * under MDB_NOSYNC. Nothing in the file tells. The descriptor is kept, as the path may lead elsewhere by
 * the first durable commit. */
static void note_directory(struct pgw__env *e, MDB_env *lmdb, unsigned flags)
{
	const char *path;
	struct stat st;

	if (mdb_env_get_path(lmdb, &path))
		return;
	e->dir_fd = open_directory(path, flags);
	if (e->dir_fd >= 0 && !fstat(e->dir_fd, &st)) {
		e->dir_dev = st.st_dev;
		e->dir_ino = st.st_ino;
		return;
	}
	pgw__env_forget_directory(e);
	pgw__note_fallback("directory sync", "the directory cannot be opened for reading");
}

bool pgw__env_has_directory(const struct pgw__env *e)
{
	struct stat st;

	return e->dir_fd >= 0 && !pgw__env_examine(e->dir_fd, &st) && st.st_dev == e->dir_dev &&
	       st.st_ino == e->dir_ino;
}

void pgw__env_forget_directory(struct pgw__env *e)
{
	if (pgw__env_has_directory(e))
		pgw__sys.close(e->dir_fd);
	e->dir_fd = -1;
}

/* Kept, and not asked for again: another thread's descriptor may be closed at any moment. */
static void note_file(struct pgw__env *e, int fd)
{
	struct stat st = { 0 };

	(void)fstat(fd, &st);
	atomic_store_explicit(&e->dev, st.st_dev, memory_order_relaxed);
	atomic_store_explicit(&e->ino, st.st_ino, memory_order_relaxed);
}

int pgw__env_examine(int fd, struct stat *st)
{
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE, &x)) /* old, or filtered */
		return fstat(fd, st) ? -errno : 0;
	st->st_dev = makedev(x.stx_dev_major, x.stx_dev_minor);
	st->st_ino = x.stx_ino;
	st->st_size = (off_t)x.stx_size;
	return 0;
}

int pgw__env_check_fd(const struct pgw__env *e, int fd)
{
	struct stat st;
	int rc;

	if (!atomic_load_explicit(&e->ino, memory_order_relaxed))
		return 0; /* nothing is known of it */
	rc = pgw__env_examine(fd, &st);
	if (rc)
		return rc;
	return st.st_ino == atomic_load_explicit(&e->ino, memory_order_relaxed) &&
		       st.st_dev == atomic_load_explicit(&e->dev, memory_order_relaxed)
		   ? 0
		   : -EBADF;
}

int pgw__env_check_file(const struct pgw__env *e)
{
	return pgw__env_check_fd(e, atomic_load_explicit(&e->fd, memory_order_relaxed));
}

void pgw__env_opened(struct pgw__env *e, unsigned flags)
{
	MDB_env *lmdb = atomic_load_explicit(&e->lmdb, memory_order_relaxed);
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_relaxed);
	uintptr_t end = atomic_load_explicit(&e->map_end, memory_order_relaxed);
	MDB_stat st = { 0 };
	int fd = -1;

	(void)mdb_env_get_flags(lmdb, &flags);
	(void)mdb_env_get_fd(lmdb, &fd);
	(void)mdb_env_stat(lmdb, &st);
	e->psize = st.ms_psize;
	e->writemap = flags & MDB_WRITEMAP;
	e->open_flags = flags;
	pgw__space_reset(e);
	if (pgw_sync_init(&e->file, fd, (void *)start, end - start, PGW_SYNC_AUTO)) {
		e->file = (struct pgw_sync_file){ .fd = fd,
			.strategy = PGW_SYNC_FDATASYNC,
			.if_mapped = PGW_SYNC_FDATASYNC,
			.if_mapped_reason = "the file system cannot be determined",
			.reason = "the file system cannot be determined",
			.fs = "unknown" };
		pgw__note_fallback("sync", e->file.reason);
	}
	if (!(flags & MDB_RDONLY))
		note_directory(e, lmdb, flags);
	note_file(e, fd);
	atomic_store_explicit(&e->fd, fd, memory_order_release);
}

void pgw__env_detach(struct pgw__env *e)
{
	atomic_store_explicit(&e->lmdb, NULL, memory_order_release);
	atomic_store_explicit(&e->fd, -1, memory_order_release);
	pgw__env_set_map(e, NULL, 0);
}

/* Zero the counters, adding them to another set if there is one. */
static void move_counters(struct pgw__env_counters *from, struct pgw__env_counters *to)
{
	_Atomic uint64_t *src = (_Atomic uint64_t *)from, *dst = (_Atomic uint64_t *)to;

	for (size_t i = 0; i < sizeof(*from) / sizeof(*src); i++) {
		uint64_t n = atomic_exchange(&src[i], 0);

		if (dst)
			atomic_fetch_add(&dst[i], n);
	}
}

void pgw__env_release(struct pgw__env *e)
{
	pgw__dirty_finish(&e->dirty);
	pgw_ranges_finish(&e->scratch);
	pgw__queue_destroy(atomic_exchange(&e->updates, NULL));
	pgw__env_forget_directory(e);
	memset(&e->file, 0, sizeof(e->file));
	move_counters(&e->count, &closed);
	if (e->gate_lost) /* and the entry with it */
		return;
	atomic_store_explicit(&e->used, false, memory_order_release);
}

struct pgw__env *pgw__env_by_lmdb(const MDB_env *lmdb)
{
	struct pgw__env *e = last;

	if (!lmdb)
		return NULL; /* the key of an entry that is not in use */
	if (e && atomic_load_explicit(&e->lmdb, memory_order_acquire) == lmdb)
		return e;
	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		if (atomic_load_explicit(&e->lmdb, memory_order_acquire) == lmdb)
			return last = e;
	return NULL;
}

struct pgw__env *pgw__env_by_fd(int fd)
{
	struct pgw__env *e = last;

	if (fd < 0)
		return NULL;
	if (e && atomic_load_explicit(&e->fd, memory_order_acquire) == fd)
		return e;
	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		if (atomic_load_explicit(&e->fd, memory_order_acquire) == fd)
			return last = e;
	return NULL;
}

/* A map that is changing is not the caller's: nobody uses an environment while it is resized. */
static bool map_holds(struct pgw__env *e, uintptr_t p)
{
	unsigned seq = atomic_load_explicit(&e->map_seq, memory_order_acquire);
	uintptr_t start = atomic_load_explicit(&e->map_start, memory_order_acquire);
	uintptr_t end = atomic_load_explicit(&e->map_end, memory_order_acquire);

	if (p < start || p >= end || (seq & 1))
		return false;
	return atomic_load_explicit(&e->map_seq, memory_order_relaxed) == seq;
}

struct pgw__env *pgw__env_by_address(const void *p)
{
	struct pgw__env *e = last;

	if (e && map_holds(e, (uintptr_t)p))
		return e;
	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		if (map_holds(e, (uintptr_t)p))
			return last = e;
	return NULL;
}

struct pgw__env *pgw__env_by_file(const struct pgw__env *except, dev_t dev, ino_t ino)
{
	struct pgw__env *e;

	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		if (e != except && atomic_load_explicit(&e->fd, memory_order_acquire) >= 0 &&
		    atomic_load_explicit(&e->dev, memory_order_relaxed) == dev &&
		    atomic_load_explicit(&e->ino, memory_order_relaxed) == ino)
			return e;
	return NULL;
}

char *pgw__env_data_name(const char *path, unsigned flags)
{
	char *name = malloc(strlen(path) + sizeof("/data.mdb"));

	if (!name)
		return NULL;
	strcpy(name, path);
	if (!(flags & MDB_NOSUBDIR))
		strcat(name, "/data.mdb");
	return name;
}

int pgw__env_stat(const char *path, unsigned flags, struct stat *st)
{
	char *name = pgw__env_data_name(path, flags);
	int rc = 0;

	if (!name)
		return ENOMEM;
	if (stat(name, st))
		rc = errno;
	free(name);
	return rc;
}

void pgw__env_set_map(struct pgw__env *e, const void *start, size_t len)
{
	unsigned seq = atomic_load_explicit(&e->map_seq, memory_order_relaxed);

	atomic_store_explicit(&e->map_seq, seq + 1, memory_order_relaxed);
	atomic_store_explicit(&e->map_start, (uintptr_t)start, memory_order_release);
	atomic_store_explicit(&e->map_end, (uintptr_t)start + len, memory_order_release);
	atomic_store_explicit(&e->map_seq, seq + 2, memory_order_release);
}

void pgw__env_counters_read(const struct pgw__env_counters *c, struct pgw_env_stats *out)
{
#define ADD(field) out->field += atomic_load_explicit(&c->field, memory_order_relaxed)
	ADD(commits);
	ADD(dirty_ranges);
	ADD(dirty_bytes);
	ADD(synced_bytes);
	ADD(failed_syncs);
	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		ADD(full_syncs[i]);
	ADD(sync_file_range_calls);
	ADD(sync_file_range_bytes);
	ADD(msync_calls);
	ADD(msync_bytes);
	ADD(fdatasync_calls);
	ADD(directory_syncs);
	ADD(osync_writes);
	ADD(osync_bytes);
	ADD(barriers);
	ADD(checkpoints);
	ADD(checkpoint_commits);
	ADD(live_ranges);
	ADD(live_bytes);
	ADD(two_barrier_checkpoints);
	ADD(allocate_calls);
	ADD(allocated_bytes);
	ADD(updates);
	ADD(update_batches);
	ADD(dead_readers);
	ADD(warmed_bytes);
	ADD(retired_bytes);
#undef ADD
}

bool pgw__env_any(void)
{
	return atomic_load_explicit(&list, memory_order_acquire) != NULL;
}

void pgw__env_each(void (*fn)(struct pgw__env *e))
{
	struct pgw__env *e;

	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		if (atomic_load_explicit(&e->fd, memory_order_acquire) >= 0)
			fn(e);
}

void pgw__env_reset_counters(void)
{
	struct pgw__env *e;

	move_counters(&closed, NULL);
	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		move_counters(&e->count, NULL);
}

void pgw__env_total(struct pgw_env_stats *out)
{
	const struct pgw__env *e;

	pgw__env_counters_read(&closed, out);
	for (e = atomic_load_explicit(&list, memory_order_acquire); e; e = e->next)
		pgw__env_counters_read(&e->count, out);
}
