/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fence.c - who may open, read and write an environment in group or relaxed durability, and what
 * becomes of its file. Plain LMDB is mdb_stat and mdb_copy, which have LMDB linked in.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/stat.h>

static const struct spec group = { .durability = PGW_DURABILITY_GROUP };
static const struct spec strict = { .durability = PGW_DURABILITY_STRICT };

static void need_lmdb_utils(void)
{
	if (run("command -v mdb_stat") || run("command -v mdb_copy")) {
		fputs("mdb_stat and mdb_copy are not there (Debian: lmdb-utils)\n", stderr);
		exit(77);
	}
}

/* The bytes that LMDB never writes. */
static bool records_are_wiped(const char *path)
{
	unsigned char page[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool wiped = true;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, page, sizeof(page), 0), sizeof(page));
	close(fd);
	for (unsigned i = 152; i < 4096; i++)
		wiped = wiped && !page[i] && !page[4096 + i];
	return wiped;
}

static void plain_lmdb_is_kept_out_until_close(void **state)
{
	for (unsigned flags = 0; flags <= MDB_WRITEMAP; flags += MDB_WRITEMAP) {
		struct spec s = group;
		MDB_env *env;

		s.flags = flags;
		env = open_env(*state, s);
		put(env, 1, 1);
		assert_true(is_fenced(*state));
		assert_int_equal(run("mdb_stat %s", (char *)*state), 1);
		mdb_env_close(env);
		assert_false(is_fenced(*state));
		assert_true(records_are_wiped(data_file(*state)));
		assert_int_equal(run("mdb_stat %s", (char *)*state), 0);
	}
}

static void attaching_waits_for_the_first_write(void **state)
{
	struct pgw_env_options o;
	MDB_env *env;

	pgw_env_options_init(&o);
	o.nosync_relaxed = true;
	o.flags = MDB_NOSYNC;
	OK(mdb_env_create(&env));
	OK(mdb_env_open(env, *state, 0, 0664));
	OK(pgw_env_attach(env, &o));
	assert_false(is_fenced(*state));
	put(env, 1, 1);
	assert_false(is_fenced(*state)); /* without MDB_NOSYNC it is strict */
	OK(mdb_env_set_flags(env, MDB_NOSYNC, 1));
	put(env, 1, 2);
	assert_true(is_fenced(*state));
	assert_int_equal(pgw_env_attach(env, &o), EINVAL);
	mdb_env_close(env);
}

static void what_cannot_be_attached(void **state)
{
	struct spec s = group;
	MDB_env *env = NULL;

	s.flags = MDB_NOLOCK;
	assert_int_equal(try_open(*state, s, &env), PGW_NOT_POSSIBLE);
	s.flags = MDB_RDONLY;
	assert_int_equal(try_open(*state, s, &env), PGW_NOT_POSSIBLE);
	assert_null(env);
	env = open_env(*state, group);
	put(env, 1, 1);
	assert_int_equal(try_open(*state, group, &env), PGW_BUSY); /* twice in a process */
	put(env, 1, 2);
	mdb_env_close(env);
}

/* ---- other processes ---- */

static int reads(void *arg)
{
	MDB_env *env;

	if (try_open(arg, (struct spec){ .flags = MDB_RDONLY }, &env))
		return 1;
	if (get(env, 1) != 7)
		return 2;
	mdb_env_close(env);
	return 0;
}

static int second_writer(void *arg)
{
	MDB_env *env;

	if (try_open(arg, group, &env) != PGW_BUSY)
		return 1;
	if (try_open(arg, strict, &env))
		return 2;
	if (try_put(env, 1, 8, NULL) != PGW_BUSY)
		return 3;
	if (get(env, 1) != 7)
		return 4;
	mdb_env_close(env);
	return 0;
}

static int without_locks(void *arg)
{
	MDB_env *env;

	return try_open(arg, (struct spec){ .flags = MDB_NOLOCK | MDB_RDONLY }, &env) == PGW_FENCED
		   ? 0
		   : 1;
}

static void others_read_and_one_writes(void **state)
{
	MDB_env *env = open_env(*state, group);

	put(env, 1, 7);
	assert_int_equal(in_child(reads, *state), 0);
	assert_int_equal(in_child(second_writer, *state), 0);
	assert_int_equal(in_child(without_locks, *state), 0);
	put(env, 2, 1); /* all of them have gone, and nothing has changed */
	assert_true(is_fenced(*state));
	mdb_env_close(env);
	assert_int_equal(in_child(reads, *state), 0);
}

/* A process that does something, says so, and waits to be told to go on. */
struct helper {
	pid_t pid;
	int in, out;
};

static struct helper start(int (*body)(const char *dir, int in, int out), const char *dir)
{
	int to[2], from[2];
	struct helper h;
	char c;

	assert_int_equal(pipe(to) | pipe(from), 0);
	fflush(NULL);
	h.pid = fork();
	if (!h.pid) {
		close(to[1]);
		close(from[0]);
		_exit(body(dir, to[0], from[1]));
	}
	close(to[0]);
	close(from[1]);
	h.in = from[0];
	h.out = to[1];
	assert_int_equal(read(h.in, &c, 1), 1);
	return h;
}

static int finish(struct helper h, int signal)
{
	int status;

	if (signal)
		kill(h.pid, signal);
	close(h.out);
	assert_int_equal(waitpid(h.pid, &status, 0), h.pid);
	close(h.in);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void pause_until_told(int in, int out)
{
	char c = 0;

	if (write(out, &c, 1) != 1 || read(in, &c, 1) < 0)
		_exit(9);
}

static int holds_it_open(const char *dir, int in, int out)
{
	MDB_env *env;

	if (try_open(dir, strict, &env))
		return 1;
	pause_until_told(in, out);
	mdb_env_close(env);
	return 0;
}

static void others_must_not_have_it_open(void **state)
{
	MDB_env *env = NULL;
	struct helper h = start(holds_it_open, *state);

	assert_int_equal(try_open(*state, group, &env), PGW_BUSY);
	assert_false(is_fenced(*state));
	assert_int_equal(finish(h, 0), 0);
	env = open_env(*state, group);
	mdb_env_close(env);
}

static int owns_it(const char *dir, int in, int out)
{
	MDB_env *env;

	if (try_open(dir, group, &env) || try_put(env, 1, 7, NULL))
		return 1;
	pause_until_told(in, out);
	mdb_env_close(env);
	return 0;
}

/* Its reader slots are gone, its pages are in the page cache, and we have had it open all the time. */
static void a_dead_owner_is_succeeded(void **state)
{
	struct helper owner;
	MDB_env *env;

	for (int d = 0; d <= PGW_DURABILITY_RELAXED; d++) {
		struct spec s = { .durability = (enum pgw_durability)d };
		struct pgw_env_options o;

		owner = start(owns_it, *state);
		env = open_env(*state, strict);
		assert_int_equal(try_put(env, 1, 8, NULL), PGW_BUSY);
		assert_int_equal(finish(owner, SIGKILL), 128 + SIGKILL);
		assert_true(is_fenced(*state));
		pgw_env_options_init(&o);
		o.durability = s.durability;
		OK(pgw_env_attach(env, &o));
		assert_int_equal(get(env, 1), 7);
		put(env, 1, 8);
		assert_int_equal(is_fenced(*state), d != PGW_DURABILITY_STRICT);
		mdb_env_close(env);
		assert_false(is_fenced(*state));
	}
}

static void a_killed_owner_leaves_the_fence_and_recovery_lowers_it(void **state)
{
	struct pgw_recover_report r;
	struct helper owner = start(owns_it, *state);

	assert_int_equal(pgw_env_recover(*state, 0, &r), 0);
	assert_int_equal(r.action, PGW_RECOVER_IN_USE);
	assert_int_equal(finish(owner, SIGKILL), 128 + SIGKILL);
	assert_int_equal(run("mdb_stat %s", (char *)*state), 1);
	assert_int_equal(pgw_env_recover(*state, PGW_RECOVER_CHECK, &r), 0);
	assert_true(is_fenced(*state));
	assert_true(r.action == PGW_RECOVER_KEPT || r.action == PGW_RECOVER_RESTORED);
	assert_int_equal(pgw_env_recover(*state, 0, &r), 0);
	assert_int_equal(r.txnid, 1);
	assert_false(is_fenced(*state));
	assert_true(records_are_wiped(data_file(*state)));
	assert_int_equal(run("mdb_stat %s", (char *)*state), 0);
	assert_int_equal(pgw_env_recover(*state, 0, &r), 0);
	assert_int_equal(r.action, PGW_RECOVER_NOTHING);
	assert_int_equal(pgw_env_recover("no such directory", 0, &r), ENOENT);
	assert_int_equal(pgw_env_recover(*state, 64, &r), EINVAL);
}

static int exits(const char *dir, int in, int out)
{
	MDB_env *env;
	MDB_txn *txn;
	bool writing = access(dir, F_OK); /* "dir/" and a file that is not there */
	char path[256];

	snprintf(path, sizeof(path), "%.*s", (int)strcspn(dir, "/"), dir);
	if (try_open(path, (struct spec){ .durability = PGW_DURABILITY_RELAXED }, &env) ||
	    try_put(env, 1, 7, NULL))
		return 1;
	if (writing && mdb_txn_begin(env, NULL, 0, &txn))
		return 1;
	pause_until_told(in, out);
	exit(0);
}

static void a_process_that_just_exits_lowers_the_fence(void **state)
{
	char busy[256];
	struct pgw_recover_report r;

	assert_int_equal(finish(start(exits, *state), 0), 0);
	assert_false(is_fenced(*state));
	assert_int_equal(in_child(reads, *state), 0);

	/* In the middle of a transaction it cannot. */
	snprintf(busy, sizeof(busy), "%s/nothing", (char *)*state);
	assert_int_equal(finish(start(exits, busy), 0), 0);
	assert_true(is_fenced(*state));
	assert_int_equal(pgw_env_recover(*state, 0, &r), 0);
	assert_int_equal(in_child(reads, *state), 0);
}

/* ---- fork ---- */

static int closes_what_it_inherited(void *arg)
{
	mdb_env_close(arg);
	return 0;
}

static int lingers(const char *dir, int in, int out)
{
	MDB_env *env;

	if (try_open(dir, group, &env) || try_put(env, 1, 7, NULL))
		return 1;
	if (!fork()) { /* the grandchild says it, and outlives its parent */
		pause_until_told(in, out);
		_exit(0);
	}
	(void)read(in, &(char){ 0 }, 1);
	return 0;
}

static void a_child_does_not_matter(void **state)
{
	MDB_env *env = open_env(*state, group);
	struct helper h;

	put(env, 1, 7);
	assert_int_equal(in_child(closes_what_it_inherited, env), 0);
	assert_true(is_fenced(*state));
	assert_int_equal(in_child(second_writer, *state), 0);
	put(env, 1, 7);
	mdb_env_close(env);

	h = start(lingers, *state);
	kill(h.pid, SIGKILL);
	assert_int_equal(waitpid(h.pid, NULL, 0), h.pid);
	env = open_env(*state, group); /* though the grandchild is alive */
	put(env, 1, 8);
	mdb_env_close(env);
	close(h.out);
	close(h.in);
}

/* ---- copies ---- */

static void copies_are_plain(void **state)
{
	struct spec s = group;
	char to[300], path[320];
	MDB_env *env;
	int fd;

	for (int i = 0; i < 4; i++) {
		s.flags = i & 1 ? MDB_WRITEMAP : 0;
		env = open_env(*state, s);
		put(env, 1, 7);
		snprintf(to, sizeof(to), "%s/copy%d", (char *)*state, i);
		snprintf(path, sizeof(path), "%s/data.mdb", to);
		OK(run("mkdir %s", to));
		if (i < 2) {
			OK(i ? mdb_env_copy(env, to) : mdb_env_copy2(env, to, MDB_CP_COMPACT));
		} else {
			fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
			OK(mdb_env_copyfd(env, fd));
			close(fd);
		}
		assert_false(is_fenced(to));
		assert_true(records_are_wiped(path));
		assert_int_equal(run("mdb_stat %s", to), 0);
		assert_true(is_fenced(*state));
		mdb_env_close(env);
		env = open_env(to, group);
		assert_int_equal(get(env, 1), 7);
		put(env, 1, 8);
		mdb_env_close(env);
	}
}

static void a_raw_copy_is_refused_and_left_alone(void **state)
{
	struct pgw_recover_report r;
	char to[300], path[320];
	MDB_env *env = open_env(*state, group), *copy = NULL;

	put(env, 1, 7);
	snprintf(to, sizeof(to), "%s/copy", (char *)*state);
	OK(run("mkdir %s && cp %s %s && cp %s %s/before", to, data_file(*state), to,
	    data_file(*state), to));
	mdb_env_close(env);
	assert_int_equal(try_open(to, group, &copy), PGW_COPIED);
	assert_int_equal(try_open(to, strict, &copy), PGW_COPIED);
	assert_int_equal(try_open(to, (struct spec){ .flags = MDB_RDONLY }, &copy), PGW_COPIED);
	assert_int_equal(pgw_env_recover(to, 0, &r), PGW_COPIED);
	assert_int_equal(r.action, PGW_RECOVER_REFUSED);
	assert_int_equal(r.record[0].state, PGW_RECORD_OF_ANOTHER_FILE);
	assert_non_null(r.reason);
	snprintf(path, sizeof(path), "%s/before", to);
	assert_int_equal(run("cmp %s/data.mdb %s", to, path), 0);

	/* Whoever copied it may know that nobody wrote. */
	OK(pgw_env_recover(to, PGW_RECOVER_COPY, &r));
	assert_int_equal(r.action, PGW_RECOVER_RESTORED);
	assert_false(r.same_cache);
	assert_false(is_fenced(to));
	copy = open_env(to, group);
	assert_int_equal(get(copy, 1), 7);
	mdb_env_close(copy);
}

static void damaged_records_are_refused_and_left_alone(void **state)
{
	struct helper owner = start(owns_it, *state);
	struct pgw_recover_report r;
	MDB_env *env = NULL;
	int fd;

	assert_int_equal(finish(owner, SIGKILL), 128 + SIGKILL);
	fd = open(data_file(*state), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pwrite(fd, "damaged", 7, 4096 * i + 600), 7);
	close(fd);
	OK(run("cp %s %s/before", data_file(*state), (char *)*state));
	assert_int_equal(pgw_env_recover(*state, 0, &r), PGW_UNPROVEN);
	assert_int_equal(r.record[0].state, PGW_RECORD_TORN);
	assert_int_equal(try_open(*state, group, &env), PGW_UNPROVEN);
	assert_int_equal(run("cmp %s %s/before", data_file(*state), (char *)*state), 0);
}

static struct {
	MDB_env *env;
	sem_t begun, enough;
	int rc;
} stayer;

static void *begin_and_stay(void *arg)
{
	MDB_txn *txn;

	stayer.rc = mdb_txn_begin(stayer.env, NULL, 0, &txn);
	sem_post(&stayer.begun);
	while (sem_wait(&stayer.enough))
		;
	return NULL;
}

/* It is against LMDB's rules, whose own mdb_env_close does not mind. */
static void closing_within_a_write_transaction_does_not_hang(void **state)
{
	const struct spec s = { .durability = PGW_DURABILITY_GROUP };
	MDB_env *env = open_env(*state, s);
	pthread_t thread;

	put(env, 1, 11);
	stayer.env = env;
	sem_init(&stayer.begun, 0, 0);
	sem_init(&stayer.enough, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, begin_and_stay, NULL), 0);
	while (sem_wait(&stayer.begun))
		;
	OK(stayer.rc);
	mdb_env_close(env);
	assert_true(is_fenced(*state));
	env = open_env(*state, s);
	assert_int_equal(get(env, 1), 11);
	put(env, 1, 12);
	mdb_env_close(env);
	assert_false(is_fenced(*state));
	sem_post(&stayer.enough);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

static void recovery_leaves_other_files_alone(void **state)
{
	static const char *const texts[] = { "", "a note, longer than the header of a page" };
	struct pgw_recover_report report;
	const unsigned nosubdir = PGW_RECOVER_NOSUBDIR;
	char note[256], lock[300];

	snprintf(note, sizeof(note), "%s/note", (const char *)*state);
	snprintf(lock, sizeof(lock), "%s-lock", note);
	for (unsigned i = 0; i < 4; i++) {
		unsigned flags = nosubdir | (i & 1 ? PGW_RECOVER_CHECK : 0);
		const char *text = texts[i / 2];
		FILE *f = fopen(note, "w");
		struct stat st;

		assert_non_null(f);
		fputs(text, f);
		fclose(f);
		assert_int_equal(pgw_env_recover(note, flags, &report), MDB_INVALID);
		assert_int_equal(stat(note, &st), 0);
		assert_int_equal(st.st_size, strlen(text));
		assert_int_equal(access(lock, F_OK), -1);
	}
	assert_int_equal(pgw_env_recover("/dev/null", nosubdir, &report), MDB_INVALID);
	assert_int_equal(pgw_env_recover("/dev/zero", nosubdir, &report), MDB_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(recovery_leaves_other_files_alone),
		TEST(plain_lmdb_is_kept_out_until_close),
		TEST(attaching_waits_for_the_first_write),
		TEST(what_cannot_be_attached),
		TEST(others_read_and_one_writes),
		TEST(others_must_not_have_it_open),
		TEST(a_dead_owner_is_succeeded),
		TEST(a_killed_owner_leaves_the_fence_and_recovery_lowers_it),
		TEST(a_process_that_just_exits_lowers_the_fence),
		TEST(a_child_does_not_matter),
		TEST(copies_are_plain),
		TEST(a_raw_copy_is_refused_and_left_alone),
		TEST(damaged_records_are_refused_and_left_alone),
#ifndef __SANITIZE_THREAD__ /* it sees that the rules are broken */
		TEST(closing_within_a_write_transaction_does_not_hang),
#endif
	};

	need_lmdb_utils();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
