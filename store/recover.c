/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recover.c - from a fenced file to a plain one, after an unclean end.
 *
 * In group and relaxed durability LMDB commits without a barrier, and the kernel may bring any part
 * of what was written to the disk, in any order. What is on the disk after a power cut is: snapshot
 * d whole (its pages were not recycled), a record of it, and of everything newer anything. Putting
 * the meta image of d into both meta pages gives the database as it was at d. That is sound only
 * with these invariants, which are kept by several files together:
 *
 * I1  Who attaches takes LMDB's writer lock, syncs the whole file, records the newest snapshot as d
 *     and pins it. Nothing is written before, not even in the same boot (attach.c).
 * I2  The process that writes holds a pin of d or older. It pins the new x, syncs, makes the record
 *     of x durable, and only then lets go of d (checkpoint.c).
 * I3  Restoring needs exclusive access and evidence of an unclean end: the fence. Both meta pages
 *     are written and synced while fence and records stay. So each step can be repeated, after a
 *     crash in the middle of any (this file).
 * I4  A failed sync is fatal to the environment: after EIO a retry can succeed with the data gone.
 *     d does not move any more, and the file is marked (checkpoint.c).
 * I5  Only the writing process, when it closes, after a sync of everything, makes the file plain
 *     (attach.c).
 *
 * What breaks weaker designs, and what keeps it from happening here:
 *
 * 1. A plain LMDB writer after our process died: three commits, and d's pages are recycled; then the
 *    power fails, and restoring d gives garbage. The fence keeps plain LMDB out (fence.h).
 * 2. The pin is lost: the process that pins is killed, and mdb_reader_check frees its slot. Nobody
 *    writes behind the fence before I1 has been done again.
 * 3. open and close of the lock file in a process drops all its POSIX locks on it. It is never
 *    opened here: recovery happens inside of mdb_env_open, under the lock that LMDB itself took, and
 *    that it keeps until the environment is closed.
 * 4. MDB_NOLOCK makes pins void: attaching is refused, and so is opening a fenced file.
 * 5. Copying meta page d without keeping writers out: slot d & 1 may hold d + 2 already, or be torn.
 *    The image is taken between a commit and the next writer (gate.c).
 * 6. A narrow sync proves nothing if something older is not durable. Every cut begins at a snapshot
 *    that is durable whole, and the first one at I1.
 * 7. The boot id does not prove that the page cache lived on: a volume can lose its cache within one
 *    boot. The mount must be the same as well, by an id that is never used again (identity.h).
 * 8. A record that came along in a raw copy of the file says nothing about the copy: it carries the
 *    inode and its time of birth. mdb_env_copy leaves records and fence out (seam.c). Only who knows that
 *    nothing was open can say that it does (PGW_RECOVER_COPY); of a cache that lived on it never speaks.
 * 9. Pins block recycling, and the map can be full early: then a checkpoint comes before the next
 *    transaction (gate.c). mdb_env_sync moves d before it returns (front.c). Transaction numbers
 *    repeat after a restore: what is kept of them elsewhere is void.
 * 10. mdb_env_set_mapsize unmaps under readers: no checkpoint runs meanwhile, and pins hold no
 *    address (front.c).
 *
 * Which snapshot:
 *
 *   page cache proven to have lived on, no failed sync -> the newest in the meta pages (kept)
 *   else the newer record, if its checksum, its identity and its digest prove it -> its snapshot
 *   else the older record, likewise -> its snapshot. It is right then: the newer record was being
 *        written, so the older one's snapshot was still pinned
 *   else refuse, and change nothing
 */
#include "recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach.h"
#include "commit.h"
#include "env.h"
#include "fence.h"
#include "record.h"
#include "sys.h"

struct found {
	struct pgw__heads heads;
	struct pgw__identity id;
	struct pgw__record record[2];
	struct pgw_ranges ranges[2];
};

static int refuse(struct pgw__recovery *rv, int code, const char *reason)
{
	rv->report->action = PGW_RECOVER_REFUSED;
	rv->report->reason = reason;
	return code;
}

static enum pgw_record_state judge_decoded(
    const struct pgw__recovery *rv, const struct found *f, int i)
{
	if ((rv->flags & PGW_RECOVER_COPY) || pgw__identity_same_file(&f->record[i].id, &f->id))
		return PGW_RECORD_WHOLE;
	return PGW_RECORD_OF_ANOTHER_FILE;
}

static int decode(struct pgw__recovery *rv, struct found *f)
{
	for (int i = 0; i < 2; i++) {
		struct pgw_record_report *out = &rv->report->record[i];
		int rc = pgw__record_decode(
		    f->heads.page[i].record, f->heads.psize, &f->record[i], &f->ranges[i]);

		memset(out, 0, sizeof(*out));
		if (rc == -ENOMEM)
			return ENOMEM;
		if (rc) {
			out->state = rc == -ENOENT   ? PGW_RECORD_NONE
				     : rc == -EPROTO ? PGW_RECORD_UNKNOWN
						     : PGW_RECORD_TORN;
			continue;
		}
		out->state = judge_decoded(rv, f, i);
		out->seq = f->record[i].seq;
		out->txnid = f->record[i].txnid;
		out->wall_ns = f->record[i].wall;
	}
	return 0;
}

/* Slots in the order in which they are tried: a whole record before anything else, the newer one
 * first. */
static void order(const struct pgw_recover_report *report, int slot[2])
{
	uint64_t seq[2];

	for (int i = 0; i < 2; i++)
		seq[i] = report->record[i].state == PGW_RECORD_WHOLE ? report->record[i].seq : 0;
	slot[0] = seq[1] > seq[0];
	slot[1] = !slot[0];
}

/* Does the file hold what the record says? */
static int prove(struct pgw__recovery *rv, struct found *f, int i)
{
	struct pgw_record_report *out = &rv->report->record[i];
	unsigned char digest[16];
	int rc;

	if (f->record[i].has_digest) {
		rc = pgw__record_digest(NULL, rv->fd, &f->ranges[i], digest);
		if (rc && rc != -ENODATA)
			return -rc;
		if (rc || memcmp(digest, f->record[i].digest, sizeof(digest))) {
			out->state = PGW_RECORD_UNPROVEN;
			return 0;
		}
	}
	out->state = PGW_RECORD_PROVEN;
	return 0;
}

/* The slot of the record to restore in *slot. */
static int choose(struct pgw__recovery *rv, struct found *f, int *slot)
{
	const struct pgw_record_report *r = rv->report->record;
	int in_order[2];

	order(rv->report, in_order);
	for (int i = 0; i < 2; i++) {
		int rc = r[in_order[i]].state == PGW_RECORD_WHOLE ? prove(rv, f, in_order[i]) : 0;

		if (rc)
			return refuse(rv, rc, "the file cannot be read");
		if (r[in_order[i]].state == PGW_RECORD_PROVEN) {
			*slot = in_order[i];
			return 0;
		}
	}
	for (int i = 0; i < 2; i++)
		if (r[i].state == PGW_RECORD_OF_ANOTHER_FILE)
			return refuse(rv, PGW_COPIED,
			    "the file is a raw copy of one that was in use, or not closed; take "
			    "the "
			    "original, or a copy made by mdb_env_copy (or, if nothing had the "
			    "original "
			    "open then, pagewise recover --copy)");
	return refuse(rv, PGW_UNPROVEN,
	    "no record proves a snapshot: the file was damaged, or changed by something else");
}

/* A cache that has lived on has all that records speak of; a file that is older was put back over it. */
static bool cache_lived_on(const struct found *f, const struct pgw_recover_report *report)
{
	int slot[2];

	order(report, slot);
	return f->heads.fence == PGW__FENCE_UP &&
	       report->record[slot[0]].state == PGW_RECORD_WHOLE &&
	       report->newest_txnid >= report->record[slot[0]].txnid &&
	       pgw__identity_same_cache(&f->record[slot[0]].id, &f->id);
}

static int write_at(int fd, const void *buf, size_t len, off_t off)
{
	const struct iovec v = { .iov_base = (void *)buf, .iov_len = len };
	ssize_t r;

	do
		r = pgw__write_all(fd, &v, 1, off);
	while (r == -EINTR);
	return r < 0 ? (int)-r : 0;
}

/* The meta image of the record into both pages. The version field is left out: the fence stays. */
static int restore(int fd, const struct found *f, int slot)
{
	const unsigned char *meta = f->record[slot].meta;
	const size_t from = PGW__META_VERSION + sizeof(uint32_t);
	int rc = 0;

	for (int i = 0; i < 2 && !rc; i++)
		rc = write_at(fd, meta + from, PGW__META_SIZE - from,
		    (off_t)i * f->heads.psize + PGW__META_OFFSET + (off_t)from);
	return rc ? rc : -pgw__sys.fdatasync(fd);
}

/* The last step: everything is durable, and the file becomes LMDB's. */
static int finish(int fd, const struct found *f)
{
	static const unsigned char nothing[PGW__RECORD_SIZE];
	int rc = -pgw__fence_set(fd, f->heads.psize, PGW__FENCE_DOWN);

	if (!rc)
		rc = -pgw__sys.fdatasync(fd);
	if (rc) { /* on the disk it may be up still, and plain LMDB must not begin behind it */
		(void)pgw__fence_set(fd, f->heads.psize, f->heads.fence);
		return rc;
	}
	for (int i = 0; i < 2 && !rc; i++)
		rc = write_at(
		    fd, nothing, sizeof(nothing), (off_t)i * f->heads.psize + PGW__RECORD_OFFSET);
	return rc;
}

/* LMDB's descriptor may be read-only. *own: to be closed. */
static int writable(int fd, int *out, bool *own)
{
	int flags = fcntl(fd, F_GETFL);

	*own = false;
	*out = fd;
	if (flags >= 0 && (flags & O_ACCMODE) == O_RDWR)
		return 0;
	fd = pgw__reopen(fd);
	if (fd < 0)
		return -fd;
	*out = fd;
	*own = true;
	return 0;
}

static void report_outcome(struct pgw_recover_report *r, enum pgw_recover_action action,
    uint64_t txnid, uint64_t wall, const char *reason)
{
	r->action = action;
	r->txnid = txnid;
	r->wall_ns = wall;
	r->lost_txnids = r->newest_txnid > txnid ? r->newest_txnid - txnid : 0;
	r->reason = reason;
}

/* The newest snapshot is all there; it only has to reach the disk. */
static int keep(struct pgw__recovery *rv, const struct found *f, int fd)
{
	int rc;

	report_outcome(
	    rv->report, PGW_RECOVER_KEPT, rv->report->newest_txnid, 0, "the page cache lived on");
	if (rv->flags & PGW_RECOVER_CHECK)
		return 0;
	rc = -pgw__sys.fdatasync(fd);
	if (rc) {
		/* The kernel says this once. Without the mark, the next attempt would trust the
		 * cache. */
		(void)pgw__fence_set(fd, f->heads.psize, PGW__FENCE_FAILED);
		return refuse(rv, rc, "the file cannot be synced");
	}
	rc = finish(fd, f);
	return rc ? refuse(rv, rc, "the file cannot be written") : 0;
}

static int go_back(struct pgw__recovery *rv, struct found *f, int fd)
{
	int slot, rc;

	/* After a failed sync the cache can hold what the disk does not, and call it clean. */
	if (!(rv->flags & PGW_RECOVER_CHECK))
		(void)posix_fadvise(rv->fd, 0, 0, POSIX_FADV_DONTNEED);
	rc = choose(rv, f, &slot);
	if (rc)
		return rc;
	report_outcome(rv->report, PGW_RECOVER_RESTORED, f->record[slot].txnid,
	    f->record[slot].wall, "the newest snapshot that is proven durable");
	if (rv->flags & PGW_RECOVER_CHECK)
		return 0;
	rc = restore(fd, f, slot);
	if (!rc)
		rc = finish(fd, f);
	return rc ? refuse(rv, rc, "the file cannot be written") : 0;
}

static int recover_alone(struct pgw__recovery *rv, struct found *f)
{
	struct pgw_recover_report *report = rv->report;
	bool own = false;
	int fd = rv->fd, rc = -pgw__identity_of(rv->fd, &f->id);

	if (!rc)
		rc = decode(rv, f);
	if (rc)
		return refuse(rv, rc, "the file cannot be examined");
	report->same_cache = cache_lived_on(f, report);
	if (!(rv->flags & PGW_RECOVER_CHECK)) {
		rc = writable(rv->fd, &fd, &own);
		if (rc && report->same_cache) { /* reading what is there is sound */
			report_outcome(report, PGW_RECOVER_KEPT, report->newest_txnid, 0,
			    "the page cache lived on; the file may not be written here, and stays "
			    "fenced");
			return 0;
		}
		if (rc)
			return refuse(rv, rc, "the file must be recovered and may not be written");
	}
	rc = report->same_cache ? keep(rv, f, fd) : go_back(rv, f, fd);
	if (own)
		close(fd);
	return rc;
}

/* LMDB opens an environment on a file system that it may not write without its lock file. Whether anybody else
 * has it open, by another mount, is then told by the owner lock only: good enough to look, not to read. */
static int recover_read_only(struct pgw__recovery *rv, struct found *f)
{
	if (pgw__owner_exists(rv->fd))
		report_outcome(rv->report, PGW_RECOVER_IN_USE, rv->report->newest_txnid, 0,
		    "a writing process has it open");
	else if (rv->flags & PGW_RECOVER_CHECK)
		return recover_alone(rv, f);
	else
		return refuse(rv, EROFS,
		    "the environment must be recovered, and is on a file system that may not be "
		    "written");
	return rv->flags & PGW_RECOVER_CHECK ? 0 : PGW_BUSY;
}

static int recover_found(struct pgw__recovery *rv, struct found *f)
{
	struct stat st;

	rv->report->newest_txnid = pgw__get64(pgw__heads_newest(&f->heads), PGW__META_TXNID);
	if (rv->lock_fd < 0 && !rv->no_locks)
		return recover_read_only(rv, f);
	if (rv->lock_fd < 0)
		return refuse(rv, PGW_FENCED,
		    "the file is in use by pagewise, or was not closed; with MDB_NOLOCK nobody can "
		    "tell which");
	if (!rv->exclusive) {
		report_outcome(rv->report, PGW_RECOVER_IN_USE, rv->report->newest_txnid, 0,
		    "other processes have it open");
		return 0;
	}
	if (fstat(rv->fd, &st))
		return errno;
	if (pgw__env_by_file(NULL, st.st_dev, st.st_ino) || pgw__owner_exists(rv->fd))
		return refuse(rv, PGW_BUSY,
		    "a writing process has it open, and its lock file was deleted or the "
		    "environment is open in this process already");
	return recover_alone(rv, f);
}

int pgw__recover(struct pgw__recovery *rv)
{
	struct found *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return ENOMEM;
	memset(rv->report, 0, sizeof(*rv->report));
	rc = pgw__heads_read(rv->fd, &f->heads);
	/* Not ours to judge: LMDB says what is wrong, or makes a new file. */
	if (rc || f->heads.fence == PGW__FENCE_DOWN) {
		free(f);
		return 0;
	}
	rv->report->fenced = 1;
	rv->report->failed = f->heads.fence == PGW__FENCE_FAILED;
	for (int i = 0; i < 2; i++)
		pgw_ranges_init(&f->ranges[i]);
	rc = recover_found(rv, f);
	for (int i = 0; i < 2; i++)
		pgw_ranges_finish(&f->ranges[i]);
	free(f);
	return rc;
}
