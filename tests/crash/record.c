/* SPDX-License-Identifier: BSD-2-Clause
 *
 * record.c - the store's system calls, made and recorded (record.h).
 */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"

#define META_BYTES (2 * DISK_PAGE)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record_options opt;
static struct disk *disk;
static struct record_counts counts;
static int view_fd = -1;
static uint8_t *view;	 /* our own mapping of the file, disk->max bytes */
static struct stat file; /* which file it is */
static bool created;	 /* LMDB's own first write of a new file was seen */
static unsigned ranges;	 /* waited for since the last barrier, for PLANT_LOST_RANGE */
static char failure[128];

/* PLANT_RECORD_FIRST: a barrier that was asked for and has not taken effect. writes[from] and later came
 * after it. */
static struct {
	bool on;
	size_t from;
} held;

static __thread const struct pgw__sys *bypass;

static const char *const plant_names[PLANT_COUNT] = {
	[PLANT_NONE] = "none",
	[PLANT_NO_DATA_BARRIER] = "no-data-barrier",
	[PLANT_NO_META_BARRIER] = "no-meta-barrier",
	[PLANT_NO_WAIT] = "no-wait",
	[PLANT_LOST_RANGE] = "lost-range",
	[PLANT_LOST_META] = "lost-meta",
	[PLANT_RECORD_FIRST] = "record-first",
};

const char *plant_name(enum plant p)
{
	return plant_names[p];
}

/* ---- the file ---- */

/* Map the file once it is there. */
static bool have_file(void)
{
	if (view)
		return true;
	view_fd = open(opt.path, O_RDONLY | O_CLOEXEC);
	if (view_fd < 0 || fstat(view_fd, &file))
		return false;
	view = mmap(NULL, disk->max, PROT_READ, MAP_SHARED, view_fd, 0);
	if (view == MAP_FAILED) {
		perror("crash tests: mmap");
		exit(1);
	}
	return true;
}

static bool is_file(int fd)
{
	struct stat st;

	return have_file() && !fstat(fd, &st) && st.st_ino == file.st_ino &&
	       st.st_dev == file.st_dev;
}

static void look(void)
{
	struct stat st;
	size_t n;

	if (!have_file() || fstat(view_fd, &st))
		return;
	if ((size_t)st.st_size > disk->max) {
		fputs("crash tests: the file outgrew the model\n", stderr);
		exit(1);
	}
	n = disk_observe(disk, view, (size_t)st.st_size);
	counts.mapped_pages += n;
	/* LMDB writes the first two pages of a new file before the store knows it. */
	if (n && !opt.writemap && created && !failure[0])
		snprintf(failure, sizeof(failure),
		    "%zu pages changed that no recorded write explains", n);
	created = true;
}

/* Which part of the file is mapped at addr? LMDB maps it at offset 0. */
static bool file_offset(const void *addr, uint64_t *off)
{
	static uintptr_t start, end;
	uintptr_t a = (uintptr_t)addr;
	char line[512];
	bool found = false;
	FILE *f;

	f = fopen("/proc/self/maps", "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned long ino, at;

		/* The kernel writes these lines. NOLINTNEXTLINE(cert-err34-c) */
		if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &start, &end, &at, &ino) == 4 &&
		    a >= start && a < end) {
			found = ino == file.st_ino;
			*off = a - start + at;
		}
	}
	if (f)
		fclose(f);
	return found;
}

/* ---- the record first ---- */

static void images(void)
{
	if (opt.before_barrier)
		opt.before_barrier(opt.arg);
}

/* The barrier that was held back takes effect. */
static void let_go(void)
{
	if (held.on)
		disk_flush(disk);
	held.on = false;
}

/* The number of a meta page, written once more (store/commit.c, I9; store/space.c). */
static bool says_nothing(uint64_t off, uint64_t len)
{
	return off < META_BYTES && off % DISK_PAGE == 0 && len == sizeof(uint64_t);
}

/* Meta images, records and the fence vouch for what was written before them. */
static bool vouches(uint64_t off, uint64_t len)
{
	return off + len <= META_BYTES && !says_nothing(off, len);
}

/* A call comes that acts on [off, off + len). Only what vouches can overtake a barrier. */
static void overtake_or_let_go(uint64_t off, uint64_t len)
{
	bool data = off + len > META_BYTES;

	for (size_t i = held.from; held.on && !data && i < disk->n; i++)
		data = disk->writes[i].off >= META_BYTES;
	if (data)
		let_go();
}

static bool overtaken(void)
{
	bool record = false;

	for (size_t i = held.from; held.on && !record && i < disk->n; i++)
		record = vouches(disk->writes[i].off, disk->writes[i].len);
	return record;
}

/* A barrier with PLANT_RECORD_FIRST. If it is the one behind a record, the record becomes durable now, what it
 * vouches for is not yet, and nothing is missing after it. If it may be the one before, it is held back.
 * False: neither. */
static bool barrier_in_disorder(bool meta)
{
	bool record = overtaken();

	if (!record)
		let_go();
	if (meta && !record)
		return false;
	counts.barriers++;
	ranges = 0;
	if (record) {
		disk_write_through(disk, 0, META_BYTES);
		images();
		let_go();
		return true;
	}
	images();
	held.on = true;
	held.from = disk->n;
	return true;
}

/* ---- effects ---- */

/* Write-out of [off, off + len) has completed, if no planted bug is in the way. */
static void written(uint64_t off, uint64_t len)
{
	if (opt.plant == PLANT_LOST_META && off < META_BYTES) {
		uint64_t skip = META_BYTES - off < len ? META_BYTES - off : len;

		off += skip;
		len -= skip;
	}
	if (len)
		disk_written(disk, off, len);
}

static void barrier(bool meta)
{
	if (opt.plant == PLANT_RECORD_FIRST && barrier_in_disorder(meta))
		return;
	images();
	counts.barriers++;
	ranges = 0;
	if (opt.plant == (meta ? PLANT_NO_META_BARRIER : PLANT_NO_DATA_BARRIER))
		return;
	disk_flush(disk);
}

/* A write past the disk's cache. */
static void write_through(uint64_t off, uint64_t len)
{
	bool late = held.on;

	if (!late)
		images();
	counts.barriers++;
	if (opt.plant != PLANT_NO_META_BARRIER)
		disk_write_through(disk, off, len);
	if (late)
		images();
	let_go();
}

/* ---- the table ---- */

static int64_t rec_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	int64_t r;
	int flags;

	if (bypass)
		return bypass->pwritev(fd, v, n, off);
	pthread_mutex_lock(&lock);
	if (is_file(fd)) {
		look();
		overtake_or_let_go(off, n == 1 ? v[0].iov_len : disk->max);
	}
	r = pgw__sys_real.pwritev(fd, v, n, off);
	if (r > 0 && is_file(fd)) {
		uint64_t at = off, left = (uint64_t)r;

		for (int i = 0; i < n && left; i++) {
			size_t len = v[i].iov_len < left ? v[i].iov_len : left;

			disk_write(disk, at, v[i].iov_base, len);
			at += len;
			left -= len;
		}
		counts.writes++;
		flags = pgw__sys_real.fd_flags(fd);
		if (flags >= 0 && (flags & O_DSYNC))
			write_through(off, (uint64_t)r);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static int rec_msync(void *addr, size_t len, int flags)
{
	uint64_t off;

	if (!(flags & MS_SYNC))
		return 0;
	pthread_mutex_lock(&lock);
	look();
	if (!file_offset(addr, &off)) {
		pthread_mutex_unlock(&lock);
		return pgw__sys_real.msync(addr, len, flags);
	}
	overtake_or_let_go(off, len);
	if (opt.plant == PLANT_LOST_RANGE && len > DISK_PAGE)
		len -= DISK_PAGE;
	written(off, len);
	barrier(off < META_BYTES && len <= META_BYTES);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int rec_fdatasync(int fd)
{
	if (bypass)
		return bypass->fdatasync(fd);
	pthread_mutex_lock(&lock);
	if (is_file(fd)) {
		look();
		overtake_or_let_go(0, META_BYTES);
		if (opt.plant != PLANT_NO_DATA_BARRIER)
			disk_written(disk, 0, disk->max);
		barrier(false);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int rec_fsync(int fd)
{
	struct stat st;

	/* The directory of the file: that the file exists is not modelled. */
	if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		return 0;
	return rec_fdatasync(fd);
}

static int rec_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	pthread_mutex_lock(&lock);
	if (is_file(fd) && flags) {
		look();
		overtake_or_let_go(off, len ? len : disk->max);
		counts.write_outs++;
		if ((flags & SYNC_FILE_RANGE_WRITE) && (flags & SYNC_FILE_RANGE_WAIT_AFTER) &&
		    opt.plant != PLANT_NO_WAIT &&
		    !(opt.plant == PLANT_LOST_RANGE && ++ranges % 3 == 2))
			written(off, len ? len : disk->max - off);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int rec_fs_magic(int fd, uint64_t *magic)
{
	if (!is_file(fd))
		return pgw__sys_real.fs_magic(fd, magic);
	*magic = opt.fs_magic;
	return 0;
}

/* ---- control ---- */

void record_start(const struct record_options *o, struct disk *d)
{
	opt = *o;
	disk = d;
	counts = (struct record_counts){ 0 };
	created = d->now_len != 0;
	failure[0] = '\0';
	ranges = 0;
	held.on = false;
	pgw__sys = pgw__sys_real;
	pgw__sys.pwritev = rec_pwritev;
	pgw__sys.msync = rec_msync;
	pgw__sys.fdatasync = rec_fdatasync;
	pgw__sys.fsync = rec_fsync;
	pgw__sys.sync_file_range = rec_sync_file_range;
	pgw__sys.fs_magic = rec_fs_magic;
}

void record_stop(void)
{
	pgw__sys = pgw__sys_real;
	if (view)
		munmap(view, disk->max);
	view = NULL;
	if (view_fd >= 0)
		close(view_fd);
	view_fd = -1;
}

void record_bypass(const struct pgw__sys *t)
{
	bypass = t;
}

struct record_counts record_counts(void)
{
	return counts;
}

void record_look(void)
{
	pthread_mutex_lock(&lock);
	look();
	pthread_mutex_unlock(&lock);
}

const char *record_failure(void)
{
	return failure[0] ? failure : NULL;
}

void record_lock(void)
{
	pthread_mutex_lock(&lock);
	let_go();
}

void record_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
