/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The auditor against files of stock LMDB: sound ones of every shape get no complaint and the
 * counts and content that LMDB itself reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "audit.h"
#include "image.h"
#include "shapes.h"

/* ---- what LMDB says ---- */

static struct audit_bytes bytes(MDB_val v)
{
	return (struct audit_bytes){ v.mv_data, v.mv_size };
}

static void same_stat(const struct audit_db *db, const MDB_stat *st)
{
	assert_int_equal(db->depth, st->ms_depth);
	assert_int_equal(db->entries, st->ms_entries);
	assert_int_equal(db->branch_pages, st->ms_branch_pages);
	assert_int_equal(db->leaf_pages, st->ms_leaf_pages);
	assert_int_equal(db->overflow_pages, st->ms_overflow_pages);
}

/* Compare one named database and add its content to *d. */
static void same_database(MDB_txn *txn, const struct audit_db *db, struct audit_digest *d)
{
	char name[64];
	MDB_cursor *c;
	MDB_val k, v;
	unsigned flags;
	MDB_stat st;
	MDB_dbi dbi;

	snprintf(name, sizeof(name), "%.*s", (int)db->name.n, (const char *)db->name.p);
	assert_int_equal(mdb_dbi_open(txn, name, 0, &dbi), 0);
	assert_int_equal(mdb_stat(txn, dbi, &st), 0);
	same_stat(db, &st);
	assert_int_equal(mdb_dbi_flags(txn, dbi, &flags), 0);
	assert_int_equal(db->flags, flags);
	audit_digest_add_db(d, db->name, (uint16_t)flags);
	assert_int_equal(mdb_cursor_open(txn, dbi, &c), 0);
	while (!mdb_cursor_get(c, &k, &v, MDB_NEXT))
		audit_digest_add(d, db->name, bytes(k), bytes(v));
	mdb_cursor_close(c);
}

static bool is_named(const struct audit_report *r, MDB_val name)
{
	for (size_t i = 2; i < r->n_dbs; i++) {
		if (r->dbs[i].name.n == name.mv_size &&
		    !memcmp(r->dbs[i].name.p, name.mv_data, name.mv_size))
			return true;
	}
	return false;
}

static void same_as_lmdb(const struct audit_report *r)
{
	struct audit_digest d = { { 0, 0 } };
	MDB_cursor *c;
	MDB_envinfo info;
	MDB_val k, v;
	MDB_env *env;
	MDB_txn *txn;
	MDB_stat st;
	MDB_dbi dbi;
	uint64_t free_pages = 0;

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, 128), 0);
	assert_int_equal(mdb_env_open(env, image_path, MDB_NOSUBDIR | MDB_RDONLY, 0600), 0);
	assert_int_equal(mdb_env_info(env, &info), 0);
	assert_int_equal(r->last_page, info.me_last_pgno);
	assert_int_equal(r->txnid, info.me_last_txnid);
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);

	assert_true(r->dbs[0].is_free && r->dbs[1].is_main);
	assert_int_equal(mdb_stat(txn, 0, &st), 0);
	same_stat(&r->dbs[0], &st);
	assert_int_equal(mdb_cursor_open(txn, 0, &c), 0);
	while (!mdb_cursor_get(c, &k, &v, MDB_NEXT))
		free_pages += *(size_t *)v.mv_data;
	mdb_cursor_close(c);
	assert_int_equal(r->free_pages, free_pages);
	assert_int_equal(r->used_pages + r->free_pages, r->last_page - 1);

	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	assert_int_equal(mdb_stat(txn, dbi, &st), 0);
	same_stat(&r->dbs[1], &st);
	assert_int_equal(mdb_cursor_open(txn, dbi, &c), 0);
	while (!mdb_cursor_get(c, &k, &v, MDB_NEXT)) {
		if (!is_named(r, k))
			audit_digest_add(&d, (struct audit_bytes){ NULL, 0 }, bytes(k), bytes(v));
	}
	mdb_cursor_close(c);
	for (size_t i = 2; i < r->n_dbs; i++)
		same_database(txn, &r->dbs[i], &d);
	assert_true(audit_digest_equal(d, r->digest));
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* ---- tests ---- */

static void audit_shape(const struct shape *s, unsigned flags)
{
	struct audit_report r;
	uint8_t *p;
	size_t len;

	assert_int_equal(shape_create(s, image_path, flags), 0);
	p = image_map(&len);
	assert_int_equal(audit_memory(p, len, NULL, &r), 0);
	if (!audit_sound(&r) || r.notes) {
		fprintf(stderr, "shape %s:\n", s->name);
		audit_print_text(stderr, &r);
	}
	assert_true(audit_sound(&r));
	assert_int_equal(r.notes, 0);
	same_as_lmdb(&r);
	audit_finish(&r);
	munmap(p, len);
	assert_int_equal(unlink(image_path), 0);
}

static void every_shape(void **state)
{
	for (size_t i = 0; i < n_shapes; i++)
		audit_shape(&shapes[i], 0);
}

static void every_shape_writemap(void **state)
{
	for (size_t i = 0; i < n_shapes; i++)
		audit_shape(&shapes[i], MDB_WRITEMAP);
}

/* The snapshot before the last is still whole, and is another one. */
static void older_snapshot(void **state)
{
	struct audit_options opt = { 0 };
	struct audit_report now, before;
	uint8_t *p;
	size_t len;

	assert_int_equal(shape_create(shape_find("churn"), image_path, 0), 0);
	p = image_map(&len);
	assert_int_equal(audit_memory(p, len, NULL, &now), 0);
	opt.txnid = now.txnid - 1;
	assert_int_equal(audit_memory(p, len, &opt, &before), 0);
	assert_true(audit_sound(&before));
	assert_int_equal(before.txnid, now.txnid - 1);
	assert_false(audit_digest_equal(now.digest, before.digest));
	audit_finish(&before);

	opt.txnid = now.txnid - 2;
	assert_int_equal(audit_memory(p, len, &opt, &before), 0);
	assert_false(before.readable);
	assert_int_equal(before.count[AUDIT_META_TXNID], 1);
	audit_finish(&before);
	audit_finish(&now);
	munmap(p, len);
	assert_int_equal(unlink(image_path), 0);
}

static void add_and_take_away(void **state)
{
	const struct audit_bytes db = { (const uint8_t *)"db", 2 },
				 a = { (const uint8_t *)"ab", 2 }, b = { (const uint8_t *)"c", 1 };
	struct audit_digest x = { { 0, 0 } }, y = { { 0, 0 } };

	audit_digest_add(&x, db, a, b);
	audit_digest_add(&x, db, b, a);
	audit_digest_add_db(&x, db, 4);
	audit_digest_add_db(&y, db, 4);
	audit_digest_add(&y, db, b, a);
	assert_false(audit_digest_equal(x, y));
	audit_digest_add(&y, db, a, b);
	assert_true(audit_digest_equal(x, y));
	audit_digest_sub(&y, db, a, b);
	audit_digest_sub(&y, db, b, a);
	audit_digest_sub_db(&y, db, 4);
	assert_true(audit_digest_equal(y, (struct audit_digest){ { 0, 0 } }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape),
		cmocka_unit_test(every_shape_writemap),
		cmocka_unit_test(older_snapshot),
		cmocka_unit_test(add_and_take_away),
	};

	return cmocka_run_group_tests(tests, image_setup, image_teardown);
}
