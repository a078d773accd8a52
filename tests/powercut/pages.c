/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pages.c - pgw_sync on raw pages: what is acknowledged must be there after a cut.
 *
 * Each round writes some pages of a file (odd ones of its written part, some in a hole, some behind
 * its end) with the round's sequence number, dirties others that nobody asked for, syncs the ranges,
 * and acknowledges. Every sector of a page says which page and round it is of.
 */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagewise/sync.h>

#include "ack.h"
#include "disk.h" /* rng */
#include "sys.h"

#define PAGE	4096u
#define SECTOR	512u
#define WRITTEN 2048u /* pages with blocks of their own */
#define HOLE	1024u
#define ROOM	1024u /* the file grows into it */
#define ALL	(WRITTEN + HOLE + ROOM)
#define MAGIC	UINT64_C(0x7475637265776f70)

struct sector {
	uint64_t magic, seq, page, index;
	uint8_t fill[SECTOR - 32];
};

struct workload {
	int fd;
	uint8_t *map;
	bool mapped;
	bool no_sync;
	struct pgw_sync_file file;
	struct rng rng;
	uint64_t end; /* pages in the file */
};

static uint8_t fill_byte(uint64_t seq, uint64_t page, uint64_t index)
{
	return (uint8_t)(seq * 31 + page * 7 + index);
}

static void make_page(uint8_t *p, uint64_t seq, uint64_t page)
{
	for (uint64_t i = 0; i < PAGE / SECTOR; i++) {
		struct sector s = { MAGIC, seq, page, i, { 0 } };

		memset(s.fill, fill_byte(seq, page, i), sizeof(s.fill));
		memcpy(p + i * SECTOR, &s, sizeof(s));
	}
}

/* ---- the guest ---- */

static void store(struct workload *w, uint64_t page, uint64_t seq)
{
	uint8_t buf[PAGE];

	if (page >= w->end) {
		w->end = page + 1;
		if (w->mapped && ftruncate(w->fd, (off_t)(w->end * PAGE)))
			fail("ftruncate", errno);
	}
	make_page(buf, seq, page);
	if (w->mapped)
		memcpy(w->map + page * PAGE, buf, PAGE);
	else if (pwrite(w->fd, buf, PAGE, (off_t)(page * PAGE)) != PAGE)
		fail("pwrite", errno);
}

static void fsync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsync(fd))
		fail(path, errno);
	close(fd);
}

static void start(struct workload *w, const char *path)
{
	char *dir = strdup(path);

	w->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (w->fd < 0)
		fail(path, errno);
	w->map = mmap(NULL, (size_t)ALL * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (w->map == MAP_FAILED)
		fail("mmap", errno);
	for (uint64_t p = 0; p < WRITTEN; p++) {
		uint8_t buf[PAGE];

		make_page(buf, 0, p);
		if (write(w->fd, buf, PAGE) != PAGE)
			fail("write", errno);
	}
	w->end = WRITTEN + HOLE;
	if (ftruncate(w->fd, (off_t)(w->end * PAGE)) || fsync(w->fd))
		fail("fsync", errno);
	*strrchr(dir, '/') = '\0';
	fsync_path(dir);
	free(dir);
}

/* Like the real call, but write-out is never waited for. */
static int no_wait(int fd, uint64_t off, uint64_t len, unsigned flags)
{
	return pgw__sys_real.sync_file_range(fd, off, len, flags & SYNC_FILE_RANGE_WRITE);
}

static void choose(struct workload *w, const char *strategy)
{
	enum pgw_sync_strategy s = PGW_SYNC_WRITEOUT;
	int rc;

	w->no_sync = !strcmp(strategy, "none");
	if (!strcmp(strategy, "no-wait"))
		pgw__sys.sync_file_range = no_wait;
	else if (!w->no_sync && pgw_sync_strategy_parse(strategy, &s))
		fail(strategy, EINVAL);
	rc = pgw_sync_init(&w->file, w->fd, w->map, (uint64_t)ALL * PAGE, s);
	if (rc)
		fail("pgw_sync_init", -rc);
	printf("%s: %s (%s) on %s\n", strategy, pgw_sync_strategy_name(w->file.strategy),
	    w->file.reason, w->file.fs);
}

/* A page that this round did not take yet. */
static uint64_t pick(struct workload *w, uint64_t i, const uint64_t *taken)
{
	for (;;) {
		uint64_t p = i < 4   ? 1 + 2 * rng_below(&w->rng, WRITTEN / 2)
			     : i < 6 ? WRITTEN + rng_below(&w->rng, HOLE)
				     : w->end;
		bool again = false;

		for (uint64_t k = 0; k < i; k++)
			again |= taken[k] == p;
		if (!again)
			return p;
	}
}

static void one_round(struct workload *w, uint64_t seq)
{
	struct pgw_ranges ranges;
	uint64_t pages[8];
	int rc = 0;

	pgw_ranges_init(&ranges);
	for (int i = 0; i < 16; i++)
		store(w, 2 * rng_below(&w->rng, WRITTEN / 2), seq + 1);
	for (uint64_t i = 0; i < 8; i++) {
		pages[i] = pick(w, i, pages);
		store(w, pages[i], seq);
		rc = rc ? rc : pgw_ranges_add(&ranges, pages[i] * PAGE, PAGE);
	}
	if (!rc && !w->no_sync)
		rc = pgw_sync(&w->file, &ranges, NULL);
	if (rc)
		fail("pgw_sync", -rc);
	ack_send(ACK_PAGES, seq, NULL, pages, 8);
	pgw_ranges_finish(&ranges);
}

int pages_run(const char *path, const char *strategy, uint64_t seed, uint64_t rounds, bool mapped)
{
	struct workload w = { .mapped = mapped, .rng = { seed } };

	start(&w, path);
	choose(&w, strategy);
	ack_send(ACK_START, 0, NULL, NULL, 0);
	for (uint64_t seq = 1; seq <= rounds && w.end + 8 < ALL; seq++)
		one_round(&w, seq);
	return 0;
}

/* ---- outside ---- */

/* NULL, or what is wrong with a page that was acknowledged with seq. */
static const char *check_page(int fd, uint64_t page, uint64_t seq)
{
	uint8_t buf[PAGE];

	if (pread(fd, buf, PAGE, (off_t)(page * PAGE)) != PAGE)
		return "lies beyond the end of the file, or cannot be read";
	for (uint64_t i = 0; i < PAGE / SECTOR; i++) {
		struct sector s;

		memcpy(&s, buf + i * SECTOR, sizeof(s));
		if (s.magic != MAGIC)
			return "was never written, or is garbage";
		if (s.page != page || s.index != i)
			return "holds another page's content";
		if (s.seq < seq)
			return "is older than acknowledged";
		for (size_t k = 0; k < sizeof(s.fill); k++) {
			if (s.fill[k] != fill_byte(s.seq, page, i))
				return "is torn within a sector";
		}
	}
	return NULL;
}

int pages_check(const char *path)
{
	char line[64], *rest;
	int fd = open(path, O_RDONLY | O_CLOEXEC), bad = 0;

	if (fd < 0) {
		printf("the file is not there: %s\n", strerror(errno));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t page = strtoull(line, &rest, 10), seq = strtoull(rest, NULL, 10);
		const char *why = check_page(fd, page, seq);

		if (why && !bad++)
			printf("page %" PRIu64 " of round %" PRIu64 " %s\n", page, seq, why);
	}
	close(fd);
	if (bad > 1)
		printf("and %d pages more\n", bad - 1);
	return bad != 0;
}
