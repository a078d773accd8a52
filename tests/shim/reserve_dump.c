/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reserve_dump.c - 1 TiB reserved and one page of it written: the core dump holds that page, and not
 * the rest.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagewise/reserve.h>

#include "coredump.h"

#define TIB    (UINT64_C(1) << 40)
#define AT     (TIB / 3 & ~UINT64_C(4095))
#define DUMPED (UINT64_C(3) << 30) /* a block of 1 GiB, and all else in the process */

static uint64_t *where; /* shared with the child only as a value in its dump */

static void write_a_page(void *arg)
{
	void *p;
	int err = pgw_reserve(TIB, &p);

	(void)arg;
	if (err) {
		fprintf(stderr, "1 TiB of address space: %s\n", strerror(-err));
		_exit(77);
	}
	memset((char *)p + AT, 'x', 4096);
	*where = (uint64_t)(uintptr_t)p;
}

static int fail(const char *what, uint64_t n)
{
	fprintf(stderr, "FAIL: %s: %" PRIu64 "\n", what, n);
	return 1;
}

int main(void)
{
	struct coredump c;
	uint64_t start = 0;
	char page[4096];
	int bad = 0;

	where = calloc(1, sizeof(*where));
	if (!where)
		return 1;
	coredump_make(&c, write_a_page, NULL);
	printf("%" PRIu64 " MiB of address space in the dump\n", c.bytes >> 20);
	if (c.bytes > DUMPED)
		bad = fail("bytes in the dump", c.bytes);
	else if (!coredump_read(&c, (uint64_t)(uintptr_t)where, &start, sizeof(start)) || !start)
		bad = fail("the heap is not in the dump", start);
	else if (!coredump_read(&c, start + AT, page, sizeof(page)) || page[0] != 'x' ||
		 page[4095] != 'x')
		bad = fail("the page that was written is not in the dump", start + AT);
	else if (coredump_read(&c, start, page, sizeof(page)) ||
		 coredump_read(&c, start + TIB / 2, page, sizeof(page)))
		bad = fail("a block that was never written is in the dump", start);
	coredump_remove(&c);
	free(where);
	return bad;
}
