/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tables.c - see tables.h.
 */
#include "tables.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine.h"
#include "folder.h"
#include "prune.h"

_Static_assert(sizeof(struct row_block_info) == 96, "no padding");
_Static_assert(sizeof(struct row_block_height) == 40, "no padding");
_Static_assert(sizeof(struct row_tx_index) == 56, "no padding");
_Static_assert(sizeof(struct row_output_tx) == 48, "no padding");
_Static_assert(sizeof(struct row_output) == 96, "no padding");
_Static_assert(sizeof(struct row_pool_meta) == 192, "no padding");
_Static_assert(sizeof(struct row_alt_block) == 40, "no padding");

/* Room for Monero's other tables in a database that monerod wrote. */
#define MAX_TABLES 40

#define DUP (MDB_DUPSORT | MDB_DUPFIXED)

/* Rows found by their first eight bytes, as a number. */
static int compare_u64(const MDB_val *a, const MDB_val *b)
{
	uint64_t x, y;

	memcpy(&x, a->mv_data, sizeof(x));
	memcpy(&y, b->mv_data, sizeof(y));
	return (x > y) - (x < y);
}

/* Rows found by their first 32 bytes: eight words, the last the most significant. */
static int compare_hash(const MDB_val *a, const MDB_val *b)
{
	uint32_t x[8], y[8];

	memcpy(x, a->mv_data, sizeof(x));
	memcpy(y, b->mv_data, sizeof(y));
	for (int i = 7; i >= 0; i--)
		if (x[i] != y[i])
			return x[i] > y[i] ? 1 : -1;
	return 0;
}

/* Orders without which LMDB's own hold. */
static const struct {
	const char *name;
	unsigned flags;
	MDB_cmp_func *dup_order, *key_order;
} tables[ALL_TABLES] = {
	[BLOCKS] = { .name = "blocks", .flags = MDB_INTEGERKEY },
	[BLOCK_INFO] = { .name = "block_info",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_u64 },
	[BLOCK_HEIGHTS] = { .name = "block_heights",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_hash },
	[TXS_PRUNED] = { .name = "txs_pruned", .flags = MDB_INTEGERKEY },
	[TXS_PRUNABLE] = { .name = "txs_prunable", .flags = MDB_INTEGERKEY },
	[TXS_PRUNABLE_HASH] = { .name = "txs_prunable_hash",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_u64 },
	[TX_INDICES] = { .name = "tx_indices",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_hash },
	[TX_OUTPUTS] = { .name = "tx_outputs", .flags = MDB_INTEGERKEY },
	[OUTPUT_TXS] = { .name = "output_txs",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_u64 },
	[OUTPUT_AMOUNTS] = { .name = "output_amounts",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_u64 },
	[SPENT_KEYS] = { .name = "spent_keys",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_hash },
	[HF_VERSIONS] = { .name = "hf_versions", .flags = MDB_INTEGERKEY },
	[TXS_PRUNABLE_TIP] = { .name = "txs_prunable_tip",
	    .flags = MDB_INTEGERKEY | DUP,
	    .dup_order = compare_u64 },
	[PROPERTIES] = { .name = "properties", .flags = 0 },
	[ALT_BLOCKS] = { .name = "alt_blocks", .flags = 0, .key_order = compare_hash },
	[TXPOOL_META] = { .name = "txpool_meta", .flags = 0, .key_order = compare_hash },
	[TXPOOL_BLOB] = { .name = "txpool_blob", .flags = 0, .key_order = compare_hash },
	[TXS] = { .name = "txs", .flags = MDB_INTEGERKEY },
};

const char *chain_table_name(enum chain_table t)
{
	return tables[t].name;
}

void chain_error_set_db(struct chain_error *err, int rc, const char *what)
{
	if (rc == MDB_MAP_FULL)
		chain_error_set(err, CHAIN_SYSTEM,
		    "%s: the map is full; give a larger one with --map-size=GiB", what);
	else
		chain_error_set(err, CHAIN_SYSTEM, "%s: %s", what, mdb_strerror(rc));
}

static int open_table(
    struct chain_db *db, MDB_txn *txn, enum chain_table t, bool create, struct chain_error *err)
{
	unsigned flags;
	int rc;

	rc = mdb_dbi_open(
	    txn, tables[t].name, tables[t].flags | (create ? MDB_CREATE : 0), &db->dbi[t]);
	if (rc == MDB_NOTFOUND && t >= CHAIN_TABLES)
		return 0;
	if (rc == MDB_NOTFOUND)
		return chain_fail(
		    err, CHAIN_REFUSED, "no table %s: no chain is stored here", tables[t].name);
	db->present[t] = true;
	if (!rc)
		rc = mdb_dbi_flags(txn, db->dbi[t], &flags);
	if (!rc && flags != tables[t].flags)
		return chain_fail(err, CHAIN_REFUSED,
		    "table %s has flags 0x%x where Monero's has 0x%x: not a chain", tables[t].name,
		    flags, tables[t].flags);
	if (!rc && tables[t].dup_order)
		rc = mdb_set_dupsort(txn, db->dbi[t], tables[t].dup_order);
	if (!rc && tables[t].key_order)
		rc = mdb_set_compare(txn, db->dbi[t], tables[t].key_order);
	return rc ? chain_fail_db(err, rc, tables[t].name) : 0;
}

static int check_schema(struct chain_db *db, MDB_txn *txn, bool create, struct chain_error *err)
{
	uint32_t version = CHAIN_SCHEMA;
	int rc;

	if (!db->present[PROPERTIES])
		return 0;
	rc = chain_property(txn, db, "version", &version, sizeof(version), err);
	if (rc < 0)
		return -1;
	if (rc > 0 && version != CHAIN_SCHEMA)
		return chain_fail(err, CHAIN_REFUSED,
		    "the tables are of version %u, and this program is of %d", version,
		    CHAIN_SCHEMA);
	return rc > 0 || !create
		   ? 0
		   : chain_set_property(txn, db, "version", &version, sizeof(version), err);
}

static int open_tables(struct chain_db *db, bool create, struct chain_error *err)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(db->env, NULL, db->read_only ? MDB_RDONLY : 0, &txn);

	if (rc)
		return chain_fail_db(err, rc, "begin");
	for (int t = 0; t < ALL_TABLES; t++) {
		if (open_table(db, txn, t, create, err)) {
			mdb_txn_abort(txn);
			return -1;
		}
	}
	if (check_schema(db, txn, create, err)) {
		mdb_txn_abort(txn);
		return -1;
	}
	/* Committed also when read-only: else the handles would not outlive the transaction. */
	rc = mdb_txn_commit(txn);
	return rc ? chain_fail_db(err, rc, "commit") : 0;
}

static int open_env(
    struct chain_db *db, const char *path, unsigned flags, size_t map_size, struct chain_error *err)
{
	int rc = mdb_env_create(&db->env);

	if (!rc)
		rc = mdb_env_set_maxdbs(db->env, MAX_TABLES);
	if (!rc && map_size)
		rc = mdb_env_set_mapsize(db->env, map_size);
	if (!rc)
		rc = mdb_env_open(db->env, path, flags, 0644);
	if (!rc)
		return 0;
	/* LMDB wants the handle closed after a failed open as well. */
	if (db->env)
		mdb_env_close(db->env);
	db->env = NULL;
	/* Read-only medium, or somebody else's directory: no place for a lock file. */
	if ((rc == EACCES || rc == EROFS) && db->read_only && !db->no_lock) {
		db->no_lock = true;
		return open_env(db, path, flags | MDB_NOLOCK, map_size, err);
	}
	if (rc == ENOMEM && map_size)
		return chain_fail(err, CHAIN_SYSTEM,
		    "%s: cannot map %zu GiB of address space; give a smaller --map-size=GiB", path,
		    map_size >> 30);
	if (rc == ENOMEM)
		return chain_fail(err, CHAIN_SYSTEM,
		    "%s: cannot map as much address space as its writer reserved; raise the limit "
		    "(ulimit -v)",
		    path);
	if (rc == EFBIG && map_size)
		return chain_fail(err, CHAIN_SYSTEM,
		    "%s: the file system, or ulimit -f, allows no file of %zu GiB; give a smaller "
		    "--map-size=GiB",
		    path, map_size >> 30);
	return chain_fail_db(err, rc, path);
}

static bool has_data_file(const char *dir)
{
	char file[PATH_MAX];
	struct stat st;
	int n = snprintf(file, sizeof(file), "%s/data.mdb", dir);

	/* An empty one is what is left when the first writer ended before it wrote anything. */
	return n > 0 && (size_t)n < sizeof(file) && stat(file, &st) == 0 && st.st_size > 0;
}

/* Also on the disk: a commit that is durable in a directory that is not would be lost with it. */
static int make_directory(const char *path, struct chain_error *err)
{
	int rc;

	if (mkdir(path, 0755))
		return errno == EEXIST
			   ? 0
			   : chain_fail(err, CHAIN_SYSTEM, "%s: cannot make the directory: %s",
				 path, strerror(errno));
	rc = folder_sync(path);
	return rc ? chain_fail(err, CHAIN_SYSTEM, "%s: cannot sync the directory it is in: %s",
			path, strerror(rc))
		  : 0;
}

int chain_db_open(struct chain_db *db, const char *path, const struct chain_db_options *opt,
    struct chain_error *err)
{
	/* A reader of a whole chain, and random look-ups by hash: read-ahead helps neither. */
	unsigned flags = MDB_NORDAHEAD;
	bool create = opt->write && !opt->existing;
	size_t map_size = 0;
	struct stat st;

	memset(db, 0, sizeof(*db));
	db->read_only = !opt->write;
	db->durability = opt->durability;
	db->prune_rule = (struct prune_rule){ PRUNE_STRIPE_BLOCKS, PRUNE_TIP_BLOCKS };
	if (create && make_directory(path, err))
		return -1;
	if (stat(path, &st))
		return chain_fail(err, CHAIN_SYSTEM, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		flags |= MDB_NOSUBDIR;
	/* LMDB would leave a lock file beside a database that is not there. */
	else if (!create && !has_data_file(path))
		return chain_fail(err, CHAIN_REFUSED, "%s: no chain is stored there", path);
	if (opt->write) {
		map_size = opt->writemap ? DEFAULT_WRITEMAP_SIZE : DEFAULT_MAP_SIZE;
		if (opt->map_size)
			map_size = opt->map_size;
		if (opt->writemap)
			flags |= MDB_WRITEMAP;
		if (opt->durability >= CHAIN_RELAXED)
			flags |= MDB_NOSYNC;
	} else {
		flags |= MDB_RDONLY;
	}
	if (open_env(db, path, flags, map_size, err))
		return -1;
	if ((opt->write && engine_attach(db, err)) || open_tables(db, create, err)) {
		chain_db_close(db);
		return -1;
	}
	return 0;
}

void chain_db_close(struct chain_db *db)
{
	if (db->env)
		mdb_env_close(db->env);
	memset(db, 0, sizeof(*db));
}

int chain_rows(
    MDB_txn *txn, struct chain_db *db, enum chain_table t, uint64_t *n, struct chain_error *err)
{
	MDB_stat st;
	int rc = mdb_stat(txn, db->dbi[t], &st);

	if (rc)
		return chain_fail_db(err, rc, tables[t].name);
	*n = st.ms_entries;
	return 0;
}

static MDB_val property_key(const char *name)
{
	return (MDB_val){ strlen(name) + 1, (void *)name };
}

int chain_property(MDB_txn *txn, struct chain_db *db, const char *name, void *value, size_t n,
    struct chain_error *err)
{
	MDB_val k = property_key(name), v;
	int rc = db->present[PROPERTIES] ? mdb_get(txn, db->dbi[PROPERTIES], &k, &v) : MDB_NOTFOUND;

	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc)
		return chain_fail_db(err, rc, name);
	if (v.mv_size != n)
		return chain_fail(err, CHAIN_DAMAGED,
		    "table properties: %s has %zu bytes where %zu are due", name, v.mv_size, n);
	memcpy(value, v.mv_data, n);
	return 1;
}

int chain_set_property(MDB_txn *txn, struct chain_db *db, const char *name, const void *value,
    size_t n, struct chain_error *err)
{
	MDB_val k = property_key(name), v = { n, (void *)value };
	int rc = mdb_put(txn, db->dbi[PROPERTIES], &k, &v, 0);

	return rc ? chain_fail_db(err, rc, name) : 0;
}
