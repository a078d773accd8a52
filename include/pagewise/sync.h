/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/sync.h - make ranges of a file durable with one barrier.
 *
 * On Linux each msync, fdatasync and fsync costs a cache flush of the device, however little is
 * dirty, so n ranges must never become n of them. What is cheapest and still durable differs by
 * file system and is chosen per file:
 *
 * - writeout: sync_file_range starts write-out of every range, then waits for every range, then
 *   one msync of a page of the ranges. Leaves other dirty pages of the file alone. ext4, xfs.
 *   Without the wait this loses data, without the barrier it is not durable at all, and a barrier
 *   on a page outside of the ranges drags that page's folio along.
 * - span: one msync from the first range to the last. For ranges that are dense.
 * - fdatasync: the whole file. btrfs (it has no range sync), network and unknown file systems.
 * - per-range: one msync for each range. Only where an msync costs what it covers and no barrier
 *   (OpenBSD); on Linux only when forced.
 *
 * PAGEWISE_SYNC=auto|span|writeout|fdatasync|per-range forces one for every file of the process
 * (ignored in set-user-ID programs). One that cannot work on a file (no mapping, a mapping of a
 * read-only descriptor, through which msync does nothing, or writeout on overlayfs, where
 * sync_file_range does nothing) is replaced by fdatasync, with the reason.
 */
#ifndef PAGEWISE_SYNC_H
#define PAGEWISE_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagewise/range.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pgw_sync_strategy {
	PGW_SYNC_AUTO,
	PGW_SYNC_SPAN,
	PGW_SYNC_WRITEOUT,
	PGW_SYNC_FDATASYNC,
	PGW_SYNC_PER_RANGE,
	PGW_SYNC_STRATEGY_COUNT
};

/* A file and how it is synced. Storage is the caller's, no system resource is held. The functions
 * below read it; after pgw_sync_init any number of threads may use it at once. */
struct pgw_sync_file {
	int fd;		  /* the caller's; must stay open */
	void *map;	  /* shared mapping of the file from offset 0, or NULL */
	uint64_t map_len; /* bytes */
	enum pgw_sync_strategy strategy;
	bool forced;
	bool no_barrier; /* the file system has no device behind it (tmpfs): nothing to flush */
	/* Set by the caller: however many ranges there are, do not sync the whole file instead.
	 * What else is dirty is not to be written. */
	bool ranges_only;
	/* Set by the caller: next to nothing in the file is dirty but the ranges. writeout then starts
	 * them by one call over their span, which is one request to the device instead of one each. */
	bool alone;
	/* Set by the caller: nothing is. writeout is then one msync of the span: it waits for what is
	 * dirty in there, and that is the ranges. */
	bool only;
	const char *reason; /* why this strategy; static, one line */
	const char *fs;	    /* "ext4", ...; static */
	/* Private: what pgw_sync_remap goes back to once there is a mapping. */
	enum pgw_sync_strategy if_mapped;
	const char *if_mapped_reason;
};

struct pgw_sync_report {
	uint64_t ranges;      /* after coalescing */
	uint64_t range_bytes; /* that were asked to be durable, whole pages, each once */
	uint64_t sync_file_range_calls;
	/* Summed over the calls; one that starts write-out over a span (alone) counts all of it. */
	uint64_t sync_file_range_bytes;
	uint64_t msync_calls;
	uint64_t msync_bytes; /* summed over the calls; of a span (only), all of it */
	uint64_t fdatasync_calls;
	uint64_t
	    barriers; /* calls after which the device has been told to flush: msync, fdatasync */
};

/* Set up *f for a file and choose its strategy (fstatfs, fcntl, and one sync_file_range of nothing:
 * a file system that does not have it answers). map may be NULL; it must be a MAP_SHARED mapping of
 * fd itself from offset 0, and stay mapped as long as f is used or until pgw_sync_remap. want:
 * PGW_SYNC_AUTO, or the strategy to force; PAGEWISE_SYNC overrides AUTO. 0, or -EINVAL (want is
 * none), -EBADF, or what fstatfs gives; *f is untouched then. Any thread. */
int pgw_sync_init(
    struct pgw_sync_file *f, int fd, void *map, uint64_t map_len, enum pgw_sync_strategy want);

/* The mapping moved, grew or went away (NULL). No other thread may be using f. */
void pgw_sync_remap(struct pgw_sync_file *f, void *map, uint64_t map_len);

/* Make the ranges durable: their data, whatever metadata is needed to read it back (allocation,
 * file size), and everything that the kernel was told of them before the call, by write or through
 * a mapping. Ranges are file offsets, in bytes; they are grown to whole pages; normalized in place
 * (the set is scratch: the caller may not rely on its order afterwards). Ranges past the mapping or
 * the end of the file are fine. An empty set makes no call and no barrier.
 *
 * report: NULL, or filled in, on failure too.
 * 0, or -errno of the first call that failed. After a failure (-EIO, -ENOSPC, -EDQUOT) nothing is
 * known about any of the ranges, and **a later success does not prove them durable**: the kernel
 * may have dropped the dirty pages. The caller must treat the file as lost or rewrite it.
 * -EINVAL: a range ends beyond what a file can have (its last whole page ends below 2^63); no call
 * was made. On every file system, and whatever the strategy.
 *
 * Blocks for the device. Any thread; several at once are fine. Does not allocate. */
int pgw_sync(
    const struct pgw_sync_file *f, struct pgw_ranges *ranges, struct pgw_sync_report *report);

/* Make the whole file durable, by fdatasync (which covers stores through mappings on Linux). Errors
 * and context as pgw_sync. */
int pgw_sync_all(const struct pgw_sync_file *f, struct pgw_sync_report *report);

/* Start write-out of ranges and return without waiting: what a later pgw_sync then finds is little.
 * Never durable by itself. Makes no call where the strategy is not writeout. Errors as pgw_sync. */
int pgw_sync_start(
    const struct pgw_sync_file *f, struct pgw_ranges *ranges, struct pgw_sync_report *report);

/* "writeout", ...; NULL for a value that is none. pgw_sync_strategy_parse is its inverse:
 * 0 or -EINVAL. */
const char *pgw_sync_strategy_name(enum pgw_sync_strategy s);
int pgw_sync_strategy_parse(const char *name, enum pgw_sync_strategy *out);

#ifdef __cplusplus
}
#endif
#endif
