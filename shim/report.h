/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report.h - PAGEWISE_STATS: one JSON object at exit, with a part for each library in use.
 *
 * Every pagewise library carries this code, and a process may have several of them. The first that
 * registers owns the report, if the others can see it (dlsym of an exported entry point in the
 * global scope); they hand their parts to it. Libraries loaded with RTLD_LOCAL, and seen by nobody,
 * write a line of their own. Formatting uses no library and no heap: it runs in a destructor of a
 * malloc.
 */
#ifndef PGW_SHIM_REPORT_H
#define PGW_SHIM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON text being built in fixed storage. Commas and escapes are its business; what does not fit
 * sets full, and the report says so instead of being cut. Bytes of a string that are not ASCII are
 * shown as U+FFFD. */
struct pgw__json {
	char *buf;
	size_t cap, len;
	bool comma;
	bool full;
};

void pgw__json_init(struct pgw__json *j, char *buf, size_t cap);
/* key NULL: inside an array, and for the outermost object. */
void pgw__json_open(struct pgw__json *j, const char *key, char bracket); /* '{' or '[' */
void pgw__json_close(struct pgw__json *j, char bracket);		 /* '}' or ']' */
void pgw__json_u64(struct pgw__json *j, const char *key, uint64_t v);
void pgw__json_ratio(struct pgw__json *j, const char *key, uint64_t num,
    uint64_t den); /* 2 decimals; null if den is 0 */
void pgw__json_bool(struct pgw__json *j, const char *key, bool v);
void pgw__json_str(struct pgw__json *j, const char *key, const char *v); /* NULL: null */

/* Writes the members of one part (the braces are the report's). A part that was not used writes
 * nothing, and is left out; a process none of whose parts was used writes no line. Called once, in
 * a destructor; other threads may still be running. No heap, no stdio, no lock that a stopped
 * thread could hold. */
typedef void pgw__report_fn(struct pgw__json *j);

/* Call once from a constructor. Does nothing unless PAGEWISE_STATS is set (secure_getenv). part:
 * static. The library is kept in memory from then on, dlclose or not, for fn to be there at exit.
 */
void pgw__report_register(const char *part, pgw__report_fn *fn);

/* Call reset in the child after fork, so that it reports its own work and not its parent's again.
 * The shim's own counters are reset anyway. Call after pgw__report_register; it does nothing where
 * that did nothing. (_Fork and raw clone run no such handlers: that child's counts include its
 * parent's up to then.) */
void pgw__report_reset_in_child(void (*reset)(void));

/* The members every part has: "kernel_mode", "advice", "short_returns", "probe_calls", "sync",
 * "fallbacks", from this library's own shim (stats.c). */
void pgw__report_shim(struct pgw__json *j);

/* path with %p replaced by the process id, as PAGEWISE_STATS has it. false: it does not fit. */
bool pgw__report_expand_path(const char *path, char *out, size_t cap);

/* One line "pagewise: <subject><text>" on standard error, by one write(2). subject may be NULL.
 * Only for constructors and for the report: later, number 2 may be a file of the program's. */
void pgw__warn(const char *subject, const char *text);

/* pgw__warn of a setting in the environment, which each library of the process reads: only the first one says
 * so. Only for constructors. */
void pgw__warn_setting(const char *value, const char *text);

/* The same as pgw__warn at any time after pgw__warn_prepare, which a constructor has called: to what was standard error
 * then, or nowhere. Raises no SIGPIPE; leaves errno alone. */
void pgw__warn_prepare(void);
void pgw__warn_later(const char *subject, const char *text);

/* The entry point through which the libraries of one process find each other: exported by each of
 * them, not for applications. The layout is frozen; a new one gets a new name. false: no room, or
 * the report has been written already. */
struct pgw__report_part {
	const char *name;
	pgw__report_fn *fn;
};
bool pgw_report_register_0(const struct pgw__report_part *part);

#endif
