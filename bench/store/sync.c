/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sync.c - what one checkpoint, or one commit, writes and waits for.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Checkpoints are made when they are asked for: ms, and MiB. */
#define NEVER 1000000

/* Transactions of one record in a checkpoint. */
#define COMMITS 500

/* Bytes written to the device of the subject's file so far; negative: it has no counters. Of all that
 * use the device, so what it gives is a median of short moments. */
static double device_bytes(const struct subject *s)
{
	unsigned long long sectors = 0;
	char path[600];
	struct stat st;
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/data.mdb", s->dir);
	if (stat(path, &st))
		return -1;
	snprintf(
	    path, sizeof(path), "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fscanf(f, "%*s %*s %*s %*s %*s %*s %llu", &sectors);
	fclose(f);
	return n == 1 ? (double)sectors * 512 : -1;
}

static void commit_random(struct subject *s, unsigned commits, uint64_t *random)
{
	MDB_txn *txn;

	for (unsigned i = 0; i < commits; i++) {
		check(s, s->api->txn_begin(s->env, NULL, 0, &txn), "begin");
		put(s, txn, next_random(random) % bench.records, 0, random);
		check(s, s->api->txn_commit(txn), "commit");
	}
}

static double live_bytes(struct subject *s)
{
	struct pgw_env_stats st;

	check(s, pgw.env_stats(s->env, &st) ? EINVAL : 0, "statistics");
	return (double)st.live_bytes;
}

/* Bytes that reached the device for COMMITS transactions; the store's own count in *live. */
static double checkpoint_bytes(struct subject *s, double *live, uint64_t *random)
{
	double before, counted = s->mode == RELAXED ? live_bytes(s) : 0;
	MDB_txn *reader = NULL;

	if (s->mode == PINNED) /* as a checkpoint has one: pages are not recycled before it */
		check(s, s->api->txn_begin(s->env, NULL, MDB_RDONLY, &reader), "reader");
	commit_random(s, COMMITS, random);
	if (reader)
		s->api->txn_abort(reader);
	before = device_bytes(s);
	subject_settle(s);
	before = device_bytes(s) - before;
	*live = s->mode == RELAXED ? live_bytes(s) - counted : 0;
	return before;
}

void measure_bytes(void)
{
	struct subject ours = { .mode = RELAXED, .interval = NEVER }, peer = { .mode = PINNED };
	double written[MAX_ROUNDS], theirs[MAX_ROUNDS], share[MAX_ROUNDS], live, none;
	uint64_t random = 4711;

	subject_create(&ours);
	subject_create(&peer);
	if (device_bytes(&ours) < 0) {
		fprintf(
		    stderr, "bench-store: bytes: no counters of the device in /sys/dev/block\n");
	} else {
		for (unsigned i = 0; i < bench.rounds; i++) {
			written[i] = checkpoint_bytes(&ours, &live, &random);
			share[i] = live > 0 ? written[i] / live : 0;
			theirs[i] = checkpoint_bytes(&peer, &none, &random);
		}
		report_line("bytes", "a checkpoint, over its live pages", "MiB",
		    quantile(written, bench.rounds, 0.5) / (1 << 20), "fdatasync",
		    quantile(theirs, bench.rounds, 0.5) / (1 << 20),
		    quantile(share, bench.rounds, 0.5), AT_MOST, 1.1);
	}
	subject_destroy(&ours);
	subject_destroy(&peer);
}

/* --- a checkpoint beside a transaction that has stored into the map --- */

/* By msync of the map in liblmdb, and by fdatasync. */
static void sync_file(struct subject *s, bool whole_file)
{
	int fd;

	if (!whole_file) {
		subject_settle(s);
		return;
	}
	check(s, s->api->env_get_fd(s->env, &fd), "descriptor");
	check(s, fdatasync(fd) ? errno : 0, "fdatasync");
}

/* Milliseconds of a sync while the pages of an open transaction are dirty. */
static double sync_beside(struct subject *s, bool whole_file, uint64_t *random)
{
	uint64_t key = UINT64_MAX;
	MDB_val k = { sizeof(key), &key }, v = { (size_t)bench.mib << 20, NULL };
	double start;
	MDB_txn *txn;

	commit_random(s, 64, random);
	check(s, s->api->txn_begin(s->env, NULL, 0, &txn), "begin");
	check(s, s->api->put(txn, s->dbi, &k, &v, MDB_RESERVE), "reserve");
	memset(v.mv_data, (int)next_random(random), v.mv_size);
	start = now_us();
	sync_file(s, whole_file);
	start = (now_us() - start) / 1e3;
	s->api->txn_abort(txn);
	sync_file(s, true); /* what was left */
	return start;
}

static void report_beside(const char *peer, const double *ours, const double *theirs)
{
	double q[MAX_ROUNDS], a[MAX_ROUNDS], b[MAX_ROUNDS];
	char what[64];

	for (unsigned i = 0; i < bench.rounds; i++) {
		a[i] = ours[i];
		b[i] = theirs[i];
		q[i] = theirs[i] / ours[i];
	}
	snprintf(what, sizeof(what), "a checkpoint beside %u MiB of others", bench.mib);
	report_line("foreign", what, "ms", quantile(a, bench.rounds, 0.5), peer,
	    quantile(b, bench.rounds, 0.5), quantile(q, bench.rounds, 0.5), AT_LEAST, 2.5);
}

void measure_foreign(void)
{
	struct subject ours = { .mode = RELAXED, .flags = MDB_WRITEMAP, .interval = NEVER };
	struct subject peer = { .mode = NOSYNC, .flags = MDB_WRITEMAP };
	double a[MAX_ROUNDS], map[MAX_ROUNDS], file[MAX_ROUNDS];
	uint64_t random = 4711;

	subject_create(&ours);
	subject_create(&peer);
	/* Blocks are allocated by the first. */
	(void)sync_beside(&ours, false, &random);
	(void)sync_beside(&peer, false, &random);
	for (unsigned i = 0; i < bench.rounds; i++) {
		a[i] = sync_beside(&ours, false, &random);
		map[i] = sync_beside(&peer, false, &random);
		file[i] = sync_beside(&peer, true, &random);
	}
	report_beside("msync of the map", a, map);
	report_beside("fdatasync", a, file);
	subject_destroy(&ours);
	subject_destroy(&peer);
}

/* --- the cost of a commit by the size of the map --- */

static void measure_extent_of(unsigned flags, const char *what)
{
	static const struct load l = { .threads = 1, .batch = 1 };
	double q[2][MAX_ROUNDS];
	struct subject s[2][2];

	for (int ours = 0; ours < 2; ours++)
		for (int big = 0; big < 2; big++) {
			s[ours][big] = (struct subject){ .mode = ours ? STRICT : DURABLE,
				.flags = flags,
				.map = (size_t)(big ? 32 : 1) << 30 };
			subject_create(&s[ours][big]);
		}
	for (unsigned i = 0; i < bench.rounds; i++)
		for (int ours = 0; ours < 2; ours++) {
			double rate[2];

			/* Each first in turn: a round warms the disk for the next. */
			rate[i % 2] = load_run(&s[ours][i % 2], &l).rate;
			rate[!(i % 2)] = load_run(&s[ours][!(i % 2)], &l).rate;
			q[ours][i] = rate[0] / rate[1];
		}
	for (int i = 0; i < 4; i++)
		subject_destroy(&s[i / 2][i % 2]);
	report_line("extent", what, "32 GiB over 1 GiB", quantile(q[1], bench.rounds, 0.5),
	    mode_name(DURABLE), quantile(q[0], bench.rounds, 0.5),
	    quantile(q[1], bench.rounds, 0.5), AT_MOST, 1.1);
}

void measure_extent(void)
{
	measure_extent_of(0, "a commit");
	measure_extent_of(MDB_WRITEMAP, "a commit, WRITEMAP");
}
