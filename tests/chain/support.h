/* SPDX-License-Identifier: BSD-2-Clause
 *
 * support.h - what the tests of examples/chain share. Every function fails the test (cmocka) rather
 * than return an error.
 */
#ifndef TESTS_CHAIN_SUPPORT_H
#define TESTS_CHAIN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "import.h"
#include "package.h"
#include "tables.h"

/* A growing buffer; all zero is an empty one. */
struct buf {
	uint8_t *p;
	size_t n, cap;
};

void buf_put(struct buf *b, const void *data, size_t n);
void buf_free(struct buf *b);
/* Bytes that look like keys: from a fixed sequence, never the same twice in a process. */
void buf_random(struct buf *b, size_t n);
void buf_u32(struct buf *b, uint32_t v);
void buf_varint(struct buf *b, uint64_t v);

uint64_t test_random(void);

/* A file of examples/chain/data, or any other. */
struct buf data_file(const char *name);
void write_file(const char *path, const void *data, size_t n);

/* A new directory that goes away with remove_dir(). */
void make_dir(char path[64]);
void remove_dir(const char *path);
void join(char out[128], const char *dir, const char *name);

/* Fails with the error's text, if there is one. */
void assert_fine(int rc, const struct chain_error *err);
/* rc is an error of this kind whose text has `part` in it. */
void assert_error(
    int rc, const struct chain_error *err, enum chain_error_kind kind, const char *part);

/* The store at dir, with a map small enough for every sanitizer. */
void open_store(struct chain_db *db, const char *dir);
/* One import with everything around it. */
int import_bytes(const char *dir, const void *data, size_t n, uint64_t batch,
    struct import_result *r, struct chain_error *err);
void verify_store(const char *dir, uint64_t blocks);

/* Every table of both, row by row, in the order they lie; independent of tables.c. `names` ends with
 * NULL. */
void assert_same_rows(const char *path_a, const char *path_b, const char *const *names);
extern const char *const all_tables[];

/* ---- hand-made chains ---- */

struct tx_shape {
	unsigned version, type;
	unsigned inputs, outputs, ring;
	unsigned proofs;		/* 0: one; Bulletproofs only */
	uint64_t in_amount, out_amount; /* of each; version 1 */
	uint64_t fee;			/* version 2 */
	const uint8_t *key_image;	/* of the first input; NULL: a new one */
};

/* 64 * proofs, with room for all outputs: log2 of the outputs each covers. */
unsigned proof_bits(const struct tx_shape *s);
void build_tx(struct buf *b, const struct tx_shape *s);
void build_miner(struct buf *b, unsigned version, uint64_t height, uint64_t amount);

struct chain_builder {
	struct buf file;
	struct tip tip;
	uint8_t format_major;
};

void builder_start(struct chain_builder *c, uint8_t format_major);
/* A block of fork `major` whose trailer and hashes are right. */
void builder_block(
    struct chain_builder *c, unsigned major, const struct tx_shape *shapes, size_t n);

/* One shape of every version and type there is. */
extern const struct tx_shape every_shape[];
extern const size_t every_shape_count;

#endif
