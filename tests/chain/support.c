/* SPDX-License-Identifier: BSD-2-Clause
 *
 * support.c - see support.h.
 */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verify.h"

void buf_put(struct buf *b, const void *data, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		b->p = realloc(b->p, b->cap);
		assert_non_null(b->p);
	}
	if (n > 0)
		memcpy(b->p + b->n, data, n);
	b->n += n;
}

void buf_free(struct buf *b)
{
	free(b->p);
	memset(b, 0, sizeof(*b));
}

uint64_t test_random(void)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

void buf_random(struct buf *b, size_t n)
{
	while (n > 0) {
		uint64_t v = test_random();
		size_t part = n < sizeof(v) ? n : sizeof(v);

		buf_put(b, &v, part);
		n -= part;
	}
}

void buf_u32(struct buf *b, uint32_t v)
{
	buf_put(b, &v, sizeof(v));
}

void buf_varint(struct buf *b, uint64_t v)
{
	uint8_t byte;

	for (; v >= 0x80; v >>= 7) {
		byte = (uint8_t)(v | 0x80);
		buf_put(b, &byte, 1);
	}
	byte = (uint8_t)v;
	buf_put(b, &byte, 1);
}

struct buf data_file(const char *name)
{
	struct buf b = { 0 };
	char path[512];
	uint8_t part[65536];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", name[0] == '/' ? "" : CHAIN_DATA "/", name);
	f = fopen(path, "rb");
	assert_non_null(f);
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_put(&b, part, n);
	assert_int_equal(ferror(f), 0);
	fclose(f);
	return b;
}

void write_file(const char *path, const void *data, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

void make_dir(char path[64])
{
	strcpy(path, "chain-test-XXXXXX");
	assert_non_null(mkdtemp(path));
}

void remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
	closedir(d);
	assert_int_equal(rmdir(path), 0);
}

void join(char out[128], const char *dir, const char *name)
{
	assert_true((size_t)snprintf(out, 128, "%s/%s", dir, name) < 128);
}

void assert_fine(int rc, const struct chain_error *err)
{
	if (rc < 0 || err->kind != CHAIN_OK)
		fail_msg("%s", err->text);
}

void assert_error(
    int rc, const struct chain_error *err, enum chain_error_kind kind, const char *part)
{
	if (rc >= 0)
		fail_msg("no error, where one with '%s' was due", part);
	if (!strstr(err->text, part) || err->kind != kind)
		fail_msg(
		    "error %d '%s', where %d '...%s...' was due", err->kind, err->text, kind, part);
}

void open_store(struct chain_db *db, const char *dir)
{
	struct chain_db_options opt = { .write = true, .map_size = (size_t)256 << 20 };
	struct chain_error err = { 0 };

	assert_fine(chain_db_open(db, dir, &opt, &err), &err);
}

int import_bytes(const char *dir, const void *data, size_t n, uint64_t batch,
    struct import_result *r, struct chain_error *err)
{
	struct import_options opt = { .batch = batch };
	struct bootstrap b;
	struct chain_db db;
	int rc;

	open_store(&db, dir);
	/* What a kill leaves does not depend on it, and tests import hundreds of times. */
	assert_int_equal(mdb_env_set_flags(db.env, MDB_NOSYNC, 1), 0);
	rc = bootstrap_open_memory(&b, data, n, err);
	if (!rc)
		rc = chain_import(&db, &b, &opt, r, err);
	bootstrap_close(&b);
	chain_db_close(&db);
	return rc;
}

void verify_store(const char *dir, uint64_t blocks)
{
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct verify_result r;
	struct chain_db db;

	assert_fine(chain_db_open(&db, dir, &opt, &err), &err);
	assert_fine(chain_verify(&db, &r, &err), &err);
	assert_int_equal(r.blocks, blocks);
	chain_db_close(&db);
}

/* ---- comparing databases ---- */

const char *const all_tables[] = { "blocks", "block_info", "block_heights", "txs_pruned",
	"txs_prunable", "txs_prunable_hash", "tx_indices", "tx_outputs", "output_txs",
	"output_amounts", "spent_keys", "hf_versions", NULL };

struct walk {
	MDB_env *env;
	MDB_txn *txn;
	MDB_cursor *cur;
	unsigned flags;
};

static void walk_open(struct walk *w, const char *path)
{
	struct stat st;
	unsigned sub;

	assert_int_equal(stat(path, &st), 0);
	sub = S_ISDIR(st.st_mode) ? 0 : MDB_NOSUBDIR;
	assert_int_equal(mdb_env_create(&w->env), 0);
	assert_int_equal(mdb_env_set_maxdbs(w->env, 40), 0);
	assert_int_equal(mdb_env_open(w->env, path, sub | MDB_RDONLY | MDB_NOLOCK, 0644), 0);
	assert_int_equal(mdb_txn_begin(w->env, NULL, MDB_RDONLY, &w->txn), 0);
}

static void walk_table(struct walk *w, const char *name)
{
	MDB_dbi dbi;

	assert_int_equal(mdb_dbi_open(w->txn, name, 0, &dbi), 0);
	assert_int_equal(mdb_dbi_flags(w->txn, dbi, &w->flags), 0);
	assert_int_equal(mdb_cursor_open(w->txn, dbi, &w->cur), 0);
}

static void walk_close(struct walk *w)
{
	mdb_txn_abort(w->txn);
	mdb_env_close(w->env);
}

static void assert_same_val(const char *table, size_t row, const MDB_val *a, const MDB_val *b)
{
	if (a->mv_size != b->mv_size || memcmp(a->mv_data, b->mv_data, a->mv_size) != 0)
		fail_msg("table %s differs in its row %zu", table, row);
}

static void assert_same_table(struct walk *a, struct walk *b, const char *name)
{
	MDB_val ka, va, kb, vb;
	int ra, rb;

	walk_table(a, name);
	walk_table(b, name);
	assert_int_equal(a->flags, b->flags);
	for (size_t row = 0;; row++) {
		ra = mdb_cursor_get(a->cur, &ka, &va, MDB_NEXT);
		rb = mdb_cursor_get(b->cur, &kb, &vb, MDB_NEXT);
		if (ra != rb)
			fail_msg("table %s: one ends at row %zu, the other does not", name, row);
		if (ra) {
			assert_int_equal(ra, MDB_NOTFOUND);
			break;
		}
		assert_same_val(name, row, &ka, &kb);
		assert_same_val(name, row, &va, &vb);
	}
	mdb_cursor_close(a->cur);
	mdb_cursor_close(b->cur);
}

void assert_same_rows(const char *path_a, const char *path_b, const char *const *names)
{
	struct walk a, b;

	walk_open(&a, path_a);
	walk_open(&b, path_b);
	for (; *names; names++)
		assert_same_table(&a, &b, *names);
	walk_close(&a);
	walk_close(&b);
}
