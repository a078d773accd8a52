/* SPDX-License-Identifier: BSD-2-Clause
 *
 * report_part.c - a library with a shim of its own inside, as libpagewise-alloc is one. Opened by
 * report_program while it runs.
 */
#include "report.h"

#include <stdatomic.h>

static _Atomic uint64_t work;

static void write_part(struct pgw__json *j)
{
	if (!work)
		return;
	pgw__json_u64(j, "work", work);
	pgw__report_shim(j);
}

static void forget(void)
{
	work = 0;
}

__attribute__((constructor)) static void set_up(void)
{
	pgw__report_register("other", write_part);
	pgw__report_reset_in_child(forget);
}

__attribute__((visibility("default"))) void report_part_work(void);

void report_part_work(void)
{
	work++;
}
