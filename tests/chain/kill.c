/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kill.c - imports killed (SIGKILL) at any point: what was committed is there, whole; the next import
 * goes on without a gap or a double; the end is the same rows as monerod's.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "verify.h"

static bool tell(void *ctx, const struct import_result *r)
{
	uint64_t told[2] = { r->height, r->commits };

	return write(*(int *)ctx, told, sizeof(told)) == sizeof(told);
}

/* The child: an import that tells the parent of each block before it goes on. */
static void import(const char *dir, const struct buf *f, uint64_t batch, int out)
{
	struct import_options opt = { .batch = batch, .progress = tell, .ctx = &out };
	struct chain_db_options how = { .write = true, .map_size = (size_t)256 << 20 };
	struct chain_error err = { 0 };
	struct import_result r;
	struct bootstrap b;
	struct chain_db db;

	if (chain_db_open(&db, dir, &how, &err) || bootstrap_open_memory(&b, f->p, f->n, &err) ||
	    chain_import(&db, &b, &opt, &r, &err))
		_exit(1);
	chain_db_close(&db);
	_exit(0);
}

/* Kills the import after `blocks` more blocks and a while. False: it had ended by itself. *committed:
 * a height that it had certainly committed. */
static bool import_killed(const char *dir, const struct buf *f, uint64_t batch, uint64_t blocks,
    unsigned delay_us, uint64_t *committed)
{
	uint64_t told[2], commits = 0;
	int pipes[2], status;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(pipes[0]);
		import(dir, f, batch, pipes[1]);
	}
	close(pipes[1]);
	while (blocks-- > 0 && read(pipes[0], told, sizeof(told)) == sizeof(told)) {
		/* The first block told of after a commit is one beyond it. */
		if (told[1] > commits) {
			commits = told[1];
			*committed = told[0] - 1;
		}
	}
	usleep(delay_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(pipes[0]);
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return false;
	}
	assert_int_equal(WTERMSIG(status), SIGKILL);
	return true;
}

static uint64_t verified_height(const char *dir)
{
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct verify_result r;
	struct chain_db db;

	if (chain_db_open(&db, dir, &opt, &err)) {
		/* Killed before there was anything. */
		assert_int_equal(err.kind, CHAIN_REFUSED);
		return 0;
	}
	assert_fine(chain_verify(&db, &r, &err), &err);
	chain_db_close(&db);
	return r.blocks;
}

static void killed_again_and_again(uint64_t batch)
{
	struct buf f = data_file("c.raw"), m = data_file("c.monerod.mdb");
	uint64_t committed = 0, height = 0, kills = 0;
	char dir[64], monerod[128];

	make_dir(dir);
	for (;;) {
		bool killed = import_killed(dir, &f, batch, test_random() % 24,
		    (unsigned)(test_random() % 8000), &committed);
		uint64_t now = verified_height(dir);

		assert_true(now >= committed && now >= height);
		assert_true(now == 150 || now % batch == 0);
		height = now;
		if (!killed || kills > 200)
			break;
		kills++;
	}
	/* With any luck of timing, most of the rounds must have been kills. */
	assert_true(kills >= 3);
	assert_int_equal(height, 150);
	join(monerod, dir, "monerod.mdb");
	write_file(monerod, m.p, m.n);
	assert_same_rows(dir, monerod, all_tables);
	remove_dir(dir);
	buf_free(&f);
	buf_free(&m);
}

static void block_by_block(void **state)
{
	killed_again_and_again(1);
}

static void in_batches(void **state)
{
	killed_again_and_again(5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_by_block),
		cmocka_unit_test(in_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
