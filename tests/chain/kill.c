/* SPDX-License-Identifier: BSD-2-Clause
 *
 * kill.c - imports killed (SIGKILL) at any point, in every durability: what was committed is there,
 * whole; the next import goes on without a gap or a double; the end is the same rows as monerod's.
 *
 * The page cache lives on, so nothing that was committed may be lost, durable or not. A relaxed store
 * needs proof that it lived on, which not every kernel gives; without it, it may go back.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef CHAIN_ON_PAGEWISE
#include <pagewise/store.h>
#endif

#include "support.h"
#include "verify.h"

#define BLOCKS_IN_FILE 150

struct how {
	enum chain_durability durability;
	uint64_t batch, live;
};

struct pipes {
	int told[2];  /* height and commits, at each block */
	int leave[2]; /* a byte for each block that may follow */
};

static bool tell(void *ctx, const struct import_result *r)
{
	const struct pipes *p = ctx;
	uint64_t told[2] = { r->height, r->bulk.n + r->live.n };
	char byte;

	return write(p->told[1], told, sizeof(told)) == sizeof(told) &&
	       read(p->leave[0], &byte, 1) == 1;
}

/* The child. */
static void import(const char *dir, const struct buf *f, const struct how *how, struct pipes *p)
{
	struct import_options opt = {
		.batch = how->batch, .live = how->live, .progress = tell, .ctx = p
	};
	struct chain_db_options open = {
		.write = true, .map_size = (size_t)256 << 20, .durability = how->durability
	};
	struct chain_error err = { 0 };
	struct import_result r;
	struct bootstrap b;
	struct chain_db db;

	if (chain_db_open(&db, dir, &open, &err) || bootstrap_open_memory(&b, f->p, f->n, &err) ||
	    chain_import(&db, &b, &opt, &r, &err)) {
		fprintf(stderr, "import: %s\n", err.text);
		_exit(1);
	}
	chain_db_close(&db);
	_exit(0);
}

/* What is known of the child: it has told of so many blocks, and had certainly committed a height. */
struct known {
	uint64_t blocks, commits, height;
};

/* Reads on until `blocks` were told of, or the child is gone. */
static void listen(int told, uint64_t blocks, struct known *k)
{
	uint64_t said[2];

	while (k->blocks < blocks && read(told, said, sizeof(said)) == sizeof(said)) {
		k->blocks++;
		/* The first block told of after a commit is one beyond it. */
		if (said[1] > k->commits)
			k->height = said[0] - 1;
		k->commits = said[1];
	}
}

/* An import that is killed soon after its next `blocks` blocks. After a tenth of a second a relaxed
 * store makes its checkpoint. False: it had ended by itself. */
static bool import_killed(
    const char *dir, const struct buf *f, const struct how *how, size_t blocks, uint64_t *committed)
{
	bool late = how->durability == CHAIN_RELAXED && test_random() % 8 == 0;
	unsigned delay_us = (unsigned)(late ? 90000 + test_random() % 30000 : test_random() % 3000);
	char leave[32] = { 0 };
	size_t more = test_random() % 8;
	struct known known = { 0 };
	struct pipes p;
	int status;
	pid_t pid;

	assert_true(blocks + more <= sizeof(leave));
	assert_int_equal(pipe(p.told), 0);
	assert_int_equal(pipe(p.leave), 0);
	/* Before there is a child: one that has nothing left to do is gone at once. */
	assert_int_equal(write(p.leave[1], leave, blocks + more), blocks + more);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(p.told[0]);
		close(p.leave[1]);
		import(dir, f, how, &p);
	}
	close(p.told[1]);
	close(p.leave[0]);
	listen(p.told[0], blocks, &known);
	usleep(delay_us);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	listen(p.told[0], UINT64_MAX, &known);
	*committed = known.height;
	close(p.told[0]);
	close(p.leave[1]);
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return false;
	}
	assert_int_equal(WTERMSIG(status), SIGKILL);
	return true;
}

/* Will opening the store go back behind what was committed? */
static bool goes_back(const char *dir)
{
#ifdef CHAIN_ON_PAGEWISE
	struct pgw_recover_report report = { 0 };

	(void)pgw_env_recover(dir, PGW_RECOVER_CHECK, &report);
	return report.action == PGW_RECOVER_RESTORED;
#else
	return false;
#endif
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

static void killed_again_and_again(const struct how *how)
{
	struct buf f = data_file("c.raw"), m = data_file("c.monerod.mdb");
	uint64_t committed, height = 0, kills = 0, bulk = BLOCKS_IN_FILE - how->live;
	char dir[64], monerod[128];

	make_dir(dir);
	while (import_killed(dir, &f, how, 1 + test_random() % 24, &committed)) {
		bool back = goes_back(dir);
		uint64_t now = verified_height(dir);

		if (!back)
			assert_true(now >= committed && now >= height);
		assert_true(now >= bulk || now % how->batch == 0);
		height = now;
		kills++;
	}
	assert_true(kills >= 3);
	height = verified_height(dir);
	assert_int_equal(height, BLOCKS_IN_FILE);
	join(monerod, dir, "monerod.mdb");
	write_file(monerod, m.p, m.n);
	assert_same_rows(dir, monerod, all_tables);
	remove_dir(dir);
	buf_free(&f);
	buf_free(&m);
}

static void block_by_block(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_AS_SET, 1, 0 });
}

static void strict(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_STRICT, 5, 0 });
}

static void nosync(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_NOSYNC, 5, 0 });
}

/* The bulk without syncs, then durable commits, in one process. */
static void nosync_then_live(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_NOSYNC, 5, 70 });
}

#ifdef CHAIN_ON_PAGEWISE
static void group(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_GROUP, 5, 0 });
}

static void relaxed(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_RELAXED, 5, 0 });
}

static void relaxed_then_live(void **state)
{
	killed_again_and_again(&(struct how){ CHAIN_RELAXED, 5, 70 });
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(block_by_block),
		cmocka_unit_test(strict),
		cmocka_unit_test(nosync),
		cmocka_unit_test(nosync_then_live),
#ifdef CHAIN_ON_PAGEWISE
		cmocka_unit_test(group),
		cmocka_unit_test(relaxed),
		cmocka_unit_test(relaxed_then_live),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
