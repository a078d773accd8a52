/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pressure.h - is memory short? The kernel counts the time that tasks wait for memory (PSI); when that
 * is more than a share of the time that went by, all that is not in use should go at once.
 *
 * It is looked at when the purger wakes for a step of decay, which is at most a second apart as long as
 * there is anything to give back. A trigger of PSI would come sooner, but needs a descriptor to be
 * polled beside what the purger sleeps on, and a privilege before Linux 6.5.
 *
 * Files are opened for a moment, in a table of descriptors that only the purger has: a number that is
 * taken for a moment may be the one that the program expects for itself after close(0).
 */
#ifndef PGW_ALLOC_PRESSURE_H
#define PGW_ALLOC_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

/* In the purger's thread, before the next. Where the table cannot be had (Linux before 5.9), or the
 * shim needs a descriptor that the program's table has, there is no pressure. */
void pgw__pressure_init(void);

/* Since the last call, has more than the option's share of the time been waited? Never the first time.
 * Only for the purger's thread. */
bool pgw__pressure(uint64_t now_ms);

/* "some avg10=... total=MICROSECONDS": false if there is no such line. */
bool pgw__pressure_parse(const char *text, uint64_t *us);

/* Where to look: the cgroup's file, and the system's. path has cap bytes; false: there is none.
 * Replaced by tests. */
extern bool (*pgw__pressure_path)(unsigned source, char *path, unsigned cap);
#define PGW__PRESSURE_SOURCES 2

#endif
