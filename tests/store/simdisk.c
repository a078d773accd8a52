/* SPDX-License-Identifier: BSD-2-Clause
 *
 * simdisk.c - see simdisk.h. One file, one thread at a time.
 */
#include "simdisk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys.h"

#define PAGE   4096
#define SECTOR 512

struct sim sim;

static struct {
	char path[4096];
	size_t max;
	uint8_t *disk, *cache, *lost_as; /* max bytes each, reserved */
	uint8_t *cached, *lost;		 /* a byte for each page */
	size_t disk_size;		 /* of the file, as the disk knows it */
	size_t first, last;		 /* pages that may be cached: first .. last - 1 */
	int fd;				 /* for reading; LMDB has some that cannot */
	const uint8_t *file;		 /* mapped, max bytes */
} s;

static void die(const char *what)
{
	perror(what);
	abort();
}

static void *reserve(size_t len)
{
	void *p = mmap(
	    NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static bool is_the_file(int fd)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(s.path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The bytes of the file that can differ from zero: a sparse file of 32 GiB has few. */
static size_t size_used(int fd)
{
	struct stat st;
	off_t end;

	if (fstat(fd, &st))
		die("fstat");
	if ((size_t)st.st_size <= s.max)
		return (size_t)st.st_size;
	end = lseek(fd, (off_t)s.max, SEEK_DATA);
	if (end >= 0) {
		fprintf(stderr, "simdisk: data beyond %zu bytes\n", s.max);
		abort();
	}
	return s.max;
}

static int reader(void)
{
	if (s.fd < 0)
		s.fd = open(s.path, O_RDONLY | O_CLOEXEC);
	if (s.fd < 0)
		die(s.path);
	if (!s.file) {
		s.file = mmap(NULL, s.max, PROT_READ, MAP_SHARED, s.fd, 0);
		if (s.file == MAP_FAILED)
			die(s.path);
	}
	return s.fd;
}

/* Dirty pages of the range are dropped. */
static void lose_range(uint64_t off, uint64_t len)
{
	size_t pages = (size_used(reader()) + PAGE - 1) / PAGE;
	size_t to = (off + len + PAGE - 1) / PAGE;

	for (size_t page = off / PAGE; page < to && page < pages; page++) {
		s.lost[page] = memcmp(s.file + page * PAGE, s.disk + page * PAGE, PAGE) != 0;
		if (s.lost[page])
			memcpy(s.lost_as + page * PAGE, s.file + page * PAGE, PAGE);
	}
}

static void found_again(uint64_t off, uint64_t len)
{
	memset(s.lost + off / PAGE, 0, (off + len + PAGE - 1) / PAGE - off / PAGE);
}

static void cache_page(size_t page)
{
	const uint8_t *now = s.file + page * PAGE;

	if (s.lost[page] && !memcmp(now, s.lost_as + page * PAGE, PAGE))
		return;
	s.lost[page] = 0;
	if (!s.cached[page] && !memcmp(now, s.disk + page * PAGE, PAGE))
		return;
	memcpy(s.cache + page * PAGE, now, PAGE);
	s.cached[page] = 1;
	if (s.first == s.last) {
		s.first = page;
		s.last = page + 1;
	}
	if (page < s.first)
		s.first = page;
	if (page >= s.last)
		s.last = page + 1;
}

static void cache_range(uint64_t off, uint64_t len, bool from_ranges)
{
	size_t used = size_used(reader()), from = off / PAGE, to = (off + len + PAGE - 1) / PAGE;

	if (to > (used + PAGE - 1) / PAGE)
		to = (used + PAGE - 1) / PAGE;
	for (size_t page = from; page < to; page++) {
		if (from_ranges && sim.plant == SIM_LOSE_A_PAGE && page + 1 == to &&
		    rng_chance(&sim.rng, 20))
			continue;
		if (from_ranges && sim.plant == SIM_LOSE_META && page < 2)
			continue;
		cache_page(page);
	}
}

static void barrier(void)
{
	size_t used = size_used(reader());

	sim.count.barriers++;
	if (sim.at_barrier)
		sim.at_barrier(sim.arg);
	for (size_t page = s.first; page < s.last; page++) {
		if (s.cached[page])
			memcpy(s.disk + page * PAGE, s.cache + page * PAGE, PAGE);
		s.cached[page] = 0;
	}
	s.first = s.last = 0;
	if (used > s.disk_size)
		s.disk_size = used;
}

/* Does this call fail? */
static bool fails(void)
{
	sim.count.calls++;
	if (!sim.fail_at || --sim.fail_at)
		return false;
	sim.fired = true;
	return true;
}

static int sim_sync_file_range(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	if (!flags || !is_the_file(fd))
		return 0; /* a probe */
	if (fails()) {
		lose_range(off, len);
		return sim.fail_with;
	}
	if (flags & SYNC_FILE_RANGE_WAIT_AFTER)
		cache_range(off, len, true);
	return 0;
}

static int sim_fdatasync(int fd)
{
	if (!is_the_file(fd))
		return pgw__sys_real.fdatasync(fd);
	if (fails()) {
		lose_range(0, s.max);
		return sim.fail_with;
	}
	if (sim.plant != SIM_LOSE_FULL)
		cache_range(0, s.max, false);
	barrier();
	return 0;
}

static int sim_fsync(int fd)
{
	sim.count.directory_syncs++;
	return fails() ? sim.fail_with : 0;
}

/* The offset of a mapped address, from the kernel's list of maps. */
static bool find_offset(uintptr_t addr, uint64_t *out)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096 + 256];
	bool found = false;

	if (!maps)
		die("/proc/self/maps");
	while (!found && fgets(line, sizeof(line), maps)) {
		unsigned long from, to, off;

		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &off) != 3 || addr < from ||
		    addr >= to || !strstr(line, s.path))
			continue;
		*out = off + (addr - from);
		found = true;
	}
	fclose(maps);
	return found;
}

static int sim_msync(void *addr, size_t len, int flags)
{
	uint64_t off;

	if (flags & MS_ASYNC)
		return 0;
	if (!find_offset((uintptr_t)addr, &off))
		return -ENOMEM;
	if (fails()) {
		lose_range(off, len);
		return sim.fail_with;
	}
	cache_range(off, len, true);
	barrier();
	return 0;
}

static int64_t fail_write(int fd, const struct iovec *v, int n, uint64_t off)
{
	if (fcntl(fd, F_GETFL) & O_DSYNC) {
		/* Written, but not to the disk. */
		(void)pgw__sys_real.pwritev(fd, v, n, off);
		lose_range(off, v[0].iov_len);
		return sim.fail_with;
	}
	if (!sim.short_write)
		return sim.fail_with;
	sim.fail_at = 1; /* the rest fails with the reason */
	sim.short_write = false;
	found_again(off, v[0].iov_len);
	return pgw__sys_real.pwritev(
	    fd, &(struct iovec){ v[0].iov_base, v[0].iov_len / 2 }, 1, off);
}

static int64_t sim_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	int64_t r;

	if (!is_the_file(fd))
		return pgw__sys_real.pwritev(fd, v, n, off);
	if (fails())
		return fail_write(fd, v, n, off);
	r = pgw__sys_real.pwritev(fd, v, n, off);
	if (r > 0)
		found_again(off, (uint64_t)r);
	if (r > 0 && (fcntl(fd, F_GETFL) & O_DSYNC)) {
		cache_range(off, (uint64_t)r, false);
		barrier();
	}
	return r;
}

static int sim_fs_magic(int fd, uint64_t *magic)
{
	*magic = 0xef53;
	return 0;
}

void sim_start(const char *path, size_t max, uint64_t seed)
{
	memset(&sim, 0, sizeof(sim));
	sim.rng.state = seed;
	snprintf(s.path, sizeof(s.path), "%s", path);
	s.max = max;
	s.disk = reserve(max);
	s.cache = reserve(max);
	s.lost_as = reserve(max);
	s.cached = reserve(max / PAGE);
	s.lost = reserve(max / PAGE);
	s.disk_size = s.first = s.last = 0;
	s.fd = -1;
	pgw__sys.sync_file_range = sim_sync_file_range;
	pgw__sys.fdatasync = sim_fdatasync;
	pgw__sys.fsync = sim_fsync;
	pgw__sys.msync = sim_msync;
	pgw__sys.pwritev = sim_pwritev;
	pgw__sys.fs_magic = sim_fs_magic;
}

void sim_stop(void)
{
	pgw__sys = pgw__sys_real;
	if (s.file)
		munmap((void *)s.file, s.max);
	s.file = NULL;
	if (s.fd >= 0)
		close(s.fd);
	munmap(s.disk, s.max);
	munmap(s.cache, s.max);
	munmap(s.lost_as, s.max);
	munmap(s.cached, s.max / PAGE);
	munmap(s.lost, s.max / PAGE);
}

/* What became of a page that was not promised: it, or sectors of it, may have been written. */
static void mix(uint8_t *page, const uint8_t *newer)
{
	if (rng_chance(&sim.rng, 50))
		return;
	for (size_t i = 0; i < PAGE; i += SECTOR)
		if (!rng_chance(&sim.rng, 25))
			memcpy(page + i, newer + i, SECTOR);
}

static void image_page(size_t page, enum sim_image kind, uint8_t *out)
{
	const uint8_t *now = s.file + page * PAGE;

	memcpy(out, s.disk + page * PAGE, PAGE);
	if (kind == SIM_NOTHING_MORE)
		return;
	if (kind == SIM_ALL) {
		memcpy(out, now, PAGE);
		return;
	}
	if (s.cached[page])
		mix(out, s.cache + page * PAGE);
	if (s.lost[page] && !memcmp(now, s.lost_as + page * PAGE, PAGE) && rng_chance(&sim.rng, 80))
		return; /* the kernel gave up on it, perhaps after writing it */
	if (memcmp(out, now, PAGE))
		mix(out, now);
}

void sim_write_image(const char *path, enum sim_image kind)
{
	int out = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t size;

	(void)reader();
	if (out < 0)
		die(path);
	/* The size reaches the disk with the first barrier after it changed, or earlier. */
	size = kind == SIM_NOTHING_MORE ? s.disk_size : size_used(reader());
	if (ftruncate(out, (off_t)size))
		die("ftruncate");
	for (size_t page = 0; page * PAGE < size; page++) {
		static const uint8_t zero[PAGE];
		uint8_t buf[PAGE];

		image_page(page, kind, buf);
		if (memcmp(buf, zero, PAGE) && pwrite(out, buf, PAGE, (off_t)(page * PAGE)) != PAGE)
			die("pwrite");
	}
	close(out);
}

void sim_reboot(const char *image)
{
	int from = open(image, O_RDONLY | O_CLOEXEC);
	int to = open(s.path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	size_t size;

	if (from < 0 || to < 0)
		die(image);
	size = size_used(from);
	madvise(s.disk, s.max, MADV_DONTNEED);
	memset(s.cached, 0, s.max / PAGE);
	memset(s.lost, 0, s.max / PAGE);
	s.first = s.last = 0;
	s.disk_size = size;
	for (size_t page = 0; page * PAGE < size; page++) {
		ssize_t r = pread(from, s.disk + page * PAGE, PAGE, (off_t)(page * PAGE));

		if (r < 0)
			die("pread");
		memset(s.disk + page * PAGE + r, 0, PAGE - (size_t)r);
		if (pwrite(to, s.disk + page * PAGE, PAGE, (off_t)(page * PAGE)) != PAGE)
			die("pwrite");
	}
	close(to);
	close(from);
}
