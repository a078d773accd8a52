/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/reserve.h - address space for data that is sparse: much of it, of which little is used.
 */
#ifndef PAGEWISE_RESERVE_H
#define PAGEWISE_RESERVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A reservation is cut into blocks of this size, or of 1/1024 of it if that is more, rounded up to a
 * power of two. Bytes. */
#define PGW_RESERVE_BLOCK_MIN ((uint64_t)256 << 20)

/* Reserve bytes of address space. It reads as zero, may be written at once, costs nothing until then
 * (MAP_NORESERVE: no commit charge but under vm.overcommit_memory=2), and begins on a page.
 *
 * A core dump of the process holds the blocks in which a page was written, and not the others. The
 * kernel looks at every address of a mapping that it dumps, 16 to 38 ms for a GiB (Linux 6.18,
 * bench-dump): 1 TiB in one mapping takes it 16 to 38 s, and one block of it, 1 GiB, a thousandth.
 * Up to 1024 blocks are as many mappings, of the 65530 (vm.max_map_count) that a process can have by
 * default.
 *
 * bytes   rounded up to whole pages
 * addr    receives the address
 *
 * 0; -EINVAL (bytes is 0, or more than an address can be); -ENOMEM (no such address space, RLIMIT_AS,
 * or too many mappings). If the kernel refuses to keep the blocks apart the reservation is good all
 * the same, and its dump slow. Any thread; takes no lock, does not allocate from the heap; errno
 * stays as it was. */
int pgw_reserve(uint64_t bytes, void **addr);

/* Give back a reservation, or whole pages of it: addr and bytes as from pgw_reserve, or a part of
 * that. Nothing is mapped there afterwards. To give back pages and keep their addresses, see
 * pgw_advise.
 *
 * 0; -EINVAL (addr is not on a page, bytes is 0, or the end is no address); -ENOMEM (part of a mapping
 * was to go, and there are too many mappings: nothing has changed, or only some blocks have gone). */
int pgw_release(void *addr, uint64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
