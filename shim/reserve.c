/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reserve.c - sparse address space whose core dumps are small and quick.
 *
 * The kernel leaves a private mapping that was never written out of a dump, and walks one that was,
 * address by address. So a reservation is made of many mappings. The kernel joins neighbours that are
 * alike: every other block is marked MADV_RANDOM, which for anonymous memory means only that a
 * page that is swapped in brings no neighbours with it. MADV_DONTDUMP would not do: a program would
 * have to say which pages it has written, and what it forgot would be missing in the dump.
 */
#include "pagewise/reserve.h"

#include <errno.h>
#include <sys/mman.h>

#include "pagewise/probe.h"
#include "sys.h"

#define BLOCKS 1024

static uint64_t block_bytes(uint64_t bytes)
{
	uint64_t block = PGW_RESERVE_BLOCK_MIN;

	while (bytes / BLOCKS > block)
		block *= 2;
	return block;
}

/* From the start on and in order, so that each call splits the last mapping in two. Blocks lie on
 * multiples of their size: huge pages and page tables are not cut at their ends. */
static void keep_apart(uint64_t start, uint64_t end, uint64_t block)
{
	uint64_t from = (start & ~(block - 1)) + block;

	for (; from < end; from += 2 * block) {
		uint64_t len = end - from < block ? end - from : block;

		if (pgw__sys.madvise((void *)(uintptr_t)from, (size_t)len, MADV_RANDOM))
			return; /* the limit of mappings, or a filter */
	}
}

int pgw_reserve(uint64_t bytes, void **addr)
{
	uint64_t page = pgw_page_size();
	uint64_t len = (bytes + page - 1) & ~(page - 1);
	uint64_t block;
	void *p;
	int err;

	if (!bytes || len < bytes || len > SIZE_MAX)
		return -EINVAL;
	err = pgw__sys.map_anon(NULL, (size_t)len, PROT_READ | PROT_WRITE, MAP_NORESERVE, &p);
	if (err)
		return err;
	block = block_bytes(len);
	keep_apart((uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)p + len, block);
	*addr = p;
	return 0;
}

int pgw_release(void *addr, uint64_t bytes)
{
	uint64_t page = pgw_page_size();
	uint64_t start = (uint64_t)(uintptr_t)addr;
	uint64_t len = (bytes + page - 1) & ~(page - 1);

	if (start % page || !bytes || len < bytes || len > SIZE_MAX || start + len < start)
		return -EINVAL;
	return pgw__sys.unmap(addr, (size_t)len);
}
