/* SPDX-License-Identifier: BSD-2-Clause
 *
 * syncranges.c - pgw_sync of random ranges of a file, and whether they are in the file afterwards.
 *
 *   syncranges write FILE SEED STRATEGY [DISK COPY]
 *                                rounds of writes, each followed by pgw_sync; prints JSON. COPY is
 *                                what the disk (a file, below a loop device or a FUSE process) holds
 *                                then, with FILE still open: closing it writes pages on FUSE
 *   syncranges check FILE SEED   is every synced page there, with its last contents?
 *
 * The rounds follow from the seed alone, so check needs nothing but the file, which may be on a
 * copy of the disk: mounted, that is what a stopped machine would have found, less the disk's own
 * cache. STRATEGY is one of PAGEWISE_SYNC, or "none": no pgw_sync at all, the control, which check
 * must find wanting. One page in four is dirtied and never synced: how many of those came along is
 * told.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagewise/probe.h>
#include <pagewise/sync.h>

enum {
	PAGES = 4096,	/* of the file at its end */
	MAPPED = 3072,	/* the rest lies past the mapping */
	WRITTEN = 1024, /* allocated before the first round; behind them are holes */
	ROUNDS = 8,	/* the file grows in the second half */
	RUNS = 8,	/* ranges a round */
	PAGE_MAX = 1 << 16,
	UNIT = 4,	 /* pages; the last one of each unit is never synced */
	EXIT_WANTING = 3 /* check: a synced page is not there */
};

/* What the rounds leave behind: the round that wrote a page last. */
struct history {
	uint8_t synced[PAGES];
	uint8_t other[PAGES]; /* dirtied, never synced */
};

struct rng {
	uint64_t s;
};

/* splitmix64, Steele, Lea and Flood, OOPSLA 2014. */
static uint64_t next(struct rng *r)
{
	uint64_t z = r->s += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void fill(void *page, size_t len, uint64_t seed, size_t index, unsigned round)
{
	struct rng r = { seed ^ ((uint64_t)index << 20) ^ round };
	uint64_t *w = page;

	for (size_t i = 0; i < len / sizeof *w; i++)
		w[i] = next(&r);
}

struct run {
	size_t first, pages;
	bool mapped; /* stored through the mapping, else by pwrite */
};

/* The ranges of one round. They may overlap: the later one wins, as in the file. */
static void plan(struct rng *rng, unsigned round, struct run v[RUNS], size_t *other)
{
	size_t limit = round > ROUNDS / 2 ? PAGES : MAPPED;

	for (size_t i = 0; i < RUNS; i++) {
		size_t unit = next(rng) % (limit / UNIT), at = next(rng) % (UNIT - 1);

		v[i].first = unit * UNIT + at;
		v[i].pages = 1 + next(rng) % (UNIT - 1 - at);
		v[i].mapped = next(rng) & 1 && v[i].first + v[i].pages <= MAPPED;
	}
	*other = next(rng) % (WRITTEN / UNIT) * UNIT + UNIT - 1;
}

static void replay(uint64_t seed, struct history *h)
{
	struct rng rng = { seed };
	struct run v[RUNS];
	size_t other;

	memset(h, 0, sizeof *h);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		plan(&rng, round, v, &other);
		for (size_t i = 0; i < RUNS; i++)
			memset(h->synced + v[i].first, (int)round, v[i].pages);
		h->other[other] = (uint8_t)round;
	}
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "syncranges: %s: %s\n", what, strerror(err));
	return 1;
}

struct file {
	int fd;
	size_t page;
	unsigned char *map;
	unsigned char buf[PAGE_MAX]; /* one page */
};

static int open_new(struct file *f, const char *path, uint64_t seed)
{
	f->page = pgw_page_size();
	f->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (f->fd < 0)
		return fail(path, errno);
	for (size_t i = 0; i < WRITTEN; i++) {
		fill(f->buf, f->page, seed, i, 0);
		if (pwrite(f->fd, f->buf, f->page, (off_t)(i * f->page)) != (ssize_t)f->page)
			return fail("pwrite", errno);
	}
	if (ftruncate(f->fd, (off_t)(MAPPED * f->page)))
		return fail("ftruncate", errno);
	f->map = mmap(NULL, MAPPED * f->page, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (f->map == MAP_FAILED)
		return fail("mmap", errno);
	/* The start is durable, and the file's name with it: what is judged are the rounds. */
	sync();
	return 0;
}

static int write_page(struct file *f, uint64_t seed, size_t index, unsigned round, bool mapped)
{
	if (mapped) {
		fill(f->map + index * f->page, f->page, seed, index, round);
		return 0;
	}
	fill(f->buf, f->page, seed, index, round);
	if (pwrite(f->fd, f->buf, f->page, (off_t)(index * f->page)) != (ssize_t)f->page)
		return fail("pwrite", errno);
	return 0;
}

static int write_round(struct file *f, uint64_t seed, struct rng *rng, unsigned round,
    const struct pgw_sync_file *sync, struct pgw_sync_report *sum)
{
	struct pgw_range storage[RUNS];
	struct pgw_sync_report rep;
	struct pgw_ranges set;
	struct run v[RUNS];
	size_t other;
	int err = 0;

	plan(rng, round, v, &other);
	pgw_ranges_init_fixed(&set, storage, RUNS);
	for (size_t i = 0; i < RUNS; i++) {
		for (size_t p = v[i].first; p < v[i].first + v[i].pages && !err; p++)
			err = write_page(f, seed, p, round, v[i].mapped);
		if (err)
			return err;
		err = pgw_ranges_add(&set, v[i].first * f->page, v[i].pages * f->page);
		if (err)
			return fail("pgw_ranges_add", -err);
	}
	err = write_page(f, seed, other, round, false);
	if (err || !sync)
		return err;
	err = pgw_sync(sync, &set, &rep);
	if (err)
		return fail("pgw_sync", -err);
	sum->ranges += rep.ranges;
	sum->range_bytes += rep.range_bytes;
	sum->sync_file_range_calls += rep.sync_file_range_calls;
	sum->msync_calls += rep.msync_calls;
	sum->fdatasync_calls += rep.fdatasync_calls;
	sum->barriers += rep.barriers;
	return 0;
}

/* Holes stay holes: the disk is far larger than what is on it. */
static int snapshot(const char *from, const char *to)
{
	static char buf[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct stat st;
	off_t at = 0, end;

	if (in < 0 || out < 0 || fstat(in, &st) || ftruncate(out, st.st_size))
		return fail(from, errno);
	while ((at = lseek(in, at, SEEK_DATA)) >= 0) {
		end = lseek(in, at, SEEK_HOLE);
		while (at < end) {
			size_t n =
			    sizeof buf < (size_t)(end - at) ? sizeof buf : (size_t)(end - at);
			ssize_t r = pread(in, buf, n, at);

			if (r <= 0 || pwrite(out, buf, (size_t)r, at) != r)
				return fail(to, errno);
			at += r;
		}
	}
	if (errno != ENXIO) /* no data behind at */
		return fail(from, errno);
	(void)close(in);
	return close(out) ? fail(to, errno) : 0;
}

static int cmd_write(
    const char *path, uint64_t seed, const char *strategy, const char *disk, const char *copy)
{
	struct pgw_sync_report sum = { 0 };
	struct pgw_sync_file sync;
	enum pgw_sync_strategy want;
	bool none = !strcmp(strategy, "none");
	struct rng rng = { seed };
	static struct file f; /* held to the end of the process: no leak */
	int err;

	if (!none && pgw_sync_strategy_parse(strategy, &want))
		return fail(strategy, EINVAL);
	if (open_new(&f, path, seed))
		return 1;
	if (!none) {
		err = pgw_sync_init(&sync, f.fd, f.map, MAPPED * f.page, want);
		if (err)
			return fail("pgw_sync_init", -err);
	}
	for (unsigned round = 1; round <= ROUNDS; round++)
		if (write_round(&f, seed, &rng, round, none ? NULL : &sync, &sum))
			return 1;
	printf("{\"asked\": \"%s\", \"fs\": \"%s\", \"strategy\": \"%s\", \"reason\": \"%s\", "
	       "\"no_barrier\": %s, ",
	    strategy, none ? "" : sync.fs, none ? "none" : pgw_sync_strategy_name(sync.strategy),
	    none ? "the control: nothing is synced" : sync.reason,
	    !none && sync.no_barrier ? "true" : "false");
	printf("\"rounds\": %d, \"ranges\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"sync_file_range\": %" PRIu64 ", \"msync\": %" PRIu64 ", \"fdatasync\": %" PRIu64
	       ", \"barriers\": %" PRIu64 "}\n",
	    ROUNDS, sum.ranges, sum.range_bytes, sum.sync_file_range_calls, sum.msync_calls,
	    sum.fdatasync_calls, sum.barriers);
	return disk ? snapshot(disk, copy) : 0;
}

static int cmd_check(const char *path, uint64_t seed)
{
	size_t page = pgw_page_size(), missing = 0, synced = 0, others = 0, along = 0;
	static unsigned char got[PAGE_MAX], want[PAGE_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct history h;

	if (fd < 0)
		return fail(path, errno);
	replay(seed, &h);
	for (size_t i = 0; i < PAGES; i++) {
		unsigned round = h.synced[i] ? h.synced[i] : h.other[i];
		bool same;

		if (!round)
			continue;
		fill(want, page, seed, i, round);
		same = pread(fd, got, page, (off_t)(i * page)) == (ssize_t)page &&
		       !memcmp(got, want, page);
		synced += h.synced[i] != 0;
		missing += h.synced[i] && !same;
		others += !h.synced[i];
		along += !h.synced[i] && same;
	}
	printf("{\"synced\": %zu, \"missing\": %zu, \"others\": %zu, \"came_along\": %zu}\n",
	    synced, missing, others, along);
	(void)close(fd);
	return missing ? EXIT_WANTING : 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;

	if (pgw_page_size() > PAGE_MAX)
		return fail("the page size", ENOTSUP);
	if ((argc == 5 || argc == 7) && !strcmp(argv[1], "write"))
		return cmd_write(argv[2], seed, argv[4], argv[5], argc == 7 ? argv[6] : NULL);
	if (argc == 4 && !strcmp(argv[1], "check"))
		return cmd_check(argv[2], seed);
	fprintf(stderr, "usage: syncranges write FILE SEED STRATEGY [DISK COPY] | "
			"check FILE SEED\n");
	return 2;
}
