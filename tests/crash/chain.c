/* SPDX-License-Identifier: BSD-2-Clause
 *
 * chain.c - the power goes while a chain is imported (examples/chain), on the simulated disk.
 *
 * usage: chain-cut strict|group|relaxed|nosync CHAIN-FILE
 *
 * Block by block; images are taken before each barrier and between blocks. Each must open, must
 * verify as a chain that has at least the blocks that were promised to be durable, and must take
 * the rest of the file and verify again. With nosync nothing is promised; there the images must
 * show ruins, or this test could not see any.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk.h"
#include "import.h"
#include "judge.h"
#include "record.h"
#include "recovering.h"
#include "verify.h"

#define FILE_MAX_BYTES ((size_t)16 << 20)
#define TXNS_MAX       1024
#define IMAGES_MAX     160
#define EXT4	       0xef53
#define BLOCK_US       4000 /* between blocks, so that a relaxed store makes its checkpoints */

struct image {
	uint8_t *bytes;
	size_t len;
	enum disk_cut how;
	uint64_t promised; /* blocks that must be there */
	const char *why;   /* it could not be recovered */
};

struct test {
	enum chain_durability durability;
	const char *file;
	char dir[64], path[128], other[128], other_file[160];
	struct disk disk;
	struct rng rng;
	struct recovering recovering;
	uint8_t *scratch;
	struct image images[IMAGES_MAX];
	size_t n;
	struct chain_db db;
	bool open;
	uint64_t heights[TXNS_MAX]; /* of the chain, by transaction */
	uint64_t promised;
	uint64_t calls; /* places where an image could be taken */
};

static struct test t;

_Noreturn static void die(const char *what, const struct chain_error *err)
{
	fprintf(stderr, "chain-cut: %s: %s\n", what, err ? err->text : strerror(errno));
	exit(1);
}

/* ---- images ---- */

/* The lock of the recording is held. */
static void take_image(enum disk_cut how)
{
	struct image *i = &t.images[t.n];

	if (t.n == IMAGES_MAX)
		return;
	i->how = how;
	i->promised = t.promised;
	i->len = disk_cut(&t.disk, how, &t.rng, t.scratch);
	if (t.durability == CHAIN_GROUP || t.durability == CHAIN_RELAXED)
		i->why = recovering_image(&t.recovering, t.scratch, &i->len, FILE_MAX_BYTES,
		    rng_below(&t.rng, 8) == 0, &t.rng);
	i->why = i->why ? strdup(i->why) : NULL;
	i->bytes = malloc(i->len + 1);
	if (!i->bytes)
		die("image", NULL);
	memcpy(i->bytes, t.scratch, i->len);
	t.n++;
}

/* One in so many places, so that the images are from all over the import. */
static bool chosen(unsigned one_in)
{
	return t.open && rng_below(&t.rng, one_in) == 0;
}

static void before_barrier(void *arg)
{
	if (chosen(8))
		take_image((enum disk_cut)rng_below(&t.rng, CUT_COUNT));
}

/* What the engine says is durable now, in blocks. */
static void look_at_promise(uint64_t committed)
{
	uint64_t durable;
	MDB_envinfo info;

	if (mdb_env_info(t.db.env, &info) || info.me_last_txnid >= TXNS_MAX)
		die("more transactions than expected", NULL);
	t.heights[info.me_last_txnid] = committed;
	durable = engine_durable_txnid(&t.db);
	if (durable && t.heights[durable] > t.promised)
		t.promised = t.heights[durable];
}

/* Between two blocks: the last commit has returned, the block just told of is not committed. */
static bool between_blocks(void *ctx, const struct import_result *r)
{
	record_lock();
	look_at_promise(r->height - 1);
	if (chosen(3))
		take_image((enum disk_cut)rng_below(&t.rng, CUT_COUNT));
	record_unlock();
	usleep(BLOCK_US);
	return true;
}

/* ---- the import ---- */

static void import(void)
{
	struct chain_db_options how = {
		.write = true, .durability = t.durability, .map_size = FILE_MAX_BYTES
	};
	struct import_options opt = { .batch = 1, .progress = between_blocks };
	struct record_options rec = {
		.path = t.path, .fs_magic = EXT4, .before_barrier = before_barrier
	};
	struct chain_error err = { 0 };
	struct import_result r;
	struct bootstrap b;

	disk_init(&t.disk, FILE_MAX_BYTES);
	record_start(&rec, &t.disk);
	if (chain_db_open(&t.db, t.dir, &how, &err) || bootstrap_open(&b, t.file, &err))
		die("open", &err);
	t.open = true;
	if (chain_import(&t.db, &b, &opt, &r, &err))
		die("import", &err);
	bootstrap_close(&b);
	t.open = false;
	record_stop();
	chain_db_close(&t.db);
	disk_finish(&t.disk);
	if (record_failure())
		die(record_failure(), NULL);
}

/* ---- the judgement ---- */

/* Verifies the store; -1 if it is none or damaged. */
static int verified(uint64_t *blocks, struct chain_error *err)
{
	struct chain_db_options read = { 0 };
	struct verify_result v;
	struct chain_db db;
	int rc;

	if (chain_db_open(&db, t.other, &read, err)) {
		*blocks = 0;
		return err->kind == CHAIN_REFUSED ? 0 : -1;
	}
	rc = chain_verify(&db, &v, err);
	*blocks = v.blocks;
	chain_db_close(&db);
	return rc;
}

static int go_on(struct chain_error *err)
{
	struct chain_db_options how = {
		.write = true, .durability = CHAIN_NOSYNC, .map_size = FILE_MAX_BYTES
	};
	struct import_options opt = { .batch = 1000 };
	struct import_result r;
	struct bootstrap b;
	struct chain_db db;
	int rc;

	if (chain_db_open(&db, t.other, &how, err) || bootstrap_open(&b, t.file, err))
		return -1;
	rc = chain_import(&db, &b, &opt, &r, err);
	bootstrap_close(&b);
	chain_db_close(&db);
	return rc;
}

/* NULL, or what is wrong with the image. */
static const char *judge(const struct image *i, uint64_t *blocks, struct chain_error *err)
{
	struct chain_error later = { 0 };
	uint64_t all;

	*blocks = 0;
	if (i->why)
		return i->why;
	judge_save(t.other_file, i->bytes, i->len);
	if (verified(blocks, err))
		return err->text;
	if (*blocks < i->promised)
		return "blocks that were durable are gone";
	if (go_on(&later) || verified(&all, &later)) {
		*err = later;
		return err->text;
	}
	return NULL;
}

/* In a process of its own: a ruin may also be a crash of LMDB. */
static bool judge_apart(const struct image *i, size_t number)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct chain_error err = { 0 };
		uint64_t blocks;
		const char *why = judge(i, &blocks, &err);

		if (why && t.durability != CHAIN_NOSYNC)
			fprintf(stderr,
			    "image %zu, cut %s: %" PRIu64 " blocks, %" PRIu64 " promised: %s\n",
			    number, disk_cut_name(i->how), blocks, i->promised, why);
		_exit(why ? 1 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		die("fork", NULL);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static size_t judge_all(void)
{
	char lock[192];
	size_t bad = 0;

	snprintf(lock, sizeof(lock), "%s/lock.mdb", t.other);
	for (size_t i = 0; i < t.n; i++) {
		(void)unlink(t.other_file);
		(void)unlink(lock);
		bad += !judge_apart(&t.images[i], i);
		free(t.images[i].bytes);
		free((void *)t.images[i].why);
	}
	(void)unlink(lock);
	(void)unlink(t.other_file);
	(void)rmdir(t.other);
	return bad;
}

static void make_places(void)
{
	/* In memory, where it can be: every call compares the whole file. */
	strcpy(t.dir, access("/dev/shm", W_OK) ? "chain-cut-XXXXXX" : "/dev/shm/chain-cut-XXXXXX");
	if (!mkdtemp(t.dir))
		die(t.dir, NULL);
	snprintf(t.path, sizeof(t.path), "%s/data.mdb", t.dir);
	snprintf(t.other, sizeof(t.other), "%s/other", t.dir);
	snprintf(t.other_file, sizeof(t.other_file), "%s/data.mdb", t.other);
	t.scratch = malloc(FILE_MAX_BYTES);
	if (!t.scratch || mkdir(t.other, 0700) || recovering_init(&t.recovering, t.dir))
		die(t.dir, NULL);
}

static void remove_places(void)
{
	char lock[128];

	recovering_finish(&t.recovering);
	snprintf(lock, sizeof(lock), "%s/lock.mdb", t.dir);
	(void)unlink(lock);
	(void)unlink(t.path);
	(void)rmdir(t.dir);
	free(t.scratch);
}

int main(int argc, char **argv)
{
	size_t bad, images;
	bool good;

	if (argc != 3 || !chain_durability_parse(argv[1], &t.durability)) {
		fputs("usage: chain-cut strict|group|relaxed|nosync CHAIN-FILE\n", stderr);
		return 2;
	}
	t.file = argv[2];
	t.rng = (struct rng){ 1 };
	make_places();
	import();
	images = t.n;
	bad = judge_all();
	remove_places();
	good = t.durability == CHAIN_NOSYNC ? bad > 0 : bad == 0;
	fprintf(stderr, "%s: %zu images, %zu of them bad; up to %" PRIu64 " blocks were promised\n",
	    argv[1], images, bad, t.promised);
	/* With enough to see, and with a promise that could be broken. */
	good = good && images >= 20 && (t.promised > 0) == (t.durability != CHAIN_NOSYNC);
	return good ? 0 : 1;
}
