/* SPDX-License-Identifier: BSD-2-Clause
 *
 * map.h - how much address space an environment reserves for its map.
 */
#ifndef PGW_STORE_MAP_H
#define PGW_STORE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include <lmdb.h>

struct pgw__call;
struct pgw__env;

/* What pgw_env_open reserves. */
#define PGW__MAP_DEFAULT (UINT64_C(1) << 40)

/* The largest size up to most, in bytes, that this process can map and leave as much again where its
 * address space is limited (RLIMIT_AS). flags: of mdb_env_open; a writable map is a file of that
 * length (RLIMIT_FSIZE). Any thread. */
uint64_t pgw__map_fitting(uint64_t most, unsigned flags);

/* mdb_env_set_mapsize was called for an environment that is not open yet, and the environment is gone or
 * open. 0 or ENOMEM. Any thread. */
int pgw__map_choose(MDB_env *env);
void pgw__map_forget(MDB_env *env);

/* For mdb_env_open: reserve what PAGEWISE_STORE says, if it does and the program did not choose. 0 or
 * LMDB's code. */
int pgw__map_reserve(MDB_env *env, unsigned flags);

/* mdb_env_set_mapsize, of an environment that is open (PGW__OP_RESIZE): LMDB has given up its map, and makes
 * one of len bytes. The same one, if the space behind it is free; or MAP_FAILED. */
void *pgw__map_extend(struct pgw__call *call, size_t len);

/* There was no room for a new one beside it: unmap it, as LMDB does. False: there is none. */
bool pgw__map_make_way(struct pgw__call *call);

/* LMDB has returned: keep what it has moved away from, for who reads there. It is unmapped with the next
 * resize that meets no reader, or when the environment is closed. */
void pgw__map_left(struct pgw__call *call);
void pgw__map_drop_left(struct pgw__env *e);

#endif
