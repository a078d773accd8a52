/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kill.c - a writer is killed at any moment, and so is the recovery after it, again and again.
 *
 *   test-checkpoint-kill AUDIT [ROUNDS [SEED]]
 *
 * A child writes transaction after transaction. Each sets a counter and some keys to its number; the
 * child notes in shared memory what was committed and what was promised to be durable. Afterwards
 * the counter c must be at least what was promised, every key must have the value it had at c, and
 * the auditor (tests/crash) must find nothing.
 *
 * In strict durability two processes write, and the one that lives on takes over LMDB's lock from the one
 * that was killed with it; in group and relaxed another process reads, before and after.
 *
 * Killing a process loses nothing of the page cache. What is lost when it is not trusted is shown by
 * telling the library that it cannot tell: then recovery restores a record.
 */
#include "util.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "../../store/identity.h"

enum { KEYS = 40, COUNTER = 1000, PER_TXN = 3, WRITERS = 3 };

static struct shared {
	_Atomic uint64_t committed; /* mdb_txn_commit has returned */
	_Atomic uint64_t promised;  /* durable by then */
	_Atomic uint64_t ticket;
} * shared;

static const char *audit;
static uint64_t seed = 1;
static unsigned rounds = 12;

static uint64_t random_below(uint64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % n;
}

/* The keys that transaction n sets. */
static uint32_t key_of(uint64_t n, unsigned i)
{
	return (uint32_t)((n * 2654435761u + i * 40503u) >> 7) % KEYS;
}

static int change(MDB_txn *txn, uint64_t n)
{
	char big[9000] = { 0 };
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, NULL, 0, &dbi);

	memcpy(big, &n, sizeof(n));
	for (unsigned i = 0; i <= PER_TXN && !rc; i++) {
		uint32_t key = i < PER_TXN ? key_of(n, i) : COUNTER;
		/* Sizes vary, so that pages and overflow runs come and go. */
		size_t size = i < PER_TXN ? 8 + (n * (i + 1) * 977) % (i ? 300 : 8900) : 8;
		MDB_val k = { sizeof(key), &key }, v = { size, big };

		rc = mdb_put(txn, dbi, &k, &v, 0);
	}
	return rc;
}

static uint64_t counter(MDB_env *env)
{
	return get(env, COUNTER);
}

static void raise_to(_Atomic uint64_t *p, uint64_t n)
{
	uint64_t now = atomic_load(p);

	while (now < n && !atomic_compare_exchange_weak(p, &now, n))
		;
}

struct life {
	const char *dir;
	struct spec spec;
	MDB_env *env;
};

static void *write_on(void *arg)
{
	struct life *l = arg;
	int rc = 0;

	while (!rc) {
		MDB_val k, v;
		uint32_t key = COUNTER;
		uint64_t n = 1;
		MDB_txn *txn;
		MDB_dbi dbi;

		rc = mdb_txn_begin(l->env, NULL, 0, &txn);
		if (rc)
			break;
		k = (MDB_val){ sizeof(key), &key };
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
		if (!rc && !mdb_get(txn, dbi, &k, &v)) {
			memcpy(&n, v.mv_data, sizeof(n));
			n++;
		}
		if (!rc)
			rc = change(txn, n);
		if (rc) {
			mdb_txn_abort(txn);
			break;
		}
		rc = mdb_txn_commit(txn);
		if (!rc && l->spec.durability != PGW_DURABILITY_RELAXED)
			raise_to(&shared->promised, n);
		if (!rc)
			raise_to(&shared->committed, n);
		if (!rc && n % 16 == 0) {
			rc = mdb_env_sync(l->env, 1);
			if (!rc)
				raise_to(&shared->promised, n);
		}
	}
	fprintf(stderr, "writer: %s\n", mdb_strerror(rc));
	_exit(3);
}

static int live(void *arg)
{
	struct life *l = arg;
	int rc = try_open(l->dir, l->spec, &l->env);
	pthread_t thread;

	if (rc) {
		fprintf(stderr, "open: %s\n", mdb_strerror(rc));
		return 3;
	}
	for (int i = 1; i < WRITERS; i++)
		if (pthread_create(&thread, NULL, write_on, l))
			return 3;
	write_on(l);
	return 3;
}

static pid_t start(int (*body)(void *arg), void *arg)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(body(arg));
	assert_true(pid > 0);
	return pid;
}

/* Kill the child after some time, if it still runs: true. */
static bool kill_after(pid_t pid, uint64_t max_us)
{
	uint64_t us = random_below(max_us);
	const struct timespec t = { .tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000) * 1000 };
	int status;

	nanosleep(&t, NULL);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

static bool run_and_kill(int (*body)(void *arg), void *arg, uint64_t max_us)
{
	return kill_after(start(body, arg), max_us);
}

static int recovers(void *arg)
{
	int rc = pgw_env_recover(arg, 0, NULL);

	if (rc)
		fprintf(stderr, "recover: %s\n", mdb_strerror(rc));
	return rc ? 3 : 0;
}

/* What transaction c left. */
static void expect(uint64_t c, uint64_t expected[KEYS])
{
	memset(expected, 0, KEYS * sizeof(*expected));
	for (uint64_t n = 1; n <= c; n++)
		for (unsigned i = 0; i < PER_TXN; i++)
			expected[key_of(n, i)] = n;
}

static void check_content(MDB_env *env, uint64_t c)
{
	uint64_t expected[KEYS];

	expect(c, expected);
	for (uint32_t k = 0; k < KEYS; k++)
		assert_int_equal(get(env, k), expected[k]);
}

static void check(const char *dir, struct spec s, bool trusted)
{
	uint64_t c, promised = atomic_load(trusted ? &shared->committed : &shared->promised);
	MDB_env *env;

	OK(pgw_env_recover(dir, 0, NULL));
	if (run("%s %s", audit, data_file(dir)))
		fail_msg("the auditor complains: %s %s", audit, data_file(dir));
	s.durability = PGW_DURABILITY_STRICT;
	env = open_env(dir, s);
	c = counter(env);
	if (c < promised)
		fail_msg("transaction %lu is found, %lu was promised", c, promised);
	check_content(env, c);
	mdb_env_close(env);
	/* What is there now is durable. */
	atomic_store(&shared->committed, c);
	atomic_store(&shared->promised, c);
}

static int (*examine)(int fd, struct pgw__identity *out);

static int no_unique_mount(int fd, struct pgw__identity *out)
{
	int rc = examine(fd, out);

	if (!rc)
		out->mount = 0;
	return rc;
}

static void kill_again_and_again(const char *dir, struct spec s, bool trusted)
{
	struct life l = { .dir = dir, .spec = s };

	print_message("%s%s, page cache %s, seed %lu\n", pgw_durability_name(s.durability),
	    s.flags & MDB_WRITEMAP ? ", writemap" : "", trusted ? "trusted" : "not trusted", seed);
	atomic_store(&shared->committed, 0);
	atomic_store(&shared->promised, 0);
	pgw__identity_of = trusted ? examine : no_unique_mount;
	mdb_env_close(open_env(dir, s)); /* a file that can be recovered */
	for (unsigned i = 0; i < rounds; i++) {
		run_and_kill(live, &l, 60000);
		for (int again = 0; again < 3; again++)
			if (!run_and_kill(recovers, (void *)dir, 3000))
				break;
		check(dir, s, trusted);
	}
	pgw__identity_of = examine;
}

static uint64_t get_in(MDB_txn *txn, MDB_dbi dbi, uint32_t key)
{
	MDB_val k = { sizeof(key), &key }, v;
	uint64_t n = 0;

	if (!mdb_get(txn, dbi, &k, &v))
		memcpy(&n, v.mv_data, sizeof(n));
	return n;
}

/* Each snapshot is what one transaction left. */
static int read_snapshot(MDB_env *env)
{
	uint64_t expected[KEYS];
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		expect(get_in(txn, dbi, COUNTER), expected);
	for (uint32_t key = 0; key < KEYS && !rc; key++)
		if (get_in(txn, dbi, key) != expected[key])
			rc = MDB_CORRUPTED;
	mdb_txn_abort(txn);
	return rc;
}

/* Open it when the writer has it, and read on, also when the writer is gone. */
static int read_on(void *arg)
{
	const struct life *l = arg;
	const struct timespec moment = { .tv_nsec = 1000000 };
	uint64_t before = atomic_load(&shared->committed);
	MDB_env *env;
	int rc;

	while (atomic_load(&shared->committed) == before)
		nanosleep(&moment, NULL);
	rc = mdb_env_create(&env);
	if (!rc)
		rc = mdb_env_set_mapsize(env, 16u << 20);
	if (!rc)
		rc = mdb_env_open(env, l->dir, MDB_RDONLY, 0600);
	while (!rc)
		rc = read_snapshot(env);
	fprintf(stderr, "reader: %s\n", mdb_strerror(rc));
	return 3;
}

static void begin_rounds(const char *what, struct spec s)
{
	print_message("%s: %s%s, seed %lu\n", what, pgw_durability_name(s.durability),
	    s.flags & MDB_WRITEMAP ? ", writemap" : "", seed);
	atomic_store(&shared->committed, 0);
	atomic_store(&shared->promised, 0);
}

static void two_writers(const char *dir, struct spec s)
{
	struct life l = { .dir = dir, .spec = s };

	begin_rounds("two writers", s);
	mdb_env_close(open_env(dir, s));
	for (unsigned i = 0; i < rounds; i++) {
		pid_t one = start(live, &l), other = start(live, &l);

		kill_after(one, 40000);
		kill_after(other, 40000);
		check(dir, s, true);
	}
}

static void writer_and_reader(const char *dir, struct spec s)
{
	struct life l = { .dir = dir, .spec = s };

	begin_rounds("a writer and a reader", s);
	mdb_env_close(open_env(dir, s));
	for (unsigned i = 0; i < rounds; i++) {
		pid_t reader = start(read_on, &l);

		run_and_kill(live, &l, 60000);
		kill_after(reader, 20000);
		check(dir, s, false);
	}
}

static bool cache_can_be_trusted(const char *dir)
{
	struct pgw__identity id;
	FILE *f = fopen(data_file(dir), "w");
	bool can;

	assert_non_null(f);
	assert_int_equal(examine(fileno(f), &id), 0);
	can = id.mount;
	fclose(f);
	unlink(data_file(dir));
	return can;
}

static void in_mode(const char *dir, enum pgw_durability d, unsigned flags)
{
	struct spec s = { .durability = d, .flags = flags, .checkpoint_ms = 5 };

	kill_again_and_again(dir, s, false);
	OK(run("rm -f %s/*", dir));
	if (cache_can_be_trusted(dir))
		kill_again_and_again(dir, s, true);
	else
		print_message("no unique mount ids here: the page cache is never trusted\n");
}

CHECKPOINTED_MODE_TESTS

static void strict(void **state)
{
	two_writers(*state, (struct spec){ 0 });
}

static void strict_writemap(void **state)
{
	two_writers(*state, (struct spec){ .flags = MDB_WRITEMAP });
}

static void group_and_reader(void **state)
{
	writer_and_reader(*state, (struct spec){ .durability = PGW_DURABILITY_GROUP });
}

static void relaxed_and_reader(void **state)
{
	writer_and_reader(*state,
	    (struct spec){
		.durability = PGW_DURABILITY_RELAXED, .flags = MDB_WRITEMAP, .checkpoint_ms = 5 });
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(group),
		TEST(group_writemap),
		TEST(relaxed),
		TEST(relaxed_writemap),
		TEST(strict),
		TEST(strict_writemap),
		TEST(group_and_reader),
		TEST(relaxed_and_reader),
	};

	if (argc < 2) {
		fputs("usage: test-checkpoint-kill AUDIT [ROUNDS [SEED]]\n", stderr);
		return 2;
	}
	audit = argv[1];
	if (argc > 2)
		rounds = (unsigned)atoi(argv[2]);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 0);
	examine = pgw__identity_of;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
