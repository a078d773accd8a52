/* SPDX-License-Identifier: BSD-2-Clause
 *
 * judge.c - is this image what a crash may leave? (judge.h)
 */
#include "judge.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Stock LMDB, beside the store's own in the same process. */
#define STOCK_FUNCTIONS(X)     \
	X(mdb_env_create)      \
	X(mdb_env_set_maxdbs)  \
	X(mdb_env_set_mapsize) \
	X(mdb_env_open)        \
	X(mdb_env_close)       \
	X(mdb_txn_begin)       \
	X(mdb_txn_commit)      \
	X(mdb_txn_abort)       \
	X(mdb_txn_id)          \
	X(mdb_dbi_open)        \
	X(mdb_dbi_flags)       \
	X(mdb_cursor_open)     \
	X(mdb_cursor_close)    \
	X(mdb_cursor_get)      \
	X(mdb_put)             \
	X(mdb_del)             \
	X(mdb_strerror)

static struct {
/* A member has the name: no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define X(name) __typeof__(&name) name;
	STOCK_FUNCTIONS(X)
#undef X
} stock;

static char text[256];

static bool load(void *handle)
{
#define X(name)                                       \
	*(void **)&stock.name = dlsym(handle, #name); \
	if (!stock.name)                              \
		return false;
	STOCK_FUNCTIONS(X)
#undef X
	return true;
}

int judge_init(struct judge *j, const char *dir)
{
	memset(j, 0, sizeof(*j));
	j->stock = dlopen("liblmdb.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!j->stock || !load(j->stock)) {
		fprintf(stderr, "stock LMDB (liblmdb.so.0) is not there: %s\n", dlerror());
		return -ENOENT;
	}
	snprintf(j->path, sizeof(j->path), "%s/image", dir);
	return 0;
}

void judge_finish(struct judge *j)
{
	if (j->path[0])
		unlink(j->path);
	if (j->stock)
		dlclose(j->stock);
	j->stock = NULL;
}

void judge_save(const char *path, const uint8_t *image, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t done = 0;

	while (fd >= 0 && done < len) {
		ssize_t n = write(fd, image + done, len - done);

		if (n < 0)
			break;
		done += (size_t)n;
	}
	if (fd < 0 || done < len) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* ---- stock LMDB ---- */

static struct audit_bytes bytes(MDB_val v)
{
	return (struct audit_bytes){ v.mv_data, v.mv_size };
}

/* Content of one named database, by LMDB's cursors. */
static int digest_database(MDB_txn *txn, MDB_val name, struct audit_digest *d)
{
	char text_name[64];
	MDB_cursor *c;
	unsigned flags;
	MDB_val k, v;
	MDB_dbi dbi;
	int rc;

	snprintf(text_name, sizeof(text_name), "%.*s", (int)name.mv_size, (char *)name.mv_data);
	rc = stock.mdb_dbi_open(txn, text_name, 0, &dbi);
	if (!rc)
		rc = stock.mdb_dbi_flags(txn, dbi, &flags);
	if (!rc)
		rc = stock.mdb_cursor_open(txn, dbi, &c);
	if (rc)
		return rc;
	audit_digest_add_db(d, bytes(name), (uint16_t)flags);
	while (!(rc = stock.mdb_cursor_get(c, &k, &v, MDB_NEXT)))
		audit_digest_add(d, bytes(name), bytes(k), bytes(v));
	stock.mdb_cursor_close(c);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int digest_all(MDB_txn *txn, struct audit_digest *d)
{
	MDB_cursor *c;
	MDB_val k, v;
	MDB_dbi dbi;
	int rc = stock.mdb_dbi_open(txn, NULL, 0, &dbi);

	if (!rc)
		rc = stock.mdb_cursor_open(txn, dbi, &c);
	if (rc)
		return rc;
	while (!(rc = stock.mdb_cursor_get(c, &k, &v, MDB_NEXT))) {
		rc = digest_database(txn, k, d);
		if (rc)
			break;
	}
	stock.mdb_cursor_close(c);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int stock_open(const struct judge *j, unsigned flags, MDB_env **env)
{
	int rc = stock.mdb_env_create(env);

	if (rc)
		return rc;
	rc = stock.mdb_env_set_maxdbs(*env, 32);
	if (!rc && !(flags & MDB_RDONLY))
		rc = stock.mdb_env_set_mapsize(*env, 64u << 20);
	if (!rc)
		rc = stock.mdb_env_open(
		    *env, j->path, flags | MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
	if (rc)
		stock.mdb_env_close(*env);
	return rc;
}

static int stock_read(const struct judge *j, uint64_t *txnid, struct audit_digest *d)
{
	MDB_env *env;
	MDB_txn *txn;
	int rc = stock_open(j, MDB_RDONLY, &env);

	if (rc)
		return rc;
	rc = stock.mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc) {
		*txnid = stock.mdb_txn_id(txn);
		rc = digest_all(txn, d);
		stock.mdb_txn_abort(txn);
	}
	stock.mdb_env_close(env);
	return rc;
}

static int one_write(MDB_env *env, uint64_t seed)
{
	static char value[6000];
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = stock.mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = stock.mdb_dbi_open(txn, "after the cut", MDB_CREATE, &dbi);
	for (uint64_t i = 0; !rc && i < 40; i++) {
		uint64_t key = seed * 40 + i;
		MDB_val k = { 8, &key }, v = { 1 + (key * 977) % sizeof(value), value };

		rc = stock.mdb_put(txn, dbi, &k, &v, 0);
	}
	if (!rc)
		return stock.mdb_txn_commit(txn);
	stock.mdb_txn_abort(txn);
	return rc;
}

/* A few transactions, which take pages from the free list. */
static int stock_write(const struct judge *j)
{
	MDB_env *env;
	int rc = stock_open(j, 0, &env);

	if (rc)
		return rc;
	for (uint64_t i = 0; !rc && i < 4; i++)
		rc = one_write(env, i);
	stock.mdb_env_close(env);
	return rc;
}

/* ---- the verdict ---- */

static const char *first_problem(const struct audit_report *r)
{
	FILE *f = fmemopen(text, sizeof(text) - 1, "w");

	memset(text, 0, sizeof(text));
	if (f && r->n_problems)
		audit_print_problem(f, &r->problems[0]);
	else if (f)
		fputs("no snapshot", f);
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static const char *right_content(
    const struct history *h, const char *who, uint64_t txnid, const struct audit_digest *d)
{
	if (txnid < h->acknowledged) {
		snprintf(text, sizeof(text),
		    "%s: transaction %" PRIu64 " is found, %" PRIu64 " was acknowledged", who,
		    txnid, h->acknowledged);
		return text;
	}
	if (txnid < h->first || txnid > h->last) {
		snprintf(text, sizeof(text),
		    "%s: transaction %" PRIu64 " is found, which was never made", who, txnid);
		return text;
	}
	if (!audit_digest_equal(h->digest[txnid - h->first], *d)) {
		snprintf(text, sizeof(text),
		    "%s: transaction %" PRIu64 " does not have the content it was committed with",
		    who, txnid);
		return text;
	}
	return NULL;
}

static const char *audited(
    const uint8_t *image, size_t len, const struct history *h, uint64_t *txnid, bool *readable)
{
	struct audit_report r;
	const char *why = NULL;

	if (audit_memory(image, len, NULL, &r))
		return "auditor: out of memory";
	*readable = r.readable;
	*txnid = r.txnid;
	if (!r.readable && h->acknowledged)
		why = first_problem(&r);
	else if (r.readable && r.meta_ok[0] && r.meta_ok[1] && !audit_sound(&r))
		why = first_problem(&r);
	else if (r.readable && r.meta_ok[0] && r.meta_ok[1])
		why = right_content(h, "auditor", r.txnid, &r.digest);
	else if (h->acknowledged)
		why = first_problem(&r);
	audit_finish(&r);
	return why;
}

static const char *stock_error(const char *what, int rc)
{
	snprintf(text, sizeof(text), "stock LMDB, %s: %s", what, stock.mdb_strerror(rc));
	return text;
}

/* Write to the image at j->path and audit it again. */
static const char *still_sound_after_writes(const struct judge *j)
{
	static uint8_t *buf;
	static const size_t max = 64u << 20;
	struct audit_report r;
	const char *why = NULL;
	ssize_t n;
	int fd, rc = stock_write(j);

	if (rc)
		return stock_error("writing", rc);
	if (!buf)
		buf = malloc(max);
	fd = open(j->path, O_RDONLY | O_CLOEXEC);
	n = buf && fd >= 0 ? read(fd, buf, max) : -1;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return "cannot read the image again";
	if (audit_memory(buf, (size_t)n, NULL, &r))
		return "auditor: out of memory";
	if (!audit_sound(&r))
		why = first_problem(&r);
	audit_finish(&r);
	return why;
}

const char *judge_image(struct judge *j, const uint8_t *image, size_t len, const struct history *h,
    bool write, uint64_t *txnid)
{
	struct audit_digest d = { { 0, 0 } };
	uint64_t stock_txnid = 0;
	const char *why;
	bool readable;
	int rc;

	j->images++;
	why = audited(image, len, h, txnid, &readable);
	/* Before the first acknowledgement the file may be no database yet; LMDB refuses it then,
	 * or starts anew. */
	if (why || !h->acknowledged)
		return why;
	judge_save(j->path, image, len);
	j->opened++;
	rc = stock_read(j, &stock_txnid, &d);
	if (rc)
		return stock_error("reading", rc);
	why = right_content(h, "stock LMDB", stock_txnid, &d);
	if (why || !write)
		return why;
	j->written++;
	return still_sound_after_writes(j);
}
