/* SPDX-License-Identifier: BSD-2-Clause
 *
 * seam.h - what stands behind the names that seam.syms redirects.
 *
 * pgw__seam_* are called by LMDB in place of the functions of the same name; they keep their
 * contract (result, errno). pgw__lmdb_* are LMDB's own functions.
 */
#ifndef PGW_STORE_SEAM_H
#define PGW_STORE_SEAM_H

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <lmdb.h>

int pgw__lmdb_env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode);
void pgw__lmdb_env_close(MDB_env *env);
int pgw__lmdb_env_set_mapsize(MDB_env *env, size_t size);
int pgw__lmdb_env_sync(MDB_env *env, int force);
int pgw__lmdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **txn);
int pgw__lmdb_txn_commit(MDB_txn *txn);
void pgw__lmdb_txn_abort(MDB_txn *txn);
int pgw__lmdb_env_copy(MDB_env *env, const char *path);
int pgw__lmdb_env_copy2(MDB_env *env, const char *path, unsigned flags);
int pgw__lmdb_env_copyfd(MDB_env *env, int fd);
int pgw__lmdb_env_copyfd2(MDB_env *env, int fd, unsigned flags);
char *pgw__lmdb_strerror(int err);
int pgw__lmdb_env_get_maxreaders(MDB_env *env, unsigned *readers);
int pgw__lmdb_env_info(MDB_env *env, MDB_envinfo *info);
int pgw__lmdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags);
int pgw__lmdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned flags);
int pgw__lmdb_del(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data);
int pgw__lmdb_cursor_del(MDB_cursor *cursor, unsigned flags);
int pgw__lmdb_drop(MDB_txn *txn, MDB_dbi dbi, int del);
int pgw__lmdb_dbi_open(MDB_txn *txn, const char *name, unsigned flags, MDB_dbi *dbi);

/* An entry of LMDB's list of dirty pages. The first one has the number of the others instead of a page's,
 * which are in ascending order unless the map is writable. */
struct pgw__lmdb_dirty_page {
	size_t pgno;
	void *page;
};

int mdb_mid2l_append(void *list, struct pgw__lmdb_dirty_page *entry);
int mdb_mid2l_insert(void *list, struct pgw__lmdb_dirty_page *entry);
unsigned mdb_mid2l_search(void *list, size_t pgno);

ssize_t pgw__seam_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t pgw__seam_writev(int fd, const struct iovec *v, int n);
ssize_t pgw__seam_pwritev(int fd, const struct iovec *v, int n, off_t off);
off_t pgw__seam_lseek(int fd, off_t off, int whence);
int pgw__seam_fdatasync(int fd);
int pgw__seam_fsync(int fd);
int pgw__seam_msync(void *addr, size_t len, int flags);
int pgw__seam_ftruncate(int fd, off_t len);
void *pgw__seam_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
int pgw__seam_munmap(void *addr, size_t len);
int pgw__seam_mid2l_append(void *list, struct pgw__lmdb_dirty_page *entry);
int pgw__seam_mid2l_insert(void *list, struct pgw__lmdb_dirty_page *entry);
ssize_t pgw__seam_pread(int fd, void *buf, size_t len, off_t off);
ssize_t pgw__seam_write(int fd, const void *buf, size_t len);
int pgw__seam_mutex_lock(pthread_mutex_t *mutex);
int pgw__seam_mutex_unlock(pthread_mutex_t *mutex);
int pgw__seam_fcntl(int fd, int cmd, ...);
int pgw__seam_key_create(pthread_key_t *key, void (*destructor)(void *));
void *pgw__seam_getspecific(pthread_key_t key);
int pgw__seam_setspecific(pthread_key_t key, const void *value);
extern FILE *pgw__seam_stderr;

#endif
