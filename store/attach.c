/* SPDX-License-Identifier: BSD-2-Clause
 *
 * attach.c - see attach.h. The invariants are those of recover.c.
 *
 * A file is plain (LMDB's) or fenced. Attaching makes it fenced:
 *
 *   owner lock -> LMDB's writer lock -> nobody but us has it open -> sync the whole file -> pin the
 *   newest snapshot d -> record of d, durable -> fence, durable -> give the locks back
 *
 * and detaching makes it plain:
 *
 *   checkpoint -> writer lock -> sync the whole file -> fence down, durable -> wipe the records
 *
 * If the process dies in between, the file is as it was (the record of a plain file means nothing),
 * or fenced with a durable record of a snapshot that nothing was committed after.
 *
 * That nobody else has the file open is shown by LMDB's own lock on byte 0 of its lock file: every
 * process that opens an environment keeps it shared. We have it shared too; while we make it
 * exclusive no process can get in, and the fence is up when it is shared again. A plain LMDB process
 * that was in already could go on writing behind the fence; so there must be none.
 *
 * The owner lock is an open file description lock on a byte of the data file, far behind any data. It
 * does not rely on the lock file, which people delete. It has a descriptor of its own, which a child
 * made by fork closes at once: the lock lives as long as anything refers to the description, and
 * LMDB's is referred to by a map, which the child keeps.
 */
#include "attach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commit.h"
#include "fence.h"
#include "gate.h"
#include "record.h"
#include "seam.h"
#include "stats.h"
#include "sys.h"

/* How long exit waits for a checkpoint of another thread, which can be the barrier of a slow disk. */
#define EXIT_WAIT_NS (UINT64_C(10) * 1000000000)

/* How long exit waits for the lock of the checkpointer, which others hold for microseconds; unless this
 * thread itself was interrupted with it. */
#define EXIT_LOCK_NS UINT64_C(500000000)

#define OWNER_BYTE INT64_C(0x7067770000000000)

static struct flock owner_flock(short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = OWNER_BYTE, .l_len = 1
	};
}

int pgw__reopen(int fd)
{
	/* The first one works also when the main thread has left by pthread_exit, and needs Linux 3.17. */
	static const char *const forms[] = { "/proc/thread-self/fd/%d", "/proc/self/fd/%d" };
	char path[40];
	int fresh = -1;

	for (int i = 0; i < 2 && fresh < 0; i++) {
		snprintf(path, sizeof(path), forms[i], fd);
		fresh = open(path, O_RDWR | O_CLOEXEC);
	}
	return fresh < 0 ? -errno : fresh;
}

int pgw__owner_lock(int fd, int *owner)
{
	struct flock l = owner_flock(F_WRLCK);
	int own = pgw__reopen(fd), rc = 0;

	if (own < 0)
		return -own;
	if (fcntl(own, F_OFD_SETLK, &l))
		rc = errno == EAGAIN || errno == EACCES ? PGW_BUSY : errno;
	if (rc)
		pgw__sys.close(own);
	else
		*owner = own;
	return rc;
}

bool pgw__owner_exists(int fd)
{
	struct flock l = owner_flock(F_WRLCK);

	return fcntl(fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

/* LMDB's lock on the first byte of its lock file. */
static int lock_file_lock(int fd, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	while (fcntl(fd, F_SETLK, &l))
		if (errno != EINTR)
			return errno == EAGAIN || errno == EACCES ? PGW_BUSY : errno;
	return 0;
}

bool pgw__attached_here(const char *path, unsigned flags)
{
	struct pgw__checkpointer *c;
	struct pgw__env *e;
	struct stat st;

	if (!pgw__env_any() || pgw__env_stat(path, flags, &st))
		return false;
	e = pgw__env_by_file(NULL, st.st_dev, st.st_ino);
	c = e ? atomic_load(&e->checkpointer) : NULL;
	return c && c->pid == getpid();
}

static int data_fd(const struct pgw__env *e)
{
	return atomic_load_explicit(&e->fd, memory_order_relaxed);
}

static const void *map_start(const struct pgw__env *e)
{
	return (const void *)atomic_load_explicit(&e->map_start, memory_order_relaxed);
}

/* Go on without being attached, for good. */
static void give_up(struct pgw__env *e)
{
	struct pgw__checkpointer *c = atomic_load(&e->checkpointer);

	if (c)
		e->given_up = c;
	e->attach_failed = true;
	e->trusted = false;
	e->distrust = PGW_FULL_OTHER_WRITER;
	atomic_store(&e->checkpointer, NULL);
}

/* What LMDB's documentation forbids programs do: they open, and then become a daemon. The fence, the owner lock
 * and the pins, whose slots are in the parent's name, are the parent's as long as it lives, and its pins
 * in shared memory must not be moved. So the child is not attached. It may write, as durable as LMDB makes it,
 * when the parent has closed the environment or ended (pgw__attach_check_plain). A transaction that was
 * running is the parent's; what other threads were in the middle of is made anew, as nobody will end it. */
static void leave_to_parent(struct pgw__env *e)
{
	struct pgw__checkpointer *c = atomic_load(&e->checkpointer);

	if (c && c->owner_fd >= 0)
		pgw__sys.close(c->owner_fd);
	if (c)
		c->owner_fd = -1;
	e->inherited = true;
	give_up(e);
	if (atomic_load_explicit(&e->writing, memory_order_relaxed)) {
		atomic_store(&e->parents_txn, atomic_load(&e->writer));
		pgw__space_end(e);
	}
	atomic_store(&e->writer, NULL);
	atomic_store_explicit(&e->writing, false, memory_order_relaxed);
	atomic_store(&e->updates, NULL);
	e->gated = false;
	(void)pgw__gate_init(e);
	(void)pthread_mutex_init(&e->sync_lock, NULL);
	pgw__dirty_init(&e->dirty);
	pgw_ranges_init(&e->scratch);
}

static void in_child(void)
{
	pgw__env_each(leave_to_parent);
}

static void register_handler(void)
{
	(void)pthread_atfork(NULL, NULL, in_child); /* out of memory: gate.c notices the child */
}

void pgw__attach_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_handler);
}

static int because(const char **why, const char *text, int rc)
{
	*why = text;
	return rc;
}

static int possible(struct pgw__env *e, MDB_env *lmdb, const char **why)
{
	unsigned flags = 0;
	struct stat st;

	(void)mdb_env_get_flags(lmdb, &flags);
	if (flags & MDB_RDONLY)
		return because(why, "it is opened read-only", PGW_NOT_POSSIBLE);
	if (e->inherited)
		return because(why, "it was opened before a fork, by the parent", PGW_NOT_POSSIBLE);
	if (e->open_flags & MDB_NOLOCK)
		return because(why, "it is opened with MDB_NOLOCK", PGW_NOT_POSSIBLE);
	if (e->lock_fd < 0)
		return because(why, "its lock file is not locked by LMDB", PGW_NOT_POSSIBLE);
	if (e->psize < PGW__PSIZE_MIN || e->psize > PGW__PSIZE_MAX)
		return because(why, "its pages are not of 4 to 64 KiB", PGW_NOT_POSSIBLE);
	if (pgw__env_check_file(e) || fstat(data_fd(e), &st))
		return because(why, "its data file cannot be examined", EBADF);
	if (pgw__env_by_file(e, st.st_dev, st.st_ino))
		return because(why, "this process has it open twice", PGW_BUSY);
	return 0;
}

/* Sync the two meta pages. */
static int sync_heads(struct pgw__env *e)
{
	struct pgw_range storage[2];
	struct pgw_ranges set;
	int rc;

	pgw_ranges_init_fixed(&set, storage, 2);
	rc = pgw_ranges_add(&set, 0, 2 * (uint64_t)e->psize);
	return rc ? rc : pgw__sync_ranges(e, &set, false);
}

static int write_records(struct pgw__env *e, const struct pgw__record *r, bool wipe_other)
{
	unsigned char slot[PGW__RECORD_SIZE];
	const struct iovec v = { .iov_base = slot, .iov_len = sizeof(slot) };
	struct pgw_ranges none;
	ssize_t n;

	pgw_ranges_init(&none);
	(void)pgw__record_encode(r, &none, e->psize, slot); /* without ranges it fits */
	n = pgw__write_all(data_fd(e), &v, 1, (off_t)(r->seq & 1) * e->psize + PGW__RECORD_OFFSET);
	if (n < 0)
		return (int)n;
	memset(slot, 0, sizeof(slot));
	if (wipe_other)
		n = pgw__write_all(
		    data_fd(e), &v, 1, (off_t)(~r->seq & 1) * e->psize + PGW__RECORD_OFFSET);
	return n < 0 ? (int)n : 0;
}

/* The sequence number of the newest record in the file, whatever its worth. */
static uint64_t last_sequence(const struct pgw__heads *h)
{
	struct pgw_ranges ranges;
	struct pgw__record r;
	uint64_t seq = 0;

	pgw_ranges_init(&ranges);
	for (int i = 0; i < 2; i++)
		if (!pgw__record_decode(h->page[i].record, h->psize, &r, &ranges) && r.seq > seq)
			seq = r.seq;
	pgw_ranges_finish(&ranges);
	return seq;
}

static int raise_fence(struct pgw__env *e)
{
	int rc = pgw__fence_set(data_fd(e), e->psize, PGW__FENCE_UP);

	if (!rc)
		rc = sync_heads(e);
	if (rc) /* everything is durable, so the file may well be plain */
		(void)pgw__fence_set(data_fd(e), e->psize, PGW__FENCE_DOWN);
	return rc;
}

/* Writers are kept out. If the file is plain, everybody else is. */
static int take_over(struct pgw__env *e, struct pgw__checkpointer *c, const struct pgw__heads *h)
{
	bool plain = h->fence == PGW__FENCE_DOWN;
	struct pgw__record r = { 0 };
	int rc = pgw__sync_all(e);

	if (rc)
		return -rc;
	c->seq = last_sequence(h);
	rc = pgw__checkpoint_start(c, &r);
	if (rc)
		return rc;
	rc = write_records(e, &r, plain);
	if (!rc)
		rc = sync_heads(e);
	if (!rc && plain)
		rc = raise_fence(e);
	if (rc)
		pgw__checkpoint_finish(c);
	return -rc;
}

static int take_over_alone(
    struct pgw__env *e, struct pgw__checkpointer *c, const struct pgw__heads *h)
{
	int rc;

	if (h->fence == PGW__FENCE_FAILED)
		return EIO;
	if (h->fence == PGW__FENCE_UP)
		return take_over(e, c, h);
	rc = lock_file_lock(e->lock_fd, F_WRLCK);
	if (rc)
		return rc;
	rc = take_over(e, c, h);
	(void)lock_file_lock(e->lock_fd, F_RDLCK);
	return rc;
}

static int attach_as_owner(struct pgw__env *e, struct pgw__checkpointer *c)
{
	struct pgw__heads *h = malloc(sizeof(*h));
	MDB_txn *txn;
	int rc;

	if (!h)
		return ENOMEM;
	rc = pgw__lmdb_txn_begin(c->lmdb, NULL, 0, &txn);
	if (rc) {
		free(h);
		return rc;
	}
	rc = -pgw__heads_read(data_fd(e), h);
	if (!rc)
		rc = take_over_alone(e, c, h);
	pgw__lmdb_txn_abort(txn);
	free(h);
	return rc;
}

/* What an error of attaching means for who has not called anything. */
static const char *explain(int rc)
{
	switch (rc) {
	case PGW_BUSY:
		return "another process has it open";
	case MDB_READERS_FULL:
		return "its table of readers has no three slots left";
	case ENOSPC:
	case EDQUOT:
		return "the disk is full";
	case ENOMEM:
		return "there is no memory";
	case EIO:
		return "the disk fails, or has failed before";
	default:
		return "its file cannot be locked or written as that needs";
	}
}

static int lock_and_attach(struct pgw__env *e, struct pgw__checkpointer *c)
{
	int rc = -pgw__identity_of(data_fd(e), &c->id);

	if (!rc)
		rc = pgw__owner_lock(data_fd(e), &c->owner_fd);
	return rc ? rc : attach_as_owner(e, c);
}

int pgw__attach(
    struct pgw__env *e, MDB_env *lmdb, const struct pgw_env_options *options, const char **why)
{
	struct pgw__checkpointer *c;
	int rc = possible(e, lmdb, why);

	if (rc)
		return rc;
	c = pgw__checkpoint_create(e, lmdb, options);
	if (!c)
		return because(why, explain(ENOMEM), ENOMEM);
	rc = lock_and_attach(e, c);
	if (rc) {
		pgw__checkpoint_destroy(c);
		return because(why, explain(rc), rc);
	}
	/* The pages that need not be written for a checkpoint are most of what is dirty. */
	e->file.ranges_only = true;
	atomic_store_explicit(&e->durable_txnid, atomic_load(&c->durable), memory_order_relaxed);
	atomic_store_explicit(&e->checkpointer, c, memory_order_release);
	return 0;
}

/* Everything is durable and writers are kept out: make the file plain. */
static int lower_fence(struct pgw__env *e)
{
	static const unsigned char nothing[PGW__RECORD_SIZE];
	const struct iovec v = { .iov_base = (void *)nothing, .iov_len = sizeof(nothing) };
	int rc = pgw__fence_set(data_fd(e), e->psize, PGW__FENCE_DOWN);

	if (!rc)
		rc = sync_heads(e);
	if (rc) { /* on the disk it may be up still, and plain LMDB must not begin behind it */
		(void)pgw__fence_set(data_fd(e), e->psize, PGW__FENCE_UP);
		return rc;
	}
	/* Not before: a fenced file without records could not be opened any more. */
	for (int i = 0; i < 2; i++)
		(void)pgw__write_all(data_fd(e), &v, 1, (off_t)i * e->psize + PGW__RECORD_OFFSET);
	return 0;
}

/* I5. The pins are kept until the fence is down for good. deadline: of pgw__group_wait. True: it is plain. */
static bool make_plain(struct pgw__env *e, struct pgw__checkpointer *c, uint64_t deadline)
{
	struct pgw__call call = { .op = PGW__OP_CLOSE, .env = e, .lmdb = c->lmdb };
	struct pgw__call *outer = pgw__call;
	MDB_txn *txn;
	int rc;

	if (pgw__env_check_file(e) || pgw__group_wait(c, pgw__gate_newest(c), deadline))
		return false;
	pgw__call = &call;
	rc = pgw__lmdb_txn_begin(c->lmdb, NULL, 0, &txn);
	pgw__call = outer;
	if (rc == ETIMEDOUT)
		pgw__note_fallback("closing",
		    "a write transaction had not ended: the file stays fenced, all that was "
		    "committed is in it, and the next open makes it plain");
	if (rc)
		return false;
	rc = pgw__sync_all(e);
	if (!rc)
		rc = lower_fence(e);
	pgw__lmdb_txn_abort(txn);
	return !rc;
}

/* A program may close in a transaction; LMDB lets it. One of this thread is aborted. False: it is another
 * thread's, and the gate with it. True: this one has the gate. */
static bool end_transaction(struct pgw__env *e)
{
	int rc = pgw__gate_trylock(e);

	if (rc == EDEADLK && !atomic_load_explicit(&e->writing, memory_order_relaxed))
		return true; /* close_at_exit has it */
	if (rc == EDEADLK) {
		mdb_txn_abort(atomic_load(&e->writer));
		rc = pgw__gate_trylock(e);
	}
	return !rc;
}

void pgw__detach(struct pgw__env *e)
{
	struct pgw__checkpointer *c = atomic_load(&e->checkpointer);

	e->gate_lost = !end_transaction(e);
	if (!e->gate_lost)
		pgw__gate_leave(e);
	if (!c)
		return;
	atomic_store(&e->checkpointer, NULL);
	if (c->pid != getpid())
		return; /* pins and fence are the parent's; what is left here is memory */
	pgw__relaxed_stop(c);
	if (!e->gate_lost) /* else leave the file as a kill does */
		(void)make_plain(e, c, 0);
	pgw__checkpoint_finish(c);
	pgw__checkpoint_destroy(c);
}

static int lock_for_exit(struct pgw__checkpointer *c)
{
	struct timespec t;
	uint64_t at = pgw__clock_ns(CLOCK_REALTIME) + EXIT_LOCK_NS;

	t.tv_sec = (time_t)(at / 1000000000u);
	t.tv_nsec = (long)(at % 1000000000u);
	return pthread_mutex_timedlock(&c->lock, &t);
}

/* A process that ends without mdb_env_close, as many do: make its files plain if nobody is at work on
 * them. Nothing is freed, other threads may still be running. They, and destructors that come after this one,
 * can go on to write, as durable as LMDB makes it. What is not possible now is done by the next process that
 * opens the file; then the gate stays shut.
 *
 * exit may have been called by a signal handler, in the middle of anything. What this thread holds or runs
 * itself is never waited for; and what another one does only for a while: it may need something that this
 * one holds, like malloc's locks. */
static void close_at_exit(struct pgw__env *e)
{
	struct pgw__checkpointer *c = atomic_load(&e->checkpointer);

	if (!c || c->pid != getpid() || pgw__call || lock_for_exit(c))
		return;
	pgw__relaxed_abandon(c);
	pthread_mutex_unlock(&c->lock);
	if (pgw__gate_trylock(e))
		return;
	if (!make_plain(e, c, pgw__clock_ns(CLOCK_MONOTONIC) + EXIT_WAIT_NS))
		return;
	give_up(e);
	pgw__gate_leave(e);
}

__attribute__((destructor)) static void at_exit(void)
{
	pgw__env_each(close_at_exit);
}

bool pgw__attach_fenced(const struct pgw__env *e)
{
	return e->psize >= PGW__PSIZE_MIN &&
	       pgw__fence_of_map(map_start(e), e->psize) != PGW__FENCE_DOWN;
}

int pgw__attach_check_plain(struct pgw__env *e)
{
	int rc, owner = -1;

	if (!pgw__attach_fenced(e))
		return 0;
	rc = pgw__owner_lock(data_fd(e), &owner);
	if (rc)
		return rc;
	/* Its owner died, and the page cache has lived on with us. */
	rc = pgw__fence_of_map(map_start(e), e->psize) == PGW__FENCE_FAILED ? -EIO : 0;
	if (!rc)
		rc = pgw__sync_all(e);
	if (!rc)
		rc = lower_fence(e);
	pgw__sys.close(owner);
	return -rc;
}

int pgw__attach_check_sync(struct pgw__env *e, MDB_env *lmdb)
{
	MDB_txn *txn;
	int rc;

	if ((e->open_flags & MDB_RDONLY) || !pgw__attach_fenced(e))
		return 0;
	if (pgw__owner_exists(data_fd(e)))
		return PGW_BUSY;
	rc = mdb_txn_begin(lmdb, NULL, 0, &txn);
	if (!rc)
		mdb_txn_abort(txn);
	return rc;
}
