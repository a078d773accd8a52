/* SPDX-License-Identifier: BSD-2-Clause
 *
 * recover.c - attaching, closing and recovering end before each of their calls in turn, and somebody else is there
 * at the wrong moment. What was durable is there afterwards; a file that looks plain is.
 *
 * kill.c does the like at random moments of a workload, and tests/crash with power cuts.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "../../store/identity.h"
#include "sys.h"

#define PATIENCE 100 /* seconds, for what takes milliseconds on an idle machine */
#define NEVER	 3600 * 1000

static const char *dir;
static struct spec spec;
static int (*examine)(int fd, struct pgw__identity *out);

/* ---- a process that ends before its n-th call ---- */

static unsigned calls_left;
static void (*instead)(void);

static void count(void)
{
	if (calls_left && !--calls_left)
		instead();
}

static int64_t counted_pwritev(int fd, const struct iovec *v, int n, uint64_t off)
{
	count();
	return pgw__sys_real.pwritev(fd, v, n, off);
}

static int counted_msync(void *addr, size_t len, int flags)
{
	count();
	return pgw__sys_real.msync(addr, len, flags);
}

static int counted_fdatasync(int fd)
{
	count();
	return pgw__sys_real.fdatasync(fd);
}

static void end_before(unsigned call, void (*what)(void))
{
	calls_left = call;
	instead = what;
	pgw__sys.pwritev = counted_pwritev;
	pgw__sys.msync = counted_msync;
	pgw__sys.fdatasync = counted_fdatasync;
}

static void die(void)
{
	kill(getpid(), SIGKILL);
}

struct step {
	const char *name;
	int (*body)(void *arg); /* the number of the call */
	uint64_t promised;	/* value of key 1 that was durable before */
};

static int attaches(void *arg)
{
	MDB_env *env;

	end_before(*(unsigned *)arg, die);
	env = open_env(dir, spec);
	return env ? 0 : 1;
}

static int closes(void *arg)
{
	MDB_env *env = open_env(dir, spec);

	put(env, 1, 2);
	OK(mdb_env_sync(env, 1));
	put(env, 1, 3);
	end_before(*(unsigned *)arg, die);
	mdb_env_close(env);
	return 0;
}

static int exits(void *arg)
{
	MDB_env *env = open_env(dir, spec);

	put(env, 1, 2);
	OK(mdb_env_sync(env, 1));
	put(env, 1, 3);
	end_before(*(unsigned *)arg, die);
	exit(0);
}

static int leaves_it_open(void *arg)
{
	MDB_env *env = open_env(dir, spec);

	put(env, 1, 2);
	OK(mdb_env_sync(env, 1));
	put(env, 1, 3);
	return 0;
}

static int recovers(void *arg)
{
	end_before(*(unsigned *)arg, die);
	return pgw_env_recover(dir, 0, NULL) ? 1 : 0;
}

static void check(uint64_t promised)
{
	struct pgw_recover_report r;
	bool fenced = is_fenced(dir);
	uint64_t value;
	MDB_env *env;

	if (!fenced && run("mdb_stat %s", dir) != 0)
		fail_msg("a file that looks plain is not plain LMDB");
	OK(pgw_env_recover(dir, PGW_RECOVER_CHECK, &r));
	assert_int_equal(r.fenced, fenced);
	OK(pgw_env_recover(dir, 0, &r));
	assert_false(is_fenced(dir));
	env = open_env(dir, (struct spec){ .flags = spec.flags });
	value = get(env, 1);
	if (value < promised || value > 3)
		fail_msg("%lu is found, %lu was durable", value, promised);
	put(env, 1, 9);
	assert_int_equal(get(env, 1), 9);
	mdb_env_close(env);
}

static unsigned end_at_each(const struct step *step)
{
	for (unsigned n = 1;; n++) {
		int status;
		MDB_env *env;

		OK(run("rm -f %s/*", dir));
		env = open_env(dir, (struct spec){ .flags = spec.flags });
		put(env, 1, 1);
		mdb_env_close(env);
		if (step->body == recovers)
			assert_int_equal(in_child(leaves_it_open, NULL), 0);
		status = in_child(step->body, &n);
		if (!status)
			return n - 1;
		assert_int_equal(status, 128 + SIGKILL);
		check(step->promised);
	}
}

static int no_unique_mount(int fd, struct pgw__identity *out)
{
	int rc = examine(fd, out);

	if (!rc)
		out->mount = 0;
	return rc;
}

static void each_step_can_be_the_last(void **state)
{
	static const struct step steps[] = {
		{ "attach", attaches, 1 },
		{ "close", closes, 2 },
		{ "exit", exits, 2 },
		{ "recover", recovers, 2 },
	};

	dir = *state;
	for (unsigned i = 0; i < 4; i++) {
		spec = (struct spec){ .durability = PGW_DURABILITY_RELAXED,
			.flags = i & 1 ? MDB_WRITEMAP : 0,
			.checkpoint_ms = NEVER };
		pgw__identity_of = i & 2 ? no_unique_mount : examine;
		for (unsigned s = 0; s < sizeof(steps) / sizeof(*steps); s++) {
			unsigned n = end_at_each(&steps[s]);

			print_message("%s%s%s: ended before each of %u calls\n", steps[s].name,
			    i & 1 ? ", writemap" : "", i & 2 ? ", cache not trusted" : "", n);
			assert_true(n >= 3);
		}
	}
	pgw__identity_of = examine;
}

/* ---- more than one at once ---- */

static _Atomic unsigned *at_the_call;

static void wait_to_be_killed(void)
{
	atomic_store(at_the_call, 1);
	for (;;)
		pause();
}

static int stops_in_recovery(void *arg)
{
	alarm(PATIENCE);
	end_before(1, wait_to_be_killed);
	return pgw_env_recover(dir, 0, NULL) ? 1 : 0;
}

static int recovers_for_good(void *arg)
{
	int rc;

	alarm(PATIENCE);
	rc = pgw_env_recover(dir, 0, NULL);
	if (rc)
		fprintf(stderr, "recover: %s\n", mdb_strerror(rc));
	return rc ? 1 : 0;
}

static int opens_and_writes(void *arg)
{
	MDB_env *env;

	alarm(PATIENCE);
	env = open_env(dir, (struct spec){ 0 });
	put(env, 2, 22);
	mdb_env_close(env);
	return 0;
}

static pid_t start(int (*body)(void *arg))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(body(NULL));
	assert_true(pid > 0);
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Does the process wait for a lock of a file? */
static bool waits_for_a_lock(pid_t pid)
{
	char line[256];
	bool waits = false;
	FILE *f = fopen("/proc/locks", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "->");
		int owner;

		if (at && sscanf(at, "-> POSIX ADVISORY READ %d", &owner) == 1 && owner == pid)
			waits = true;
	}
	fclose(f);
	return waits;
}

enum { WAITERS = 4 };

/* Those who wait for one that recovers must not take the file for one in use when that one is killed. */
static void who_waits_for_a_recovery_that_is_killed_does_it(void **state)
{
	dir = *state;
	spec = (struct spec){ .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = NEVER };
	at_the_call = mmap(
	    NULL, sizeof(*at_the_call), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(at_the_call != MAP_FAILED);
	for (unsigned waiters = 1; waiters <= WAITERS; waiters += WAITERS - 1) {
		pid_t first, waiter[WAITERS];
		MDB_env *env;

		assert_int_equal(in_child(leaves_it_open, NULL), 0);
		atomic_store(at_the_call, 0);
		first = start(stops_in_recovery);
		while (!atomic_load(at_the_call))
			usleep(1000);
		for (unsigned i = 0; i < waiters; i++)
			waiter[i] = start(i & 1 ? opens_and_writes : recovers_for_good);
		for (unsigned i = 0; i < waiters; i++)
			while (!waits_for_a_lock(waiter[i]))
				usleep(1000);
		kill(first, SIGKILL);
		assert_int_equal(end_of(first), 128 + SIGKILL);
		for (unsigned i = 0; i < waiters; i++)
			assert_int_equal(end_of(waiter[i]), 0);
		assert_false(is_fenced(dir));
		env = open_env(dir, (struct spec){ 0 });
		assert_true(get(env, 1) >= 2);
		assert_int_equal(get(env, 2), waiters > 1 ? 22 : 0);
		mdb_env_close(env);
	}
}

static void many_recover_at_once(void **state)
{
	dir = *state;
	spec = (struct spec){ .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = NEVER };
	for (unsigned round = 0; round < 10; round++) {
		pid_t pid[8];
		MDB_env *env;

		assert_int_equal(in_child(leaves_it_open, NULL), 0);
		for (unsigned i = 0; i < 8; i++)
			pid[i] = start(i & 1 ? opens_and_writes : recovers_for_good);
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(end_of(pid[i]), 0);
		env = open_env(dir, (struct spec){ 0 });
		assert_true(get(env, 1) >= 2);
		assert_int_equal(get(env, 2), 22);
		mdb_env_close(env);
	}
}

static int owns_it(void *arg)
{
	MDB_env *env;

	alarm(PATIENCE);
	env = open_env(dir, spec);
	put(env, 1, 1);
	atomic_store(at_the_call, 1);
	while (atomic_load(at_the_call) != 2)
		usleep(1000);
	put(env, 1, 2);
	mdb_env_close(env);
	return 0;
}

static void an_environment_in_use_is_left_alone(void **state)
{
	dir = *state;
	spec = (struct spec){ .durability = PGW_DURABILITY_GROUP };
	for (int removed = 0; removed <= 1; removed++) {
		pid_t owner;

		atomic_store(at_the_call, 0);
		owner = start(owns_it);
		while (!atomic_load(at_the_call))
			usleep(1000);
		if (removed)
			OK(run("rm %s/lock.mdb", dir));
		for (unsigned flags = 0; flags <= PGW_RECOVER_CHECK; flags += PGW_RECOVER_CHECK) {
			struct pgw_recover_report r;

			assert_int_equal(pgw_env_recover(dir, flags, &r), removed ? PGW_BUSY : 0);
			assert_int_equal(
			    r.action, removed ? PGW_RECOVER_REFUSED : PGW_RECOVER_IN_USE);
		}
		assert_true(is_fenced(dir));
		atomic_store(at_the_call, 2);
		assert_int_equal(end_of(owner), 0);
		assert_false(is_fenced(dir));
	}
}

/* ---- files that were put back ---- */

/* Its meta pages are older than its record: whatever the cache is said to be, that is not what was left. */
static void meta_pages_older_than_the_record_are_not_kept(void **state)
{
	struct pgw_recover_report r;
	unsigned char before[2][136];
	MDB_env *env;
	int fd;

	dir = *state;
	spec = (struct spec){ .durability = PGW_DURABILITY_RELAXED, .checkpoint_ms = NEVER };
	env = open_env(dir, (struct spec){ 0 });
	put(env, 1, 1);
	mdb_env_close(env);
	fd = open(data_file(dir), O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pread(fd, before[i], 136, 4096 * i + 16), 136);
	assert_int_equal(in_child(leaves_it_open, NULL), 0);
	for (int i = 0; i < 2; i++) /* but the version, which is the fence */
		assert_int_equal(pwrite(fd, before[i] + 8, 128, 4096 * i + 24), 128);
	close(fd);
	OK(pgw_env_recover(dir, 0, &r));
	assert_int_equal(r.action, PGW_RECOVER_RESTORED);
	env = open_env(dir, (struct spec){ 0 });
	assert_int_equal(get(env, 1), 2);
	mdb_env_close(env);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_step_can_be_the_last),
		TEST(who_waits_for_a_recovery_that_is_killed_does_it),
		TEST(many_recover_at_once),
		TEST(an_environment_in_use_is_left_alone),
		TEST(meta_pages_older_than_the_record_are_not_kept),
	};

	if (run("command -v mdb_stat")) {
		fputs("mdb_stat is not there (Debian: lmdb-utils)\n", stderr);
		return 77;
	}
	examine = pgw__identity_of;
	at_the_call = mmap(
	    NULL, sizeof(*at_the_call), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at_the_call == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
