/* SPDX-License-Identifier: BSD-2-Clause
 *
 * range.c - which pages do these writes dirty?
 *
 * usage: range OFFSET+LENGTH...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagewise/pagewise.h>

int main(int argc, char **argv)
{
	struct pgw_ranges dirty;
	uint64_t asked;

	pgw_ranges_init(&dirty);
	for (int i = 1; i < argc; i++) {
		char *plus, *end = NULL;
		uint64_t start = strtoull(argv[i], &plus, 10), len = 0;
		int err;

		if (*plus == '+')
			len = strtoull(plus + 1, &end, 10);
		if (!end || *end) {
			fprintf(stderr, "range: '%s' is not OFFSET+LENGTH\n", argv[i]);
			return 2;
		}
		err = pgw_ranges_add(&dirty, start, len);
		if (err) {
			fprintf(stderr, "range: %s: %s\n", argv[i], strerror(-err));
			return 1;
		}
	}
	asked = pgw_ranges_bytes(&dirty);
	pgw_ranges_align_out(&dirty, pgw_page_size());
	for (size_t i = 0; i < dirty.n; i++)
		printf("%" PRIu64 " to %" PRIu64 "\n", dirty.v[i].start, pgw_range_end(dirty.v[i]));
	printf("%" PRIu64 " bytes written, %" PRIu64 " bytes of pages dirty, in %zu ranges\n",
	    asked, pgw_ranges_bytes(&dirty), dirty.n);
	pgw_ranges_finish(&dirty);
	return 0;
}
