/* SPDX-License-Identifier: BSD-2-Clause
 *
 * error.c - see error.h.
 */
#include "error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void chain_error_set(struct chain_error *err, enum chain_error_kind kind, const char *fmt, ...)
{
	va_list ap;

	if (err->kind != CHAIN_OK)
		return;
	err->kind = kind;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
}

int chain_fail_cursor(struct chain_error *err, enum chain_error_kind kind, const struct cursor *c)
{
	return chain_fail(err, kind, "offset %" PRIu64 " (0x%" PRIx64 "): %s %s", c->where,
	    c->where, c->what, c->why);
}

const char *chain_hex(const uint8_t hash[32], char out[HEX_SIZE])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 32; i++) {
		out[2 * i] = digits[hash[i] >> 4];
		out[2 * i + 1] = digits[hash[i] & 15];
	}
	out[64] = 0;
	return out;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool chain_unhex(const char *text, uint8_t out[32])
{
	if (strlen(text) != 64)
		return false;
	for (int i = 0; i < 32; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}
