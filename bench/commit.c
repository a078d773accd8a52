/* SPDX-License-Identifier: BSD-2-Clause
 *
 * commit.c - the cost of one small durable commit, by size of the map.
 *
 * usage: bench-commit [--json] [--dir=DIR] [--records=N] [--commits=N] [--rounds=N] STORE
 *
 * STORE is libpagewise-store.so. The peer is the system's liblmdb.so.0; both are loaded side by side
 * and work on files of the same folder. Each of the eight environments (two libraries, writes and
 * MDB_WRITEMAP, maps of 1 and 32 GiB) is filled first; then rounds of commits of one record each are
 * interleaved. Times are medians of single commits. Barriers and bytes are counted: in the calls
 * that liblmdb makes to this program's own msync and fdatasync, and by the store's statistics.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <pagewise/store.h>

#include "lmdb_api.h"

#define VALUE_BYTES 100

struct counts {
	uint64_t barriers, bytes;
};

static struct counts peer; /* of liblmdb, since the program began */

struct cell {
	const char *library;
	const struct lmdb_api *api;
	bool store;
	bool writemap;
	unsigned gib;
	MDB_env *env;
	MDB_dbi dbi;
	char dir[512];
	double *us; /* of each commit */
	size_t n;
	struct counts counts;
};

static struct {
	bool json;
	const char *dir;
	uint64_t records;
	unsigned commits, rounds;
} bench = { .dir = ".", .records = 20000, .commits = 40, .rounds = 5 };

static __typeof__(pgw_env_stats) *env_stats;

/* What liblmdb calls: found before libc's, as the program is searched first. */
#define EXPORT __attribute__((visibility("default")))

EXPORT int msync(void *addr, size_t len, int flags)
{
	peer.bytes += flags & MS_SYNC ? len : 0;
	peer.barriers += flags & MS_SYNC ? 1 : 0;
	return (int)syscall(SYS_msync, addr, len, flags);
}

EXPORT int fdatasync(int fd)
{
	peer.barriers++;
	return (int)syscall(SYS_fdatasync, fd);
}

/* By its plain name: where files may be large, the headers call it pwrite64. */
EXPORT ssize_t peer_pwrite(int fd, const void *buf, size_t len, off_t off) __asm__("pwrite");

ssize_t peer_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	peer.barriers += fcntl(fd, F_GETFL) & O_DSYNC ? 1 : 0;
	return syscall(SYS_pwrite64, fd, buf, len, off);
}

static void check(const struct cell *c, int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "bench-commit: %s: %s: %s\n", c->library, what, c->api->strerror(rc));
	exit(EXIT_FAILURE);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static void put_random(struct cell *c, MDB_txn *txn)
{
	uint64_t key = next_random() % bench.records, value[VALUE_BYTES / 8];
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };

	for (size_t i = 0; i < sizeof(value) / sizeof(*value); i++)
		value[i] = next_random();
	check(c, c->api->put(txn, c->dbi, &k, &v, 0), "put");
}

static void fill(struct cell *c)
{
	MDB_txn *txn;

	check(c, c->api->txn_begin(c->env, NULL, 0, &txn), "begin");
	check(c, c->api->dbi_open(txn, NULL, MDB_INTEGERKEY, &c->dbi), "dbi_open");
	for (uint64_t i = 0; i < bench.records; i++)
		put_random(c, txn);
	check(c, c->api->txn_commit(txn), "commit");
}

static void set_up(struct cell *c)
{
	snprintf(c->dir, sizeof(c->dir), "%s/bench-commit-%d-%s-%s-%u", bench.dir, (int)getpid(),
	    c->store ? "store" : "liblmdb", c->writemap ? "map" : "write", c->gib);
	if (mkdir(c->dir, 0700)) {
		perror(c->dir);
		exit(EXIT_FAILURE);
	}
	c->us = calloc((size_t)bench.commits * bench.rounds, sizeof(*c->us));
	if (!c->us) {
		perror("bench-commit");
		exit(EXIT_FAILURE);
	}
	check(c, c->api->env_create(&c->env), "create");
	check(c, c->api->env_set_mapsize(c->env, (size_t)c->gib << 30), "set_mapsize");
	check(c, c->api->env_open(c->env, c->dir, c->writemap ? MDB_WRITEMAP : 0, 0600), c->dir);
	fill(c);
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

static struct counts counted(const struct cell *c)
{
	struct pgw_env_stats st;

	if (!c->store)
		return peer;
	if (env_stats(c->env, &st)) {
		fprintf(stderr, "bench-commit: the store has no statistics of its environment\n");
		exit(EXIT_FAILURE);
	}
	return (struct counts){ st.barriers, st.msync_bytes + st.sync_file_range_bytes };
}

static void round_of(struct cell *c)
{
	struct counts before = counted(c), after;

	for (unsigned i = 0; i < bench.commits; i++) {
		double start = now_us();
		MDB_txn *txn;

		check(c, c->api->txn_begin(c->env, NULL, 0, &txn), "begin");
		put_random(c, txn);
		check(c, c->api->txn_commit(txn), "commit");
		c->us[c->n++] = now_us() - start;
	}
	after = counted(c);
	c->counts.barriers += after.barriers - before.barriers;
	c->counts.bytes += after.bytes - before.bytes;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(struct cell *c, double q)
{
	qsort(c->us, c->n, sizeof(*c->us), by_value);
	return c->us[(size_t)((double)(c->n - 1) * q)];
}

static void print(struct cell *cells, size_t n)
{
	if (bench.json)
		printf("{\"records\":%" PRIu64 ",\"commits\":%u,\"rows\":[", bench.records,
		    bench.commits * bench.rounds);
	else
		printf("%-9s %-8s %7s %10s %10s %9s %14s\n", "library", "mode", "map GiB",
		    "median us", "90 % us", "barriers", "bytes synced");
	for (size_t i = 0; i < n; i++) {
		struct cell *c = &cells[i];
		double commits = (double)c->n;

		printf(bench.json ? "%s{\"library\":\"%s\",\"mode\":\"%s\",\"map_gib\":%u,"
				    "\"median_us\":%.1f,\"p90_us\":%.1f,\"barriers\":%.2f,"
				    "\"bytes\":%.0f}"
				  : "%s%-9s %-8s %7u %10.1f %10.1f %9.2f %14.0f\n",
		    bench.json && i ? "," : "", c->library, c->writemap ? "writemap" : "write",
		    c->gib, quantile(c, 0.5), quantile(c, 0.9),
		    (double)c->counts.barriers / commits, (double)c->counts.bytes / commits);
	}
	printf(bench.json ? "]}\n"
			  : "(barriers and bytes: of one commit; liblmdb syncs the file by "
			    "fdatasync where bytes are 0)\n");
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "dir", required_argument, NULL, 'd' },
		{ "records", required_argument, NULL, 'n' },
		{ "commits", required_argument, NULL, 'c' },
		{ "rounds", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'j')
			bench.json = true;
		else if (o == 'd')
			bench.dir = optarg;
		else if (o == 'n')
			bench.records = strtoull(optarg, NULL, 0);
		else if (o == 'c')
			bench.commits = (unsigned)strtoul(optarg, NULL, 0);
		else if (o == 'r')
			bench.rounds = (unsigned)strtoul(optarg, NULL, 0);
		else
			exit(2);
	}
	if (optind + 1 == argc && bench.records && bench.commits && bench.rounds)
		return;
	fprintf(stderr, "usage: bench-commit [--json] [--dir=DIR] [--records=N] [--commits=N] "
			"[--rounds=N] libpagewise-store.so\n");
	exit(2);
}

static void load(struct lmdb_api *stock, struct lmdb_api *store, const char *path)
{
	const char *why;

	if (!lmdb_api_load_stock(stock, &why)) {
		fprintf(stderr, "bench-commit: liblmdb.so.0, the peer: %s\n", why);
		exit(77);
	}
	if (!lmdb_api_load(store, path, &why)) {
		fprintf(stderr, "bench-commit: %s: %s\n", path, why);
		exit(EXIT_FAILURE);
	}
	*(void **)&env_stats = dlsym(store->lib, "pgw_env_stats");
	if (!env_stats) {
		fprintf(stderr, "bench-commit: %s is not libpagewise-store.so\n", path);
		exit(EXIT_FAILURE);
	}
}

int main(int argc, char **argv)
{
	struct lmdb_api stock, store;
	struct cell cells[8];
	size_t n = 0;

	parse(argc, argv);
	load(&stock, &store, argv[optind]);
	for (int map = 0; map < 2; map++)
		for (unsigned gib = 1; gib <= 32; gib += 31)
			for (int ours = 0; ours < 2; ours++)
				cells[n++] = (struct cell){ .library = ours ? "store" : "liblmdb",
					.api = ours ? &store : &stock,
					.store = ours,
					.writemap = map,
					.gib = gib };
	for (size_t i = 0; i < n; i++)
		set_up(&cells[i]);
	for (unsigned r = 0; r < bench.rounds; r++)
		for (size_t i = 0; i < n; i++)
			round_of(&cells[i]);
	print(cells, n);
	for (size_t i = 0; i < n; i++)
		tear_down(&cells[i]);
	return 0;
}
