/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report.h - PAGEWISE_STATS: one JSON object at exit, with a part for each library in use.
 *
 * Every pagewise library carries this code, and a process may have several of them. The first whose
 * constructor runs owns the report (found by dlsym of an exported, versioned entry point); the
 * others hand their parts to it. Formatting uses no library and no heap: it runs in a destructor of
 * a malloc.
 */
#ifndef PGW_SHIM_REPORT_H
#define PGW_SHIM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON text being built in fixed storage. Commas and escapes are its business; what does not fit
 * sets full, and the report says so instead of being cut. */
struct pgw__json {
	char *buf;
	size_t cap, len;
	bool comma;
	bool full;
};

void pgw__json_init(struct pgw__json *j, char *buf, size_t cap);
/* key NULL: inside an array. */
void pgw__json_open(struct pgw__json *j, const char *key, char bracket); /* '{' or '[' */
void pgw__json_close(struct pgw__json *j, char bracket);		 /* '}' or ']' */
void pgw__json_u64(struct pgw__json *j, const char *key, uint64_t v);
void pgw__json_ratio(struct pgw__json *j, const char *key, uint64_t num,
    uint64_t den); /* 2 decimals; null if den is 0 */
void pgw__json_bool(struct pgw__json *j, const char *key, bool v);
void pgw__json_str(struct pgw__json *j, const char *key, const char *v); /* NULL: null */

/* Writes the members of one part (the braces are the caller's). May be called while other threads
 * still run. */
typedef void pgw__report_fn(struct pgw__json *j);

/* Call once from a constructor. Does nothing unless PAGEWISE_STATS is set (secure_getenv). part:
 * static. */
void pgw__report_register(const char *part, pgw__report_fn *fn);

/* The members every part has: "advice", "sync", "fallbacks", "kernel_mode", from this library's
 * own shim (stats.c). */
void pgw__report_shim(struct pgw__json *j);

#endif
