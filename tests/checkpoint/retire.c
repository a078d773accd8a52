/* SPDX-License-Identifier: BSD-2-Clause
 *
 * retire.c - where memory is short, freed pages leave the page cache; nothing else changes by it.
 *
 * That memory is short is simulated: the process seems to have read as many pages as the test wants.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <pagewise/advise.h>

#include "../../shim/sys.h"

enum { VALUES = 4000, VALUE_SIZE = 800, CHANGED = 200, ROUNDS = 20 };

static struct {
	_Atomic bool is_short;
	_Atomic uint64_t faults, drops, bytes, parts; /* parts: of pages */
	_Atomic int answer;			      /* of drop_cached, if not 0 */
} memory;

static int count_faults(uint64_t *n)
{
	if (memory.is_short)
		memory.faults += 1000000;
	*n = memory.faults;
	return 0;
}

static int count_drops(int fd, uint64_t off, uint64_t len)
{
	memory.drops++;
	memory.bytes += len;
	if (off % 4096 || len % 4096)
		memory.parts++;
	return memory.answer ? memory.answer : pgw__sys_real.drop_cached(fd, off, len);
}

static int setup(void **state)
{
	memset(&memory, 0, sizeof(memory));
	memory.is_short = true;
	pgw__sys.major_faults = count_faults;
	pgw__sys.drop_cached = count_drops;
	return make_dir(state);
}

static int teardown(void **state)
{
	pgw__sys.major_faults = pgw__sys_real.major_faults;
	pgw__sys.drop_cached = pgw__sys_real.drop_cached;
	return remove_dir(state);
}

static void value_of(uint32_t key, uint32_t round, unsigned char *out)
{
	memset(out, (int)(key * 31 + round), VALUE_SIZE);
	memcpy(out, &round, sizeof(round));
}

/* Is key changed in this round? All are in the first; then some, scattered. */
static bool changes(uint32_t key, uint32_t round)
{
	return round == 0 || (key * 2654435761u + round * 40503u) % VALUES < CHANGED;
}

static uint64_t write_round(MDB_env *env, uint32_t round)
{
	unsigned char value[VALUE_SIZE];
	MDB_txn *txn;
	uint64_t ticket;
	MDB_dbi dbi;

	OK(mdb_txn_begin(env, NULL, 0, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	for (uint32_t n = 0; n < VALUES; n++) {
		MDB_val k = { sizeof(n), &n }, v = { sizeof(value), value };

		if (!changes(n, round))
			continue;
		value_of(n, round, value);
		OK(mdb_put(txn, dbi, &k, &v, 0));
	}
	OK(pgw_txn_commit_async(txn, &ticket));
	return ticket;
}

/* By the store's own thread: who waits for a transaction runs the checkpoint itself. */
static void await(MDB_env *env, uint64_t ticket)
{
	const struct timespec pause = { .tv_nsec = 2000000 };

	for (int i = 0; durable(env) < ticket; i++) {
		assert_true(i < 60000);
		nanosleep(&pause, NULL);
	}
}

static void write_rounds(MDB_env *env, uint32_t first, uint32_t n)
{
	for (uint32_t round = first; round < first + n; round++)
		await(env, write_round(env, round));
}

/* Every value as of a round. */
static void check(MDB_txn *txn, uint32_t newest)
{
	unsigned char value[VALUE_SIZE];
	MDB_dbi dbi;

	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	for (uint32_t n = 0; n < VALUES; n++) {
		MDB_val k = { sizeof(n), &n }, v;
		uint32_t round = newest;

		while (!changes(n, round))
			round--;
		OK(mdb_get(txn, dbi, &k, &v));
		value_of(n, round, value);
		assert_int_equal(v.mv_size, sizeof(value));
		assert_memory_equal(v.mv_data, value, sizeof(value));
	}
}

static MDB_env *open_filled(const char *dir, unsigned flags)
{
	MDB_env *env = open_env(dir, (struct spec){ .durability = PGW_DURABILITY_RELAXED,
					 .flags = flags,
					 .checkpoint_ms = 5,
					 .map_size = 256 << 20 });

	await(env, write_round(env, 0));
	return env;
}

static void need_dontneed(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct pgw_range r = { (uintptr_t)p, len };
	int rc = pgw_advise(&r, 1, PGW_DONTNEED, NULL, NULL);

	munmap(p, len);
	if (!rc)
		return;
	print_message("no MADV_DONTNEED here\n");
	skip();
}

static void freed_pages_are_dropped(void **state)
{
	MDB_env *env;
	struct pgw_env_stats s;
	MDB_txn *txn;

	need_dontneed();
	env = open_filled(*state, 0);
	write_rounds(env, 1, ROUNDS);
	s = stats(env);
	assert_true(s.retired_bytes > 0);
	assert_true(memory.drops > 0);
	assert_int_equal(memory.parts, 0);
	/* What a transaction frees it has written anew. */
	assert_true(memory.bytes <= s.live_bytes);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	check(txn, ROUNDS);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void a_reader_keeps_its_snapshot(void **state)
{
	MDB_env *env;
	MDB_txn *txn;

	need_dontneed();
	env = open_filled(*state, 0);
	write_rounds(env, 1, 3);
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	check(txn, 3);
	write_rounds(env, 4, ROUNDS);
	assert_true(stats(env).retired_bytes > 0);
	check(txn, 3);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void nothing_is_dropped_while_memory_lasts(void **state)
{
	MDB_env *env;

	memory.is_short = false;
	env = open_filled(*state, 0);
	write_rounds(env, 1, ROUNDS);
	assert_int_equal(memory.drops, 0);
	assert_int_equal(stats(env).retired_bytes, 0);
	mdb_env_close(env);
}

static void nothing_is_dropped_of_a_writable_map(void **state)
{
	MDB_env *env = open_filled(*state, MDB_WRITEMAP);

	write_rounds(env, 1, ROUNDS);
	assert_int_equal(memory.drops, 0);
	mdb_env_close(env);
}

static void group_never_waits_for_it(void **state)
{
	MDB_env *env = open_env(
	    *state, (struct spec){ .durability = PGW_DURABILITY_GROUP, .map_size = 256 << 20 });

	for (uint32_t round = 0; round < ROUNDS; round++)
		OK(pgw_env_wait(env, write_round(env, round), -1));
	assert_int_equal(memory.drops, 0);
	mdb_env_close(env);
}

static void a_refusal_costs_nothing(void **state)
{
	MDB_env *env;
	MDB_txn *txn;

	need_dontneed();
	memory.answer = -EINVAL;
	env = open_filled(*state, 0);
	write_rounds(env, 1, ROUNDS);
	assert_int_equal(stats(env).retired_bytes, 0);
	assert_int_equal(memory.drops, 1); /* and not tried again so soon */
	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	check(txn, ROUNDS);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* Map the whole file, look at every page, say so, and stay until the pipe is closed. */
static void map_and_stay(const char *dir, int ready, int end)
{
	int fd = open(data_file(dir), O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *p;

	if (fd < 0 || fstat(fd, &st))
		_exit(1);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(1);
	for (off_t i = 0; i < st.st_size; i += 4096)
		(void)*(volatile char *)&p[i];
	if (write(ready, "", 1) != 1)
		_exit(1);
	(void)!read(end, (char[1]){ 0 }, 1);
	_exit(0);
}

static void pages_that_others_map_are_left(void **state)
{
	int ready[2], end[2], status;
	uint64_t before;
	MDB_env *env;
	char c;
	pid_t pid;

	memory.is_short = false;
	env = open_filled(*state, 0);
	write_rounds(env, 1, ROUNDS); /* the file has its size */
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(end[1]);
		map_and_stay(*state, ready[1], end[0]);
	}
	close(ready[1]);
	close(end[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);

	memory.is_short = true;
	write_rounds(env, 1 + ROUNDS, 2); /* from the second on it is known to be short */
	before = memory.drops;
	write_rounds(env, 3 + ROUNDS, ROUNDS);
	/* Some were tried, once. */
	assert_true(memory.drops - before <= 64);
	close(end[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ready[0]);
	mdb_env_close(env);
}

static struct {
	_Atomic int barriers;  /* under way */
	_Atomic uint64_t both; /* times that two things were under way that must not be */
} at_once;

/* Long enough that whoever is about to do something else comes to do it. */
static void barrier_begins(void)
{
	if (at_once.barriers++)
		at_once.both++;
	usleep(3000);
}

static int slow_msync(void *p, size_t len, int flags)
{
	int rc;

	barrier_begins();
	rc = pgw__sys_real.msync(p, len, flags);
	at_once.barriers--;
	return rc;
}

static int slow_fdatasync(int fd)
{
	int rc;

	barrier_begins();
	rc = pgw__sys_real.fdatasync(fd);
	at_once.barriers--;
	return rc;
}

static int watched_drop(int fd, uint64_t off, uint64_t len)
{
	if (at_once.barriers)
		at_once.both++;
	return count_drops(fd, off, len);
}

struct committer {
	MDB_env *env;
	uint32_t id;
};

static void *commit_and_wait(void *arg)
{
	const struct committer *me = arg;

	for (uint32_t n = 0; n < 100; n++) {
		char value[VALUE_SIZE] = { (char)n };
		MDB_txn *txn;
		uint64_t ticket;
		MDB_dbi dbi;

		OK(mdb_txn_begin(me->env, NULL, 0, &txn));
		OK(mdb_dbi_open(txn, NULL, 0, &dbi));
		for (uint32_t i = 0; i < 20; i++) {
			uint32_t key = (n * 20 + i) * 2654435761u % VALUES + me->id * VALUES;
			MDB_val k = { sizeof(key), &key }, v = { sizeof(value), value };

			OK(mdb_put(txn, dbi, &k, &v, 0));
		}
		OK(pgw_txn_commit_async(txn, &ticket));
		if (n % 4 == 0)
			OK(pgw_env_wait(me->env, ticket, -1));
		else
			usleep(3000);
	}
	return NULL;
}

/* Who waits is woken at the end of a checkpoint, and may begin the next one before the thread that ran it
 * comes to drop pages. */
static void one_thing_at_a_time(void **state)
{
	struct committer who[3];
	pthread_t threads[3];
	MDB_env *env;

	need_dontneed();
	memset(&at_once, 0, sizeof(at_once));
	pgw__sys.msync = slow_msync;
	pgw__sys.fdatasync = slow_fdatasync;
	pgw__sys.drop_cached = watched_drop;
	env = open_filled(*state, 0);
	for (uint32_t i = 0; i < 3; i++) {
		who[i] = (struct committer){ env, i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, commit_and_wait, &who[i]), 0);
	}
	for (uint32_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	mdb_env_close(env);
	pgw__sys.msync = pgw__sys_real.msync;
	pgw__sys.fdatasync = pgw__sys_real.fdatasync;
	print_message("%llu pieces dropped, %llu times two at once\n",
	    (unsigned long long)memory.drops, (unsigned long long)at_once.both);
	assert_true(memory.drops > 0);
	assert_int_equal(at_once.both, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(freed_pages_are_dropped),
		T(a_reader_keeps_its_snapshot),
		T(nothing_is_dropped_while_memory_lasts),
		T(nothing_is_dropped_of_a_writable_map),
		T(group_never_waits_for_it),
		T(a_refusal_costs_nothing),
		T(pages_that_others_map_are_left),
		T(one_thing_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
