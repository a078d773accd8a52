/* SPDX-License-Identifier: BSD-2-Clause
 *
 * serve.h - questions about a chain, a line each, answered by a line of JSON each.
 *
 *   info                          as the command info
 *   block HEIGHT|HASH
 *   tx HASH
 *   outputs [AMOUNT [FROM [COUNT]]]
 *   verify
 *
 * An answer is from one snapshot; {"error": "..."} if there is none. A connection may ask again and
 * again, and is closed by an empty line, its end, or SERVE_IDLE_MS without a question.
 */
#ifndef CHAIN_SERVE_H
#define CHAIN_SERVE_H

#include <signal.h>

#include "out.h"
#include "tables.h"

#define SERVE_LINE_MAX 512
#define SERVE_IDLE_MS  60000

/* Answers one question; o is then as after out_keep(). line is cut up. 0, or -1: no memory. */
int serve_answer(struct chain_db *db, char *line, struct out *o);

/* Takes connections from a listening socket (non-blocking, perhaps shared with other processes), one
 * after the other, until *stop, which a signal sets that only `mask` lets through. 0, or -errno. */
int serve_connections(
    struct chain_db *db, int listener, const sigset_t *mask, const volatile sig_atomic_t *stop);

#endif
