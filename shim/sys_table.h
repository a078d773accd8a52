/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sys_table.h - the table of system calls of a backend (sys.c, sys_bsd.c), from functions sys_* that it
 * has defined. A member that one of them lacks does not compile.
 */
#ifndef PGW_SHIM_SYS_TABLE_H
#define PGW_SHIM_SYS_TABLE_H

#include "sys.h"

/* clang-format off */
#define PGW__SYS_TABLE {                          \
	.madvise = sys_madvise,                    \
	.process_madvise = sys_process_madvise,    \
	.pidfd_open = sys_pidfd_open,              \
	.map_anon = sys_map_anon,                  \
	.unmap = sys_unmap,                        \
	.unlock = sys_unlock,                      \
	.mincore = sys_mincore,                    \
	.msync = sys_msync,                        \
	.fdatasync = sys_fdatasync,                \
	.fsync = sys_fsync,                        \
	.sync_file_range = sys_sync_file_range,    \
	.pwritev = sys_pwritev,                    \
	.allocate = sys_allocate,                  \
	.drop_cached = sys_drop_cached,            \
	.fs_magic = sys_fs_magic,                  \
	.fd_mode = sys_fd_mode,                    \
	.fd_flags = sys_fd_flags,                  \
	.fd_move = sys_fd_move,                    \
	.close = sys_close,                        \
	.getpid = sys_getpid,                      \
	.major_faults = sys_major_faults,          \
}
/* clang-format on */

struct pgw__sys pgw__sys = PGW__SYS_TABLE;
const struct pgw__sys pgw__sys_real = PGW__SYS_TABLE;

#endif
