/* SPDX-License-Identifier: BSD-2-Clause
 *
 * standard_numbers.h - for programs that open databases.
 */
#ifndef PGW_TOOLS_STANDARD_NUMBERS_H
#define PGW_TOOLS_STANDARD_NUMBERS_H

#include <fcntl.h>
#include <unistd.h>

/* Started with standard output or error closed, the next file that is opened would get its number: a
 * database, which our lines would then be written into. O_PATH refuses to be read and written, as a
 * closed descriptor does, and is not there any more in a program that this process becomes. */
static inline void hold_standard_numbers(void)
{
	int fd;

	do
		fd = open("/", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

#endif
