/* SPDX-License-Identifier: BSD-2-Clause
 *
 * util.h - what the tests of group and relaxed durability share.
 */
#ifndef PGW_TESTS_CHECKPOINT_UTIL_H
#define PGW_TESTS_CHECKPOINT_UTIL_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include <pagewise/store.h>

/* As assert_int_equal(rc, 0), with the text. */
#define OK(expr) check_ok((expr), #expr, __FILE__, __LINE__)
void check_ok(int rc, const char *what, const char *file, int line);

/* In a function that returns an exit status: the first that is not so ends it. */
#define EXPECT(what, result)                                                               \
	do {                                                                               \
		int rc_ = (what);                                                          \
		if (rc_ != (result)) {                                                     \
			fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #what, \
			    pgw_strerror(rc_), rc_);                                       \
			return 1;                                                          \
		}                                                                          \
	} while (0)

/* A directory for each test, on a file system with a disk behind it if there is one. cmocka's setup
 * and teardown; *state is the path. */
int make_dir(void **state);
int remove_dir(void **state);

/* An environment that is opened for the test. */
struct spec {
	enum pgw_durability durability;
	unsigned flags; /* of mdb_env_open */
	unsigned checkpoint_ms;
	size_t map_size; /* 0: 16 MiB */
};

/* Tests of the names group, group_writemap, relaxed and relaxed_writemap: in_mode(dir, durability, flags). */
#define MODE_TEST(name, durability, flags)                           \
	static void name(void **state)                               \
	{                                                            \
		in_mode(*state, PGW_DURABILITY_##durability, flags); \
	}
#define CHECKPOINTED_MODE_TESTS                        \
	MODE_TEST(group, GROUP, 0)                     \
	MODE_TEST(group_writemap, GROUP, MDB_WRITEMAP) \
	MODE_TEST(relaxed, RELAXED, 0)                 \
	MODE_TEST(relaxed_writemap, RELAXED, MDB_WRITEMAP)

int try_open(const char *dir, struct spec s, MDB_env **env);
MDB_env *open_env(const char *dir, struct spec s);

/* Key n has this value. put: in a transaction of its own. */
int try_put_bytes(MDB_env *env, uint32_t key, MDB_val value, uint64_t *ticket);
int try_put(MDB_env *env, uint32_t key, uint64_t value, uint64_t *ticket);
void put(MDB_env *env, uint32_t key, uint64_t value);
/* 0 if it is not there. */
uint64_t get(MDB_env *env, uint32_t key);

struct pgw_env_stats stats(MDB_env *env);
uint64_t durable(MDB_env *env);

/* The data file of the environment in dir. */
const char *data_file(const char *dir);
bool is_fenced(const char *dir);

/* Exit status of a command; its output is discarded. */
int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Run in a child process, and return its exit status, or 128 + the signal. */
int in_child(int (*body)(void *arg), void *arg);

#endif
