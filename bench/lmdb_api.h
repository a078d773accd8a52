/* SPDX-License-Identifier: BSD-2-Clause
 *
 * lmdb_api.h - LMDB's functions as a table, so that the same code can run on the library under test
 * and on the system's own liblmdb, side by side in one process.
 */
#ifndef PGW_BENCH_LMDB_API_H
#define PGW_BENCH_LMDB_API_H

#include <dlfcn.h>
#include <lmdb.h>

#define LMDB_API(X)           \
	X(version)            \
	X(strerror)           \
	X(env_create)         \
	X(env_open)           \
	X(env_close)          \
	X(env_sync)           \
	X(env_info)           \
	X(env_get_fd)         \
	X(env_set_flags)      \
	X(env_set_mapsize)    \
	X(env_set_maxdbs)     \
	X(env_set_maxreaders) \
	X(txn_begin)          \
	X(txn_commit)         \
	X(txn_abort)          \
	X(txn_id)             \
	X(dbi_open)           \
	X(drop)               \
	X(get)                \
	X(put)                \
	X(del)                \
	X(cursor_open)        \
	X(cursor_close)       \
	X(cursor_get)         \
	X(stat)

struct lmdb_api {
	void *lib; /* of dlopen; stays open */
#define X(name) __typeof__(mdb_##name) *name;
	LMDB_API(X)
#undef X
};

/* From the library at path; its symbols stay its own. False with *why set if it cannot be loaded.
 */
static inline bool lmdb_api_load(struct lmdb_api *api, const char *path, const char **why)
{
	api->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!api->lib) {
		*why = dlerror();
		return false;
	}
#define X(name)                                               \
	*(void **)&api->name = dlsym(api->lib, "mdb_" #name); \
	if (!api->name) {                                     \
		*why = "it has no mdb_" #name;                \
		return false;                                 \
	}
	LMDB_API(X)
#undef X
	return true;
}

/* The system's own, and not the stand-in for it. */
static inline bool lmdb_api_load_stock(struct lmdb_api *api, const char **why)
{
	if (!lmdb_api_load(api, "liblmdb.so.0", why))
		return false;
	if (!dlsym(api->lib, "pgw_env_stats"))
		return true;
	*why = "LD_LIBRARY_PATH leads to the library under test";
	return false;
}

#ifdef LMDB_API_LINKED
static inline struct lmdb_api lmdb_api_linked(void)
{
	return (struct lmdb_api){
#define X(name) .name = mdb_##name,
		LMDB_API(X)
#undef X
	};
}
#endif

#endif
