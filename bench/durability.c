/* SPDX-License-Identifier: BSD-2-Clause
 *
 * durability.c - commits per second by durability, threads, and records in a transaction.
 *
 * usage: bench-durability [--json] [--dir=DIR] [--records=N] [--batch=N] [--threads=N,...]
 *                         [--ms=N] [--rounds=N] [--writemap] STORE
 *
 * STORE is libpagewise-store.so; the peer is the system's liblmdb.so.0, beside it in this process.
 * Peers: liblmdb durable; with MDB_NOSYNC; and with MDB_NOSYNC while a reader pins a snapshot for 100
 * ms at a time, which is what any scheme pays that keeps one. Rounds are interleaved, so that a busy
 * disk is busy for all; the rate is the median of the rounds.
 *
 * With more than one thread, one of them is the probe: its single commits are timed one by one while
 * the others write --batch records each: "p99" is its 99th percentile.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/store.h>

#include "lmdb_api.h"

#define VALUE_BYTES 200
#define MAX_THREADS 256
#define MAX_COUNTS  8
#define MAX_ROUNDS  64
#define MAX_SAMPLES 100000

enum mode { DURABLE, NOSYNC, PINNED, STRICT, GROUP, RELAXED, MODES };

static const struct {
	const char *library, *name;
	bool store;
	unsigned flags;
	enum pgw_durability durability;
} modes[MODES] = {
	[DURABLE] = { "liblmdb", "durable", false, 0, PGW_DURABILITY_STRICT },
	[NOSYNC] = { "liblmdb", "nosync", false, MDB_NOSYNC, PGW_DURABILITY_STRICT },
	[PINNED] = { "liblmdb", "nosync+pin", false, MDB_NOSYNC, PGW_DURABILITY_STRICT },
	[STRICT] = { "store", "strict", true, 0, PGW_DURABILITY_STRICT },
	[GROUP] = { "store", "group", true, 0, PGW_DURABILITY_GROUP },
	[RELAXED] = { "store", "relaxed", true, 0, PGW_DURABILITY_RELAXED },
};

static struct {
	bool json;
	const char *dir;
	uint64_t records;
	unsigned batch, ms, rounds, flags;
	unsigned threads[MAX_COUNTS], counts;
} bench = { .dir = ".",
	.records = 100000,
	.batch = 1,
	.ms = 1000,
	.rounds = 3,
	.threads = { 1 },
	.counts = 1 };

static __typeof__(pgw_env_stats) *env_stats;
static __typeof__(pgw_env_attach) *env_attach;
static __typeof__(pgw_env_options_init) *options_init;

struct cell {
	enum mode mode;
	unsigned threads;
	const struct lmdb_api *api;
	MDB_env *env;
	MDB_dbi dbi;
	char dir[512];
	double rate[MAX_ROUNDS];
	unsigned rounds;
	uint64_t commits, barriers, checkpoints, live_bytes;
	double *us; /* of the probe's commits */
	size_t n;
};

struct worker {
	struct cell *cell;
	pthread_t thread;
	uint64_t random, commits;
	unsigned batch;
	bool probe;
};

static _Atomic bool stop;

static void check(const struct cell *c, int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "bench-durability: %s %s: %s: %s\n", modes[c->mode].library,
	    modes[c->mode].name, what, c->api->strerror(rc));
	exit(EXIT_FAILURE);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void put_random(struct cell *c, MDB_txn *txn, uint64_t key, uint64_t *random)
{
	uint64_t value[VALUE_BYTES / 8];
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };

	for (size_t i = 0; i < sizeof(value) / sizeof(*value); i++)
		value[i] = next_random(random);
	check(c, c->api->put(txn, c->dbi, &k, &v, 0), "put");
}

static void commit_some(struct worker *w)
{
	struct cell *c = w->cell;
	MDB_txn *txn;

	check(c, c->api->txn_begin(c->env, NULL, 0, &txn), "begin");
	for (unsigned i = 0; i < w->batch; i++)
		put_random(c, txn, next_random(&w->random) % bench.records, &w->random);
	check(c, c->api->txn_commit(txn), "commit");
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		double start = now_us();

		commit_some(w);
		w->commits++;
		if (w->probe && w->cell->n < MAX_SAMPLES)
			w->cell->us[w->cell->n++] = now_us() - start;
	}
	return NULL;
}

/* Let the time of a round pass; with a pin, move it. */
static void pass_time(struct cell *c)
{
	const struct timespec ms100 = { .tv_nsec = 100000000 };
	double end = now_us() + bench.ms * 1e3;

	while (now_us() < end) {
		double left = end - now_us();
		struct timespec t = ms100;
		MDB_txn *reader = NULL;

		if (left < 1e5)
			t.tv_nsec = left > 0 ? (long)(left * 1e3) : 0;
		if (c->mode == PINNED)
			check(c, c->api->txn_begin(c->env, NULL, MDB_RDONLY, &reader), "reader");
		nanosleep(&t, NULL);
		if (reader)
			c->api->txn_abort(reader);
	}
}

static void round_of(struct cell *c)
{
	static struct worker w[MAX_THREADS];
	struct pgw_env_stats before = { 0 }, after = { 0 };
	uint64_t commits = 0;
	double start;

	if (modes[c->mode].store)
		(void)env_stats(c->env, &before);
	atomic_store(&stop, false);
	start = now_us();
	for (unsigned i = 0; i < c->threads; i++) {
		w[i] = (struct worker){ .cell = c,
			.random = 88172645463325252u + i * 7919u + c->rounds,
			.probe = !i,
			.batch = i || c->threads == 1 ? bench.batch : 1 };
		if (pthread_create(&w[i].thread, NULL, work, &w[i])) {
			perror("bench-durability: thread");
			exit(EXIT_FAILURE);
		}
	}
	pass_time(c);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < c->threads; i++) {
		pthread_join(w[i].thread, NULL);
		commits += w[i].commits;
	}
	c->rate[c->rounds++] = (double)commits * 1e6 / (now_us() - start);
	if (modes[c->mode].store)
		(void)env_stats(c->env, &after);
	c->commits += commits;
	c->barriers += after.barriers - before.barriers;
	c->checkpoints += after.checkpoints - before.checkpoints;
	c->live_bytes += after.live_bytes - before.live_bytes;
	check(c, c->api->env_sync(c->env, 1), "sync"); /* the next one begins with a clean file */
}

static void attach(struct cell *c)
{
	struct pgw_env_options o;

	options_init(&o);
	o.durability = modes[c->mode].durability;
	check(c, env_attach(c->env, &o), "attach");
}

static void set_up(struct cell *c)
{
	uint64_t random = 1;
	MDB_txn *txn;

	snprintf(c->dir, sizeof(c->dir), "%s/bench-durability-%d-%d-%u", bench.dir, (int)getpid(),
	    c->mode, c->threads);
	c->us = malloc(MAX_SAMPLES * sizeof(*c->us));
	if (!c->us || mkdir(c->dir, 0700)) {
		perror(c->dir);
		exit(EXIT_FAILURE);
	}
	check(c, c->api->env_create(&c->env), "create");
	check(c, c->api->env_set_mapsize(c->env, (size_t)8 << 30), "set_mapsize");
	check(c, c->api->env_set_maxreaders(c->env, MAX_THREADS + 8), "set_maxreaders");
	check(
	    c, c->api->env_open(c->env, c->dir, modes[c->mode].flags | bench.flags, 0600), c->dir);
	if (modes[c->mode].store)
		attach(c);
	check(c, c->api->txn_begin(c->env, NULL, 0, &txn), "begin");
	check(c, c->api->dbi_open(txn, NULL, MDB_INTEGERKEY, &c->dbi), "dbi_open");
	for (uint64_t i = 0; i < bench.records; i++)
		put_random(c, txn, i, &random);
	check(c, c->api->txn_commit(txn), "commit");
	check(c, c->api->env_sync(c->env, 1), "sync");
}

static void tear_down(struct cell *c)
{
	char path[600];

	c->api->env_close(c->env);
	snprintf(path, sizeof(path), "%s/data.mdb", c->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock.mdb", c->dir);
	unlink(path);
	rmdir(c->dir);
	free(c->us);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[(size_t)((double)(n - 1) * q)];
}

static double file_mib(const struct cell *c)
{
	char path[600];
	struct stat st;

	snprintf(path, sizeof(path), "%s/data.mdb", c->dir);
	return stat(path, &st) ? 0 : (double)st.st_size / (1 << 20);
}

static double rate(struct cell *c)
{
	return quantile(c->rate, c->rounds, 0.5);
}

static void print_row(struct cell *c, bool first)
{
	double per_checkpoint = c->checkpoints ? (double)c->live_bytes / (double)c->checkpoints : 0;
	double barriers = c->commits ? (double)c->barriers / (double)c->commits : 0;

	printf(bench.json ? "%s{\"library\":\"%s\",\"mode\":\"%s\",\"threads\":%u,"
			    "\"commits_per_s\":%.0f,\"barriers_per_commit\":%.4f,"
			    "\"live_bytes_per_checkpoint\":%.0f,\"file_mib\":%.1f,"
			    "\"p99_us\":%.0f}"
			  : "%s%-8s %-11s %7u %12.0f %9.4f %12.0f %9.1f %9.0f\n",
	    bench.json && !first ? "," : "", modes[c->mode].library, modes[c->mode].name,
	    c->threads, rate(c), barriers, per_checkpoint, file_mib(c),
	    quantile(c->us, c->n, 0.99));
}

/* What one mode reaches of another, with the same threads. */
static void print_ratio(struct cell cells[][MODES], enum mode a, enum mode b, bool first)
{
	for (unsigned i = 0; i < bench.counts; i++) {
		double ratio = rate(&cells[i][a]) / rate(&cells[i][b]);

		printf(bench.json ? "%s{\"of\":\"%s\",\"to\":\"%s\",\"threads\":%u,\"ratio\":%.3f}"
				  : "%s%s / %s, %u threads: %.2f\n",
		    bench.json && !(first && !i) ? "," : "", modes[a].name, modes[b].name,
		    bench.threads[i], ratio);
	}
}

static void print(struct cell cells[][MODES])
{
	if (bench.json)
		printf("{\"records\":%" PRIu64 ",\"batch\":%u,\"writemap\":%s,\"rows\":[",
		    bench.records, bench.batch, bench.flags ? "true" : "false");
	else
		printf("%-8s %-11s %7s %12s %9s %12s %9s %9s\n", "library", "mode", "threads",
		    "commits/s", "barriers", "live/ckpt", "file MiB", "p99 us");
	for (unsigned i = 0; i < bench.counts; i++)
		for (int m = 0; m < MODES; m++)
			print_row(&cells[i][m], !i && !m);
	fputs(bench.json ? "],\"ratios\":[" : "\n", stdout);
	print_ratio(cells, STRICT, DURABLE, true);
	print_ratio(cells, GROUP, DURABLE, false);
	print_ratio(cells, RELAXED, DURABLE, false);
	print_ratio(cells, RELAXED, PINNED, false);
	print_ratio(cells, RELAXED, NOSYNC, false);
	fputs(
	    bench.json ? "]}\n" : "(barriers: of one commit, counted in the store only)\n", stdout);
}

static bool parse_threads(char *text)
{
	bench.counts = 0;
	for (char *s = strtok(text, ","); s; s = strtok(NULL, ",")) {
		unsigned n = (unsigned)strtoul(s, NULL, 0);

		if (!n || n > MAX_THREADS || bench.counts == MAX_COUNTS)
			return false;
		bench.threads[bench.counts++] = n;
	}
	return bench.counts;
}

static bool parse_option(int o)
{
	switch (o) {
	case 'j':
		bench.json = true;
		return true;
	case 'd':
		bench.dir = optarg;
		return true;
	case 'n':
		bench.records = strtoull(optarg, NULL, 0);
		return bench.records;
	case 'b':
		bench.batch = (unsigned)strtoul(optarg, NULL, 0);
		return bench.batch;
	case 'm':
		bench.ms = (unsigned)strtoul(optarg, NULL, 0);
		return bench.ms;
	case 'r':
		bench.rounds = (unsigned)strtoul(optarg, NULL, 0);
		return bench.rounds && bench.rounds <= MAX_ROUNDS;
	case 't':
		return parse_threads(optarg);
	case 'w':
		bench.flags = MDB_WRITEMAP;
		return true;
	default:
		return false;
	}
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "dir", required_argument, NULL, 'd' },
		{ "records", required_argument, NULL, 'n' },
		{ "batch", required_argument, NULL, 'b' },
		{ "ms", required_argument, NULL, 'm' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "threads", required_argument, NULL, 't' },
		{ "writemap", no_argument, NULL, 'w' },
		{ NULL, 0, NULL, 0 },
	};
	bool good = true;
	int o;

	while (good && (o = getopt_long(argc, argv, "", options, NULL)) != -1)
		good = parse_option(o);
	if (good && optind + 1 == argc)
		return;
	fprintf(stderr,
	    "usage: bench-durability [--json] [--dir=DIR] [--records=N] [--batch=N] "
	    "[--threads=N,...]\n"
	    "                        [--ms=N] [--rounds=N] [--writemap] libpagewise-store.so\n");
	exit(2);
}

static void load(struct lmdb_api *stock, struct lmdb_api *store, const char *path)
{
	const char *why;

	if (!lmdb_api_load_stock(stock, &why)) {
		fprintf(stderr, "bench-durability: liblmdb.so.0, the peer: %s\n", why);
		exit(77);
	}
	if (!lmdb_api_load(store, path, &why)) {
		fprintf(stderr, "bench-durability: %s: %s\n", path, why);
		exit(EXIT_FAILURE);
	}
	*(void **)&env_stats = dlsym(store->lib, "pgw_env_stats");
	*(void **)&env_attach = dlsym(store->lib, "pgw_env_attach");
	*(void **)&options_init = dlsym(store->lib, "pgw_env_options_init");
	if (!env_stats || !env_attach || !options_init) {
		fprintf(stderr, "bench-durability: %s is not libpagewise-store.so\n", path);
		exit(EXIT_FAILURE);
	}
}

int main(int argc, char **argv)
{
	static struct cell cells[MAX_COUNTS][MODES];
	struct lmdb_api stock, store;

	parse(argc, argv);
	load(&stock, &store, argv[optind]);
	for (unsigned i = 0; i < bench.counts; i++) {
		for (int m = 0; m < MODES; m++) {
			cells[i][m] = (struct cell){ .mode = (enum mode)m,
				.threads = bench.threads[i],
				.api = modes[m].store ? &store : &stock };
			set_up(&cells[i][m]);
		}
	}
	for (unsigned r = 0; r < bench.rounds; r++)
		for (unsigned i = 0; i < bench.counts; i++)
			for (int m = 0; m < MODES; m++)
				round_of(&cells[i][m]);
	print(cells);
	for (unsigned i = 0; i < bench.counts; i++)
		for (int m = 0; m < MODES; m++)
			tear_down(&cells[i][m]);
	return 0;
}
