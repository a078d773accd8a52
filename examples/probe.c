/* SPDX-License-Identifier: BSD-2-Clause
 *
 * probe.c - can many ranges of memory be given back by one system call here, and if not, why not?
 *
 * `pagewise probe` prints this for all that libpagewise can do.
 */
#include <stdio.h>

#include <pagewise/pagewise.h>

int main(void)
{
	struct pgw_probe p;

	pgw_probe(PGW_DONTNEED, &p); /* fails only for an advice that does not exist */
	printf("%s: %s\n", pgw_route_name(p.route), p.reason);
	if (!pgw_dontneed_zeroes())
		printf("memory keeps its contents: do not count on zeros\n");
	return 0;
}
