/* SPDX-License-Identifier: BSD-2-Clause
 *
 * elf_file.c - see elf_file.h.
 */
#include "elf_file.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Headers may lie at any offset: they are copied out. */
static bool copy(const struct elf *e, void *out, uint64_t at, size_t len)
{
	if (len > e->len || at > e->len - len)
		return false;
	memcpy(out, e->map + at, len);
	return true;
}

bool elf_open(struct elf *e, int fd)
{
	unsigned char class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
	struct stat st;
	void *map;

	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(ElfW(Ehdr)))
		return false;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	e->map = map;
	e->len = (size_t)st.st_size;
	if (!memcmp(e->map, ELFMAG, SELFMAG) && e->map[EI_CLASS] == class)
		return true;
	elf_close(e);
	return false;
}

void elf_close(struct elf *e)
{
	munmap((void *)e->map, e->len);
}

bool elf_has_interpreter(const struct elf *e)
{
	ElfW(Ehdr) header;
	ElfW(Phdr) p;

	if (!copy(e, &header, 0, sizeof(header)))
		return false;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		uint64_t at = header.e_phoff + (uint64_t)i * header.e_phentsize;

		if (!copy(e, &p, at, sizeof(p)))
			return false;
		if (p.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* text with the zero that ends the name before it; len counts that one. */
static bool table_has(const struct elf *e, const ElfW(Shdr) * s, const char *text, size_t len)
{
	if (s->sh_type != SHT_STRTAB || s->sh_size > e->len || s->sh_offset > e->len - s->sh_size)
		return false;
	return memmem(e->map + s->sh_offset, s->sh_size, text, len) != NULL;
}

static bool find(const struct elf *e, const char *text, size_t len)
{
	ElfW(Ehdr) header;
	ElfW(Shdr) s;

	if (!copy(e, &header, 0, sizeof(header)))
		return false;
	for (unsigned i = 0; i < header.e_shnum; i++) {
		uint64_t at = header.e_shoff + (uint64_t)i * header.e_shentsize;

		if (!copy(e, &s, at, sizeof(s)))
			return false;
		if (table_has(e, &s, text, len))
			return true;
	}
	return false;
}

/* A string table begins with a zero, so every name has one on both sides. */
static bool find_name(const struct elf *e, const char *name, bool whole)
{
	char text[64] = "";
	int n = snprintf(text + 1, sizeof(text) - 1, "%s", name);

	if (n < 0 || (size_t)n + 2 > sizeof(text))
		return false;
	return find(e, text, 1 + (size_t)n + whole);
}

bool elf_has_prefix(const struct elf *e, const char *prefix)
{
	return find_name(e, prefix, false);
}

bool elf_has_name(const struct elf *e, const char *name)
{
	return find_name(e, name, true);
}
