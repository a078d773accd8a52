/* SPDX-License-Identifier: BSD-2-Clause
 *
 * store.c - an LMDB program, and what its commits cost.
 *
 * usage: store DIR
 *
 * Nothing but the last function is particular to pagewise: linked with -llmdb, the rest does the
 * same with more work for the kernel.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <pagewise/store.h>

/* Sparse: costs address space only. */
#define MAP_SIZE ((size_t)32 << 30)

static int put(MDB_env *env, uint64_t number)
{
	char text[64];
	MDB_val key = { sizeof(number), &number }, value = { 0, text };
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	value.mv_size = (size_t)snprintf(text, sizeof(text), "record %" PRIu64, number);
	rc = mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi);
	if (!rc)
		rc = mdb_put(txn, dbi, &key, &value, 0);
	if (rc) {
		mdb_txn_abort(txn);
		return rc;
	}
	return mdb_txn_commit(txn);
}

static int run(MDB_env *env, const char *dir)
{
	int rc = mdb_env_set_mapsize(env, MAP_SIZE);

	if (!rc)
		rc = mdb_env_open(env, dir, MDB_WRITEMAP, 0600);
	for (uint64_t i = 0; i < 100 && !rc; i++)
		rc = put(env, i);
	return rc;
}

static void report(MDB_env *env)
{
	struct pgw_env_stats st;

	if (pgw_env_stats(env, &st))
		return;
	printf("%" PRIu64 " commits, %" PRIu64 " bytes dirtied, %" PRIu64 " bytes synced, %" PRIu64
	       " barriers\n",
	    st.commits, st.dirty_bytes, st.synced_bytes, st.barriers);
	for (int i = 0; i < PGW_FULL_SYNC_COUNT; i++)
		if (st.full_syncs[i])
			printf("whole file synced, %s: %" PRIu64 "\n", pgw_full_sync_name(i),
			    st.full_syncs[i]);
	printf("%s\n", st.strategy_reason);
}

int main(int argc, char **argv)
{
	MDB_env *env;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: store DIR\n");
		return 2;
	}
	if (mkdir(argv[1], 0700) && errno != EEXIST) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	rc = mdb_env_create(&env);
	if (!rc) {
		rc = run(env, argv[1]);
		report(env);
		mdb_env_close(env);
	}
	if (rc)
		fprintf(stderr, "%s: %s\n", argv[1], mdb_strerror(rc));
	return rc ? EXIT_FAILURE : 0;
}
