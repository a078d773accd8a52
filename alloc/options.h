/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.h - PAGEWISE_ALLOC and pgw_alloc_option_set: one table of values, read without a lock.
 */
#ifndef PGW_ALLOC_OPTIONS_H
#define PGW_ALLOC_OPTIONS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <pagewise/alloc.h>

extern _Atomic uint64_t pgw__option_values[PGW_ALLOC_OPTION_COUNT];

static inline uint64_t pgw__option(enum pgw_alloc_option o)
{
	return atomic_load_explicit(&pgw__option_values[o], memory_order_relaxed);
}

/* Read PAGEWISE_ALLOC. Called once, before the first arena exists; no libc but secure_getenv and
 * write(2): it runs inside the first malloc of the process. */
void pgw__options_load(void);

/* Take "key:value,..." up to and with the first item that is wrong, which is skipped: *text is behind
 * it then, *bad and *bad_len are the item, and the reason, static, is returned. NULL: all is taken. */
const char *pgw__options_parse(const char **text, const char **bad, size_t *bad_len);

/* 0, -EINVAL (no such option), -ERANGE. */
int pgw__option_set(enum pgw_alloc_option option, uint64_t value);

#endif
