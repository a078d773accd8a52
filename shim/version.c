/* SPDX-License-Identifier: BSD-2-Clause
 *
 * version.c - the version of the library that is running.
 */
#include <pagewise/version.h>

const char *pgw_version(void)
{
	return PGW_VERSION;
}
