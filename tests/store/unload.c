/* SPDX-License-Identifier: BSD-2-Clause
 *
 * unload.c - a module that has LMDB is unloaded while its environment is open, with a checkpoint to be made.
 *
 *   unload LIBRARY
 *
 * The process must live on, and end by itself.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <lmdb.h>

#define FUNCTIONS(X)      \
	X(mdb_env_create) \
	X(mdb_env_open)   \
	X(mdb_txn_begin)  \
	X(mdb_txn_commit) \
	X(mdb_dbi_open)   \
	X(mdb_put)

static struct {
#define X(name) __typeof__(&name) name; /* NOLINT(bugprone-macro-parentheses) */
	FUNCTIONS(X)
#undef X
} lmdb;

static int load(void *library)
{
#define X(name)                                       \
	*(void **)&lmdb.name = dlsym(library, #name); \
	if (!lmdb.name)                               \
		return 1;
	FUNCTIONS(X)
#undef X
	return 0;
}

static int commit_one(MDB_env *env, int n)
{
	MDB_val k = { sizeof(n), &n }, v = k;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = lmdb.mdb_txn_begin(env, NULL, 0, &txn);

	if (!rc)
		rc = lmdb.mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = lmdb.mdb_put(txn, dbi, &k, &v, 0);
	return rc ? rc : lmdb.mdb_txn_commit(txn);
}

static int once(const char *path)
{
	char dir[] = "unload-test-XXXXXX", command[64];
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	MDB_env *env;
	int rc = 0;

	if (!library || load(library) || !mkdtemp(dir)) {
		fprintf(stderr, "unload: %s cannot be loaded\n", path);
		return 1;
	}
	if (lmdb.mdb_env_create(&env) || lmdb.mdb_env_open(env, dir, 0, 0600))
		rc = 1;
	for (int i = 0; i < 3 && !rc; i++)
		rc = commit_one(env, i);
	dlclose(library);
	usleep(20000); /* the thread wakes up */
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) || rc;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	/* The library must be loaded after that. */
	setenv("PAGEWISE_STORE", "durability:relaxed,checkpoint_ms:5", 1);
	for (int i = 0; i < 10; i++)
		if (once(argv[1]))
			return 1;
	return 0;
}
