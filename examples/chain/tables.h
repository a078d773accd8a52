/* SPDX-License-Identifier: BSD-2-Clause
 *
 * tables.h - the database: Monero's tables, rows, flags and orders, on LMDB's API.
 *
 * All integers lie little-endian, as on the host (keccak.c refuses another). Rows may lie at odd
 * addresses in a page: copy them out, do not read through a pointer.
 */
#ifndef CHAIN_TABLES_H
#define CHAIN_TABLES_H

#include <lmdb.h>

#include "error.h"
#include "keccak.h"

enum chain_table {
	BLOCKS,		   /* height: block blob */
	BLOCK_INFO,	   /* 0: struct row_block_info, by height */
	BLOCK_HEIGHTS,	   /* 0: struct row_block_height, by hash */
	TXS_PRUNED,	   /* tx id: prefix and base part */
	TXS_PRUNABLE,	   /* tx id: the rest */
	TXS_PRUNABLE_HASH, /* tx id: its hash; version 2 only */
	TX_INDICES,	   /* 0: struct row_tx_index, by hash */
	TX_OUTPUTS,	   /* tx id: for each output its index within its amount */
	OUTPUT_TXS,	   /* 0: struct row_output_tx, by output id */
	OUTPUT_AMOUNTS,	   /* amount: struct row_output, by index within the amount */
	SPENT_KEYS,	   /* 0: key image, by itself */
	HF_VERSIONS,	   /* height: one byte */
	CHAIN_TABLES, /* the above hold the chain, and each has exactly the rows it calls for */

	/* A node's other tables: made with a new store, and not missed where they are not. */
	TXS_PRUNABLE_TIP = CHAIN_TABLES, /* tx id: height; of a pruned chain's last blocks */
	PROPERTIES,			 /* name with its final 0: value */
	ALT_BLOCKS,			 /* hash: struct row_alt_block, block of another branch */
	TXPOOL_META,			 /* hash: struct row_pool_meta */
	TXPOOL_BLOB,			 /* hash: that transaction */
	TXS,				 /* empty since Monero splits transactions */
	ALL_TABLES
};

/* The row "version" of PROPERTIES, 32 bits: of the tables as they are here. */
#define CHAIN_SCHEMA 5

struct row_block_info {
	uint64_t height, timestamp, coins, weight;
	uint64_t difficulty_low, difficulty_high;
	uint8_t hash[HASH_SIZE];
	uint64_t rct_outputs; /* version 2 outputs in the chain up to here */
	uint64_t long_term_weight;
};

struct row_block_height {
	uint8_t hash[HASH_SIZE];
	uint64_t height;
};

struct row_tx_index {
	uint8_t hash[HASH_SIZE];
	uint64_t tx_id, unlock_time, height;
};

struct row_output_tx {
	uint64_t output_id;
	uint8_t tx_hash[HASH_SIZE];
	uint64_t index; /* among the outputs of the transaction */
};

struct row_output {
	uint64_t index, output_id;
	uint8_t key[HASH_SIZE];
	uint64_t unlock_time, height;
	uint8_t commitment[HASH_SIZE]; /* only under amount 0 */
};
#define ROW_OUTPUT_PLAIN (sizeof(struct row_output) - HASH_SIZE)

/* Of TXPOOL_META. Times in seconds since 1970, heights of the chain; weights in bytes. */
struct row_pool_meta {
	uint8_t max_used_block[HASH_SIZE]; /* newest block that its rings point into */
	uint8_t last_failed_block[HASH_SIZE];
	uint64_t weight, fee;
	uint64_t max_used_height, last_failed_height;
	uint64_t receive_time, relayed_time;
	uint8_t kept_by_block; /* it was in a block once */
	uint8_t relayed, do_not_relay;
	uint8_t flags; /* POOL_* and others */
	uint8_t unused[76];
};
#define POOL_DOUBLE_SPEND 0x01U
#define POOL_PRUNED	  0x02U

/* How a row of ALT_BLOCKS starts; the block follows, as in BLOCKS. */
struct row_alt_block {
	uint64_t height, weight;
	uint64_t difficulty_low, difficulty_high; /* cumulative */
	uint64_t coins;
};

/* How durable a commit is when it returns. */
enum chain_durability {
	CHAIN_AS_SET,  /* as PAGEWISE_STORE says, if anything: strict without it */
	CHAIN_STRICT,  /* durable, in LMDB's own order, with two barriers */
	CHAIN_GROUP,   /* durable, with one barrier */
	CHAIN_RELAXED, /* will be durable within 100 ms; a power cut goes back that far at most */
	CHAIN_NOSYNC,  /* MDB_NOSYNC: whenever the kernel likes, and a power cut may leave ruins */
};

/* Which blocks a pruned store keeps whole (prune.h); tests have smaller numbers. */
struct prune_rule {
	uint64_t stripe_blocks, tip_blocks;
};

struct chain_db {
	MDB_env *env;
	MDB_dbi dbi[ALL_TABLES];
	bool present[ALL_TABLES];
	struct prune_rule prune_rule;
	enum chain_durability durability;
	bool live; /* engine_go_live(): durable whatever the above says */
	bool read_only;
	bool no_lock; /* read-only, where no lock file can be made */
};

struct chain_db_options {
	bool write;    /* create what is missing, and write */
	bool existing; /* with write: create nothing */
	bool writemap;
	enum chain_durability durability; /* for writing */
	size_t map_size; /* bytes, for writing; 0: DEFAULT_MAP_SIZE, or DEFAULT_WRITEMAP_SIZE */
};

/* Address space only, and reserved once, so that nothing ever has to be remapped. With writemap the
 * (sparse) file is as long as the map, and file systems have a limit. */
#define DEFAULT_MAP_SIZE      ((size_t)1 << 40)
#define DEFAULT_WRITEMAP_SIZE ((size_t)1 << 36)

/* path: a directory (made if it is missing and opt->write), or a data file as monerod's
 * MDB_NOSUBDIR ones. Checks that the tables are Monero's. On failure nothing is left open. */
int chain_db_open(struct chain_db *db, const char *path, const struct chain_db_options *opt,
    struct chain_error *err);
/* db may be all zero. No transaction may be live. */
void chain_db_close(struct chain_db *db);

const char *chain_table_name(enum chain_table t);

/* Sets err for an LMDB return code, "WHAT: TEXT", with what to do for MDB_MAP_FULL; is -1. */
#define chain_fail_db(err, rc, what) (chain_error_set_db((err), (rc), (what)), -1)
void chain_error_set_db(struct chain_error *err, int rc, const char *what);

/* A row of PROPERTIES. 1: it is there, n bytes long; 0: it is not; -1: error. */
int chain_property(MDB_txn *txn, struct chain_db *db, const char *name, void *value, size_t n,
    struct chain_error *err);
int chain_set_property(MDB_txn *txn, struct chain_db *db, const char *name, const void *value,
    size_t n, struct chain_error *err);

/* Rows in a table, which must be present. */
int chain_rows(
    MDB_txn *txn, struct chain_db *db, enum chain_table t, uint64_t *n, struct chain_error *err);

#endif
