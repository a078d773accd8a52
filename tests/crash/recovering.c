/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recovering.c - see recovering.h.
 */
#include "recovering.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "judge.h"
#include "record.h"
#include "recover.h"

/* The store's own: these tests judge its record by changing it. */
#include "../../store/fence.h"
#include "../../store/identity.h"
#include "../../store/record.h"

#include "sys.h"

static char text[256];

static int one_file(int fd, struct pgw__identity *out)
{
	(void)fd;
	*out = (struct pgw__identity){ .inode = 1, .birth = 1 };
	return 0;
}

int recovering_init(struct recovering *r, const char *dir)
{
	memset(r, 0, sizeof(*r));
	snprintf(r->path, sizeof(r->path), "%s/recovering", dir);
	r->fd = open(r->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (r->fd < 0)
		return -errno;
	pgw__identity_of = one_file;
	return 0;
}

void recovering_finish(struct recovering *r)
{
	if (r->fd >= 0)
		close(r->fd);
	unlink(r->path);
}

/* ---- a recovery that is cut short ---- */

/* Calls that are made before the power goes, and the disk that they act on. */
static __thread struct {
	struct disk *disk;
	unsigned left;
} cut;

static int64_t cut_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	int64_t r;

	if (!cut.left)
		return -EIO;
	cut.left--;
	r = pgw__sys_real.pwritev(fd, v, n, off);
	for (int i = 0; i < n; i++) {
		disk_write(cut.disk, off, v[i].iov_base, v[i].iov_len);
		off += v[i].iov_len;
	}
	return r;
}

static int cut_fdatasync(int fd)
{
	(void)fd;
	if (!cut.left)
		return -EIO;
	cut.left--;
	disk_written(cut.disk, 0, cut.disk->max);
	disk_flush(cut.disk);
	return 0;
}

static int recover(struct recovering *r)
{
	struct pgw__recovery rv = {
		.fd = r->fd, .lock_fd = r->fd, .exclusive = true, .report = &r->report
	};

	return pgw__recover(&rv);
}

/* Recover the file, whose content is image, and replace image by what a cut leaves of it. The cut
 * comes after calls calls; false: recovery was done before. */
static bool recover_and_cut(
    struct recovering *r, uint8_t *image, size_t *len, size_t max, unsigned calls, struct rng *rng)
{
	struct pgw__sys calls_of_cut = pgw__sys_real;
	enum disk_cut how = (enum disk_cut)rng_below(rng, CUT_COUNT);
	struct disk disk;
	bool done;

	disk_init(&disk, max);
	disk_write(&disk, 0, image, *len);
	disk_written(&disk, 0, max);
	disk_flush(&disk);
	cut.disk = &disk;
	cut.left = calls;
	calls_of_cut.pwritev = cut_pwritev;
	calls_of_cut.fdatasync = cut_fdatasync;
	record_bypass(&calls_of_cut);
	done = !recover(r);
	*len = disk_cut(&disk, how, rng, image);
	disk_finish(&disk);
	r->interrupted += !done;
	return !done;
}

/* ---- a recovery that does not look at digests ---- */

static void drop_digests(struct recovering *r)
{
	struct pgw__heads h;
	struct pgw_ranges ranges;

	if (pgw__heads_read(r->fd, &h))
		return;
	pgw_ranges_init(&ranges);
	for (int i = 0; i < 2; i++) {
		unsigned char slot[PGW__RECORD_SIZE];
		struct pgw__record record;

		if (pgw__record_decode(h.page[i].record, h.psize, &record, &ranges))
			continue;
		record.has_digest = false;
		(void)pgw__record_encode(&record, &ranges, h.psize, slot);
		if (pwrite(r->fd, slot, sizeof(slot), (off_t)i * h.psize + PGW__RECORD_OFFSET) < 0)
			perror("crash tests: pwrite");
	}
	pgw_ranges_finish(&ranges);
}

/* ---- */

static const char *read_back(struct recovering *r, uint8_t *image, size_t *len, size_t max)
{
	size_t done = 0;
	ssize_t n;

	while (done < max && (n = pread(r->fd, image + done, max - done, (off_t)done)) > 0)
		done += (size_t)n;
	*len = done;
	return NULL;
}

static void put_image(struct recovering *r, const uint8_t *image, size_t len)
{
	judge_save(r->path, image, len);
}

const char *recovering_image(
    struct recovering *r, uint8_t *image, size_t *len, size_t max, bool interrupt, struct rng *rng)
{
	int rc;

	/* 11 calls are the most that recovery makes; each round may cut it anywhere. */
	for (int rounds = 0; interrupt && rounds < 4; rounds++) {
		put_image(r, image, *len);
		if (!recover_and_cut(r, image, len, max, (unsigned)rng_below(rng, 12), rng))
			break;
	}
	put_image(r, image, *len);
	if (r->trust_digests)
		drop_digests(r);
	record_bypass(&pgw__sys_real);
	rc = recover(r);
	record_bypass(NULL);
	r->recovered += r->report.action == PGW_RECOVER_RESTORED;
	if (rc) {
		snprintf(text, sizeof(text), "recovery: %s (%s; records %s, %s)", mdb_strerror(rc),
		    r->report.reason ? r->report.reason : "",
		    pgw_record_state_name(r->report.record[0].state),
		    pgw_record_state_name(r->report.record[1].state));
		return text;
	}
	return read_back(r, image, len, max);
}
