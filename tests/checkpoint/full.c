/* SPDX-License-Identifier: BSD-2-Clause
 *
 * full.c - a full disk is ENOSPC, and the environment stays usable.
 *
 *   full DIR strict|group|relaxed plain|writemap [cow]
 *
 * DIR is on a small file system of its own (full.sh), which is filled through LMDB until it is full, in
 * one large transaction and in small ones; emptied again by deleting, and by removing a file that
 * has nothing to do with LMDB; and checked against a model all the time. Any other error, and SIGBUS,
 * is a failure. The data file is left for the auditor.
 *
 * cow: the file system takes a new block for each page that is written, also for the meta page. Then nothing can
 * be deleted before there is room. The environment must go on all the same; or, in relaxed, end, and be as it was
 * after one of its transactions, not before the last one that was called durable.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pagewise/store.h>

enum { KEYS = 40000, PER_TXN = 40, VALUE_MAX = 9000, COW_ROUNDS = 60, HISTORY = 1 << 16 };

static const char *dir;
static struct pgw_env_options options;
static MDB_env *env;
static uint32_t model[KEYS], pending[KEYS]; /* 0: not there; else decides the value */
static uint64_t history[HISTORY]; /* what the model was after a transaction, by its number */
static uint32_t counter;
static unsigned failures, ended;
static bool may_end; /* the environment may, where the disk is full */

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	fprintf(stderr, "full %s %s %s: ", dir, pgw_durability_name(options.durability),
	    options.flags & MDB_WRITEMAP ? "writemap" : "");
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static void ok(int rc, const char *what)
{
	if (rc)
		die("%s: %s (%d)", what, pgw_strerror(rc), rc);
}

static uint32_t random_below(uint32_t n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static size_t size_of(uint32_t seed)
{
	return seed % 7 ? 20 + seed % 300 : seed * 2654435761u % VALUE_MAX + 4;
}

static void fill_value(unsigned char *value, uint32_t seed)
{
	size_t n = size_of(seed);

	for (size_t i = 0; i < n; i++)
		value[i] = (unsigned char)(seed * 31 + i);
	memcpy(value, &seed, sizeof(seed)); /* size_of is not less */
}

static int set(MDB_txn *txn, MDB_dbi dbi, uint32_t key, uint32_t seed)
{
	static unsigned char value[VALUE_MAX + 8];
	MDB_val k = { sizeof(key), &key }, v = { size_of(seed), value };
	int rc;

	if (!seed) {
		rc = mdb_del(txn, dbi, &k, NULL);
	} else {
		fill_value(value, seed);
		rc = mdb_put(txn, dbi, &k, &v, 0);
	}
	if (!rc)
		pending[key] = seed;
	return rc;
}

static bool has_ended(void)
{
	struct pgw_env_stats s;

	ok(pgw_env_stats(env, &s), "stats");
	return s.failed;
}

/* NULL: the environment has ended. */
static MDB_txn *begin(MDB_dbi *dbi)
{
	MDB_txn *txn;
	int rc;

	rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc && may_end && has_ended())
		return NULL;
	ok(rc, "begin");
	ok(mdb_dbi_open(txn, NULL, 0, dbi), "dbi_open");
	memcpy(pending, model, sizeof(model));
	return txn;
}

static uint64_t digest_of(const uint32_t *m)
{
	uint64_t sum = 0;

	for (uint64_t key = 0; key < KEYS; key++)
		sum += m[key] ? ((key << 32 | m[key]) + 1) * 0x9e3779b97f4a7c15u >> 8 : 0;
	return sum;
}

/* Commit, or find that the disk is full. */
static int commit(MDB_txn *txn)
{
	int rc;

	/* Before: one that fails because the environment ends meanwhile may have been committed. */
	if (may_end)
		history[mdb_txn_id(txn) % HISTORY] = digest_of(pending);
	rc = mdb_txn_commit(txn);
	if (!rc)
		memcpy(model, pending, sizeof(model));
	return rc;
}

/* n random keys get new values, in one transaction. It is a put that fails (writable map), or the
 * commit; in either case the transaction is over, as LMDB has it. */
static int add(unsigned n)
{
	MDB_dbi dbi;
	MDB_txn *txn = begin(&dbi);
	int rc = 0;

	if (!txn)
		return MDB_PANIC;
	for (unsigned i = 0; i < n && !rc; i++)
		rc = set(txn, dbi, random_below(KEYS), ++counter);
	if (rc)
		mdb_txn_abort(txn);
	else
		rc = commit(txn);
	if (rc && rc != ENOSPC && !(may_end && has_ended()))
		die("%s (%d)", pgw_strerror(rc), rc);
	return rc;
}

static unsigned add_until_full(void)
{
	unsigned n = 0;

	while (!add(PER_TXN))
		if (++n > 100000)
			die("the disk does not get full");
	failures++;
	return n;
}

static bool has_value(MDB_txn *txn, MDB_dbi dbi, uint32_t key, uint32_t seed)
{
	static unsigned char value[VALUE_MAX + 8];
	MDB_val k = { sizeof(key), &key }, v;
	int rc = mdb_get(txn, dbi, &k, &v);

	if (rc != MDB_NOTFOUND)
		ok(rc, "get");
	if (rc)
		return false;
	fill_value(value, seed);
	return v.mv_size == size_of(seed) && !memcmp(v.mv_data, value, v.mv_size);
}

/* Is this what the environment holds? If not, *key is one that differs, or KEYS: there are others. */
static bool holds(const uint32_t *expected, uint32_t *key)
{
	size_t present = 0;
	bool good = true;
	MDB_stat st;
	MDB_txn *txn;
	MDB_dbi dbi;

	ok(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin to read");
	ok(mdb_dbi_open(txn, NULL, 0, &dbi), "dbi_open");
	ok(mdb_stat(txn, dbi, &st), "stat");
	for (*key = 0; *key < KEYS; ++*key) {
		if (!expected[*key])
			continue;
		present++;
		good = has_value(txn, dbi, *key, expected[*key]);
		if (!good)
			break;
	}
	mdb_txn_abort(txn);
	return good && st.ms_entries == present;
}

static void check(void)
{
	uint32_t key;

	if (!holds(model, &key))
		die("key %u is missing, has another value, or is one too many", key);
}

/* Delete half of the keys in small transactions. In a writable map each must succeed: there is room kept
 * for them. Without, a transaction that deletes may not find the few pages that it needs; on btrfs none
 * does, before there is room. False: so it was. */
static bool delete_half(void)
{
	uint32_t key = 0;
	bool all = true;

	while (key < KEYS) {
		MDB_dbi dbi;
		MDB_txn *txn = begin(&dbi);
		int rc;

		if (!txn)
			return false;
		for (unsigned i = 0; i < 8 && key < KEYS; key += 2)
			if (model[key]) {
				ok(set(txn, dbi, key, 0), "delete");
				i++;
			}
		rc = commit(txn);
		if (rc && may_end && has_ended())
			return false;
		if (rc != ENOSPC || options.flags & MDB_WRITEMAP)
			ok(rc, "commit of deletions");
		all = all && !rc;
	}
	return all;
}

static void open_it(void)
{
	ok(pgw_env_open(dir, &options, &env), "open");
}

static void one_large_transaction(void)
{
	MDB_dbi dbi;
	MDB_txn *txn = begin(&dbi);
	uint32_t key = 0;
	int rc = 0;

	while (!rc && key < KEYS)
		rc = set(txn, dbi, key++, ++counter);
	if (rc) {
		mdb_txn_abort(txn);
	} else {
		if (options.flags & MDB_WRITEMAP)
			die("the disk does not get full");
		rc = commit(txn);
	}
	if (rc != ENOSPC)
		die("a large transaction: %s (%d)", pgw_strerror(rc), rc);
	check();
}

static void write_file(const char *name, size_t size, int expect)
{
	static const char block[65536];
	char path[512];
	int fd, rc = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
	for (size_t done = 0; fd >= 0 && done < size && !rc; done += sizeof(block))
		rc = write(fd, block, sizeof(block)) < 0 ? errno : 0;
	if (fd < 0 || rc != expect)
		die("%s: %s", path, strerror(fd < 0 ? errno : rc));
	close(fd);
}

/* btrfs has what was removed back when it has committed that. */
static void give_back(void)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || syncfs(fd))
		die("syncfs: %s", strerror(errno));
	close(fd);
}

static int unlink_file(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (unlink(path))
		return errno;
	give_back();
	return 0;
}

static void remove_file(const char *name)
{
	int rc = unlink_file(name);

	if (rc)
		die("%s/%s: %s", dir, name, strerror(rc));
}

/* The lock file, too, is stored into through a map. */
static void open_on_a_full_disk(void)
{
	int rc;

	mdb_env_close(env);
	remove_file("lock.mdb");
	write_file("rest", SIZE_MAX, ENOSPC);
	rc = pgw_env_open(dir, &options, &env);
	if (rc && rc != ENOSPC)
		die("open on a full disk: %s (%d)", pgw_strerror(rc), rc);
	if (rc) {
		/* LMDB may have left an empty one. */
		(void)unlink_file("lock.mdb");
		remove_file("spare");
		open_it();
		write_file("rest", SIZE_MAX, ENOSPC);
	}
	check();
	(void)delete_half();
	check();
}

/* The number of transactions until the disk is full, of so many keys each: of one that is small the meta page is a
 * good part. */
static unsigned fill_up(unsigned keys)
{
	unsigned n = 0;

	while (!add(keys))
		n++;
	return n;
}

/* Leave room for so many pages. */
static void shorten_file(const char *name, unsigned pages)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (stat(path, &st) ||
	    (st.st_size > pages * 4096L && truncate(path, st.st_size - pages * 4096L)))
		die("%s: %s", path, strerror(errno));
	give_back();
}

/* The model is what the environment holds. */
static void load_model(void)
{
	MDB_cursor *cursor;
	MDB_val k, v;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	memset(model, 0, sizeof(model));
	ok(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin to read");
	ok(mdb_dbi_open(txn, NULL, 0, &dbi), "dbi_open");
	ok(mdb_cursor_open(txn, dbi, &cursor), "cursor_open");
	while (!(rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT))) {
		uint32_t key, seed;

		memcpy(&key, k.mv_data, sizeof(key));
		memcpy(&seed, v.mv_data, sizeof(seed));
		if (key >= KEYS || !has_value(txn, dbi, key, seed))
			die("key %u has a value that was never put", key);
		model[key] = seed;
	}
	if (rc != MDB_NOTFOUND)
		ok(rc, "next");
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
}

/* It is opened again, when there is room, and holds what one of its transactions left. */
static void open_what_is_left(void)
{
	MDB_envinfo info;
	uint64_t durable;

	ended++;
	ok(pgw_env_durable_txnid(env, &durable), "durable_txnid");
	mdb_env_close(env);
	(void)unlink_file("ballast");
	open_it();
	ok(mdb_env_info(env, &info), "info");
	if (info.me_last_txnid < durable)
		die("transaction %lu is found, %lu was durable", (unsigned long)info.me_last_txnid,
		    (unsigned long)durable);
	load_model();
	if (history[info.me_last_txnid % HISTORY] != digest_of(model))
		die("transaction %lu is found, and has not what it was committed with",
		    (unsigned long)info.me_last_txnid);
}

/* In relaxed, what is deleted is kept until the next checkpoint, so that deleting much can need more room than there
 * is; but a checkpoint, when there is some, gives it back. */
static bool deleting_makes_room(void)
{
	for (int i = 0; i < (may_end ? 10 : 1); i++) {
		if (delete_half() && !add(1))
			return true;
		if (may_end && pgw_env_checkpoint(env)) {
			if (!has_ended())
				die("a checkpoint fails, and the environment goes on");
			open_what_is_left();
		}
	}
	return false;
}

static void copied_on_write(void)
{
	unsigned n = 0;

	may_end = options.durability == PGW_DURABILITY_RELAXED;
	open_it();
	for (unsigned i = 0; i < COW_ROUNDS; i++) {
		n += fill_up(i & 1 ? 1 : PER_TXN);
		if (!has_ended())
			remove_file("ballast");
		else if (may_end)
			open_what_is_left();
		else
			die("the environment has failed");
		check();
		if (!deleting_makes_room())
			die("a file was removed, and that made no room");
		if (i == COW_ROUNDS - 1)
			break;
		write_file("ballast", SIZE_MAX, ENOSPC);
		shorten_file("ballast", random_below(32));
	}
	mdb_env_close(env);
	printf("%-7s cow      full %u times, %u transactions, ended %u times\n",
	    pgw_durability_name(options.durability), COW_ROUNDS, n, ended);
}

int main(int argc, char **argv)
{
	struct pgw_env_stats s;
	unsigned n;

	if (argc < 4)
		return 2;
	dir = argv[1];
	pgw_env_options_init(&options);
	while (strcmp(pgw_durability_name(options.durability), argv[2]))
		options.durability++;
	if (!strcmp(argv[3], "writemap"))
		options.flags = MDB_WRITEMAP;
	options.map_size = (size_t)1 << 30;
	options.checkpoint_ms = 20;

	write_file("ballast", 2u << 20, 0);
	if (argc > 4 && !strcmp(argv[4], "cow")) {
		copied_on_write();
		return 0;
	}
	write_file("spare", 1u << 20, 0);
	write_file("rest", 0, 0); /* xfs makes no new file on a full disk */
	open_it();
	one_large_transaction();
	n = add_until_full();
	check();
	for (int i = 0; i < 3; i++) {
		add_until_full();
		check();
	}
	if (delete_half() && add(PER_TXN))
		die("deleting made no room");
	check();
	n = add_until_full();
	check();
	remove_file("ballast");
	if (add_until_full() == 0)
		die("a file was removed, and that made no room");
	check();
	open_on_a_full_disk();
	remove_file("rest");
	if (!delete_half())
		die("a file was removed, and there is no room to delete");
	check();
	if (add(PER_TXN))
		die("deleting made no room");
	if (pgw_env_stats(env, &s) || s.failed)
		die("the environment has failed");
	mdb_env_close(env);
	printf(
	    "%-7s %-8s full %u times, %u transactions after deleting, space asked for %lu times\n",
	    argv[2], options.flags ? "writemap" : "", failures, n, (unsigned long)s.allocate_calls);
	return 0;
}
