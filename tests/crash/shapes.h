/* SPDX-License-Identifier: BSD-2-Clause
 *
 * shapes.h - databases of every shape LMDB can give a file, made with stock LMDB, for the tests of
 * the auditor and for its fuzz corpus.
 */
#ifndef PGW_TESTS_SHAPES_H
#define PGW_TESTS_SHAPES_H

#include <lmdb.h>
#include <stddef.h>

struct shape {
	const char *name;
	/* Fill env by committed transactions. 0 or an LMDB or errno code. */
	int (*fill)(MDB_env *env);
};

extern const struct shape shapes[];
extern const size_t n_shapes;

/* NULL if there is none of that name. */
const struct shape *shape_find(const char *name);

/* Create the data file path (and path-lock) with this shape. flags are added to MDB_NOSUBDIR |
 * MDB_NOSYNC. 0 or an LMDB code. */
int shape_create(const struct shape *s, const char *path, unsigned flags);

#endif
