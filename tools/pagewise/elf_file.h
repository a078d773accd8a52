/* SPDX-License-Identifier: BSD-2-Clause
 *
 * elf_file.h - what an ELF file of this machine's word size says of itself. Files are anybody's: nothing
 * in them is believed before it is checked against their size.
 */
#ifndef PGW_TOOLS_ELF_FILE_H
#define PGW_TOOLS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct elf {
	const unsigned char *map;
	size_t len;
};

/* Map the file. false, and nothing to close, if it is no such ELF file or cannot be mapped. */
bool elf_open(struct elf *e, int fd);
void elf_close(struct elf *e);

/* Does it ask for a loader? */
bool elf_has_interpreter(const struct elf *e);

/* Is there a name in its string tables that begins with prefix, or that is name? Symbols have their
 * names there (the dynamic ones in any case, the others unless it was stripped), and libraries that
 * it needs. */
bool elf_has_prefix(const struct elf *e, const char *prefix);
bool elf_has_name(const struct elf *e, const char *name);

#endif
