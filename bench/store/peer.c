/* SPDX-License-Identifier: BSD-2-Clause
 *
 * peer.c - liblmdb and the store side by side in one process, and environments of both.
 *
 * liblmdb's barriers are counted in this program's own msync, fdatasync and pwrite, which it finds
 * before libc's.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct lmdb_api stock, store;
struct store_api pgw;

/* Pages of LMDB are not smaller on any system that this runs on. */
#define LEAST_PAGE 4096

static _Atomic uint64_t stock_barriers;

#define EXPORT __attribute__((visibility("default")))

static void count_barrier(bool is_one)
{
	if (is_one)
		atomic_fetch_add_explicit(&stock_barriers, 1, memory_order_relaxed);
}

EXPORT int msync(void *addr, size_t len, int flags)
{
	count_barrier(flags & MS_SYNC);
	return (int)syscall(SYS_msync, addr, len, flags);
}

EXPORT int fdatasync(int fildes)
{
	count_barrier(true);
	return (int)syscall(SYS_fdatasync, fildes);
}

/* By its plain name: where files may be large, the headers call it pwrite64. */
EXPORT ssize_t peer_pwrite(int fd, const void *buf, size_t len, off_t off) __asm__("pwrite");

/* What is synced by its write is a meta page, and of that the part in use only: the peer is not to pay for a
 * look at each page. */
ssize_t peer_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	count_barrier(len < LEAST_PAGE && (fcntl(fd, F_GETFL) & O_DSYNC));
	return syscall(SYS_pwrite64, fd, buf, len, off);
}

static void *store_symbol(const char *path, const char *name)
{
	void *p = dlsym(store.lib, name);

	if (p)
		return p;
	fprintf(stderr, "bench-store: %s is not libpagewise-store.so: it has no %s\n", path, name);
	exit(EXIT_FAILURE);
}

void peer_load(const char *path)
{
	const char *why;

	if (!lmdb_api_load_stock(&stock, &why)) {
		fprintf(stderr, "bench-store: liblmdb.so.0, the peer: %s\n", why);
		exit(77);
	}
	if (!lmdb_api_load(&store, path, &why)) {
		fprintf(stderr, "bench-store: %s: %s\n", path, why);
		exit(EXIT_FAILURE);
	}
	*(void **)&pgw.env_stats = store_symbol(path, "pgw_env_stats");
	*(void **)&pgw.env_attach = store_symbol(path, "pgw_env_attach");
	*(void **)&pgw.options_init = store_symbol(path, "pgw_env_options_init");
	*(void **)&pgw.checkpoint = store_symbol(path, "pgw_env_checkpoint");
}

static const struct {
	const char *name;
	bool store;
	unsigned flags;
	enum pgw_durability durability;
} modes[] = {
	[DURABLE] = { "stock durable", false, 0, PGW_DURABILITY_STRICT },
	[NOSYNC] = { "stock NOSYNC", false, MDB_NOSYNC, PGW_DURABILITY_STRICT },
	[PINNED] = { "stock NOSYNC and a pin", false, MDB_NOSYNC, PGW_DURABILITY_STRICT },
	[STRICT] = { "strict", true, 0, PGW_DURABILITY_STRICT },
	[GROUP] = { "group", true, 0, PGW_DURABILITY_GROUP },
	[RELAXED] = { "relaxed", true, 0, PGW_DURABILITY_RELAXED },
};

const char *mode_name(enum mode m)
{
	return modes[m].name;
}

void check(const struct subject *s, int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(
	    stderr, "bench-store: %s: %s: %s\n", mode_name(s->mode), what, s->api->strerror(rc));
	exit(EXIT_FAILURE);
}

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double quantile(double *v, size_t n, double q)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[(size_t)((double)(n - 1) * q)];
}

/* Values differ each time: a peer may skip writing what is there already. */
void put(struct subject *s, MDB_txn *txn, uint64_t key, unsigned flags, uint64_t *random)
{
	uint64_t value[VALUE_BYTES / 8];
	MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };

	for (size_t i = 0; i < sizeof(value) / sizeof(*value); i++)
		value[i] = next_random(random);
	check(s, s->api->put(txn, s->dbi, &k, &v, flags), "put");
}

static void attach(struct subject *s)
{
	struct pgw_env_options o;

	pgw.options_init(&o);
	o.durability = modes[s->mode].durability;
	if (s->interval) {
		o.checkpoint_ms = (unsigned)s->interval;
		o.checkpoint_bytes = s->interval << 20;
	}
	check(s, pgw.env_attach(s->env, &o), "attach");
}

static void fill(struct subject *s)
{
	uint64_t random = 88172645463325252u;
	MDB_txn *txn;

	check(s, s->api->txn_begin(s->env, NULL, 0, &txn), "begin");
	check(s, s->api->dbi_open(txn, NULL, MDB_INTEGERKEY, &s->dbi), "dbi_open");
	for (uint64_t i = 0; i < bench.records; i++)
		put(s, txn, i, 0, &random);
	check(s, s->api->txn_commit(txn), "commit");
	s->next_key = bench.records;
	subject_settle(s);
}

static void open_env(struct subject *s)
{
	s->api = modes[s->mode].store ? &store : &stock;
	check(s, s->api->env_create(&s->env), "create");
	check(s, s->api->env_set_mapsize(s->env, s->map ? s->map : (size_t)8 << 30), "mapsize");
	check(s, s->api->env_set_maxreaders(s->env, MAX_THREADS + 8), "maxreaders");
	check(s, s->api->env_open(s->env, s->dir, modes[s->mode].flags | s->flags, 0600), s->dir);
	if (modes[s->mode].store)
		attach(s);
}

void subject_create(struct subject *s)
{
	static unsigned number;

	snprintf(
	    s->dir, sizeof(s->dir), "%s/bench-store-%d-%u", bench.dir, (int)getpid(), number++);
	if (mkdir(s->dir, 0700)) {
		perror(s->dir);
		exit(EXIT_FAILURE);
	}
	open_env(s);
	fill(s);
}

void subject_reopen(struct subject *s, enum mode mode)
{
	MDB_txn *txn;

	s->api->env_close(s->env);
	s->mode = mode;
	open_env(s);
	check(s, s->api->txn_begin(s->env, NULL, MDB_RDONLY, &txn), "begin");
	check(s, s->api->dbi_open(txn, NULL, MDB_INTEGERKEY, &s->dbi), "dbi_open");
	check(s, s->api->txn_commit(txn), "commit");
}

void subject_destroy(struct subject *s)
{
	char path[600];

	s->api->env_close(s->env);
	snprintf(path, sizeof(path), "%s/data.mdb", s->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock.mdb", s->dir);
	unlink(path);
	rmdir(s->dir);
}

void subject_settle(struct subject *s)
{
	check(s, s->api->env_sync(s->env, 1), "sync");
}

uint64_t subject_barriers(struct subject *s)
{
	struct pgw_env_stats st;

	if (!modes[s->mode].store)
		return atomic_load(&stock_barriers);
	check(s, pgw.env_stats(s->env, &st) ? EINVAL : 0, "statistics");
	return st.barriers;
}

double subject_file_bytes(const struct subject *s)
{
	char path[600];
	struct stat st;

	snprintf(path, sizeof(path), "%s/data.mdb", s->dir);
	return stat(path, &st) ? 0 : (double)st.st_size;
}

double subject_live_bytes(struct subject *s)
{
	MDB_stat st;
	MDB_txn *txn;

	check(s, s->api->txn_begin(s->env, NULL, MDB_RDONLY, &txn), "reader");
	check(s, s->api->stat(txn, s->dbi, &st), "stat");
	s->api->txn_abort(txn);
	return (double)(st.ms_branch_pages + st.ms_leaf_pages + st.ms_overflow_pages) * st.ms_psize;
}
