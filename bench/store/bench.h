/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bench.h - what the measurements of the store share.
 *
 * A subject is an environment of one of the two libraries in one way of committing. A measurement
 * works on several subjects in turn, round after round, so that a neighbour who keeps the disk busy
 * disturbs all of them; what it reports is the median over the rounds of the quotient within a round.
 */
#ifndef PGW_BENCH_STORE_BENCH_H
#define PGW_BENCH_STORE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagewise/store.h>

#include "../lmdb_api.h"

#define VALUE_BYTES 200
#define MAX_ROUNDS  64
#define MAX_THREADS 256

struct settings {
	const char *dir;
	uint64_t records; /* in each environment */
	unsigned ms;	  /* of a round */
	unsigned rounds;
	unsigned mib; /* dirtied beside a checkpoint */
	bool json;
};

extern struct settings bench;

/* --- peer.c: the two libraries, and their environments --- */

extern struct lmdb_api stock, store;

/* Of the store only. */
struct store_api {
	__typeof__(pgw_env_stats) *env_stats;
	__typeof__(pgw_env_attach) *env_attach;
	__typeof__(pgw_env_options_init) *options_init;
	__typeof__(pgw_env_checkpoint) *checkpoint;
};

extern struct store_api pgw;

/* Both, or a message and the end: 77 where there is no liblmdb.so.0. path: libpagewise-store.so. */
void peer_load(const char *path);

enum mode {
	DURABLE, /* liblmdb */
	NOSYNC,
	PINNED, /* NOSYNC with a reader that keeps a snapshot for 100 ms at a time */
	STRICT, /* the store */
	GROUP,
	RELAXED
};

struct subject {
	enum mode mode;
	unsigned flags;	   /* of mdb_env_open, beside the mode's */
	size_t map;	   /* bytes; 0: 8 GiB */
	uint64_t interval; /* RELAXED: of checkpoints, ms and MiB; 0: the defaults */

	const struct lmdb_api *api;
	MDB_env *env;
	MDB_dbi dbi;
	char dir[512];
	uint64_t next_key; /* for appending */
};

const char *mode_name(enum mode m);

/* An environment of bench.records records, durable. Whatever fails ends the program. */
void subject_create(struct subject *s);
void subject_destroy(struct subject *s);

/* Close the environment and open the same file in another mode, in which it needs no recovery. */
void subject_reopen(struct subject *s, enum mode mode);

/* Everything on disk, so that the next one begins with a quiet file. */
void subject_settle(struct subject *s);

void check(const struct subject *s, int rc, const char *what);
void put(struct subject *s, MDB_txn *txn, uint64_t key, unsigned flags, uint64_t *random);

/* Barriers that were made for the environment; of liblmdb, by the whole program. */
uint64_t subject_barriers(struct subject *s);
double subject_file_bytes(const struct subject *s);
double subject_live_bytes(struct subject *s); /* pages of the records */

double now_us(void);
uint64_t next_random(uint64_t *x);
double quantile(double *v, size_t n, double q); /* sorts */

/* --- load.c --- */

struct load {
	unsigned threads;
	unsigned batch; /* records of a transaction */
	unsigned bulk;	/* not 0: a thread more, with transactions of so many records */
	bool append;
};

struct result {
	double rate;	 /* commits per second, without the bulk loader's */
	double barriers; /* of one commit */
	/* What the commits of the first thread took, until the next round. */
	const double *us;
	size_t n;
};

/* One round of a load. */
struct result load_run(struct subject *s, const struct load *l);

/* --- report.c --- */

enum sense { AT_LEAST, AT_MOST };

/* A line of the table: what was asked for and what was measured. peer: NULL if there is none. */
void report_line(const char *part, const char *what, const char *unit, double ours,
    const char *peer, double theirs, double value, enum sense sense, double target);
void report_disk(double median_us, double p90_us);
void report_end(void);

/* --- the measurements --- */

double measure_disk(void); /* what a barrier costs, microseconds */
void measure_null(void);   /* liblmdb against itself */
void measure_single(double barrier_us);
void measure_threads(void);
void measure_batch(void);
void measure_append(void);
void measure_latency(void);
void measure_bytes(void);
void measure_foreign(void);
void measure_extent(void);

#endif
