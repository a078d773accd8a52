/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pages.h - pgw_sync on raw pages (pages.c).
 */
#ifndef PGW_POWERCUT_PAGES_H
#define PGW_POWERCUT_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* In the guest: write, sync, acknowledge. strategy: a name of pgw_sync_strategy_parse; "none", which
 * does not sync; or "no-wait", which starts write-out and does not wait for it. */
int pages_run(const char *path, const char *strategy, uint64_t seed, uint64_t rounds, bool mapped);

/* Outside: standard input has lines "PAGE SEQ", what was acknowledged. 0 if all of it is there; else
 * 1, with the first loss on standard output. */
int pages_check(const char *path);

#endif
