/* SPDX-License-Identifier: BSD-2-Clause
 *
 * lockfile.h - the lock of the first byte of LMDB's lock file, while an environment is opened.
 */
#ifndef PGW_STORE_LOCKFILE_H
#define PGW_STORE_LOCKFILE_H

/* LMDB tries to get it exclusively. path and flags: of mdb_env_open. It can take as long as another process
 * takes to open the environment. 0; EAGAIN or EACCES: others have it open, and this process shares the lock
 * now; or errno. */
int pgw__lock_file_exclusive(int fd, const char *path, unsigned flags);

#endif
