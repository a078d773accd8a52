/* SPDX-License-Identifier: BSD-2-Clause
 *
 * error.h - what went wrong, in words for whoever runs the command.
 */
#ifndef CHAIN_ERROR_H
#define CHAIN_ERROR_H

#include "cursor.h"

enum chain_error_kind {
	CHAIN_OK,
	CHAIN_SYSTEM,  /* a call or the database failed */
	CHAIN_INPUT,   /* the file is damaged or is not what it should be */
	CHAIN_REFUSED, /* the file and the store do not belong together, or nothing was found */
	CHAIN_DAMAGED, /* the store contradicts itself */
};

struct chain_error {
	enum chain_error_kind kind;
	char text[320];
};

/* Sets err (which keeps its first error) and is -1, for `return chain_fail(...)`: a macro, so that
 * compilers and analyzers see that it fails. */
#define chain_fail(err, ...) (chain_error_set((err), __VA_ARGS__), -1)
void chain_error_set(struct chain_error *err, enum chain_error_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same from a cursor that has failed: "offset N (0xN): WHAT WHY". */
int chain_fail_cursor(struct chain_error *err, enum chain_error_kind kind, const struct cursor *c);

/* As hexadecimal digits and a final 0. */
#define HEX_SIZE (2 * 32 + 1)
const char *chain_hex(const uint8_t hash[32], char out[HEX_SIZE]);
/* 64 hexadecimal digits; false if text is anything else. */
bool chain_unhex(const char *text, uint8_t out[32]);

#endif
