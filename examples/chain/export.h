/* SPDX-License-Identifier: BSD-2-Clause
 *
 * export.h - the store as a bootstrap file, byte for byte as Monero's own tool writes it.
 */
#ifndef CHAIN_EXPORT_H
#define CHAIN_EXPORT_H

#include <signal.h>
#include <stdio.h>

#include "load.h"

/* The blocks of the file; 0 of them: all from `from` on. */
struct export_range {
	uint64_t from, count;
	const volatile sig_atomic_t *stop; /* NULL, or an error once it is set */
};

struct export_result {
	uint64_t blocks, txs; /* txs without the miners' */
	uint64_t bytes;	      /* of the file */
};

/* Writes to f, which need not be seekable, from one snapshot. Every block is checked as an import
 * would check it, so that no damage leaves the store unnoticed. What f has after an error is of no
 * use. */
int chain_export(struct chain_db *db, const struct export_range *range, FILE *f,
    struct export_result *result, struct chain_error *err);

/* The header of a bootstrap file, format 1.0, for blocks first to last. */
#define BOOTSTRAP_HEADER_SIZE 1028
void bootstrap_header(uint64_t first, uint64_t last, uint8_t out[BOOTSTRAP_HEADER_SIZE]);

#endif
