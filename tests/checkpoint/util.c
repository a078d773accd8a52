/* SPDX-License-Identifier: BSD-2-Clause
 *
 * util.c - see util.h.
 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>

void check_ok(int rc, const char *what, const char *file, int line)
{
	if (!rc)
		return;
	print_error("%s: %s (%d)\n", what, pgw_strerror(rc), rc);
	_fail(file, line);
}

int make_dir(void **state)
{
	char *dir = strdup("checkpoint-test-XXXXXX");

	if (!dir || !mkdtemp(dir))
		return -1;
	*state = dir;
	return 0;
}

int remove_dir(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	free(*state);
	return system(command);
}

int try_open(const char *dir, struct spec s, MDB_env **env)
{
	struct pgw_env_options o;

	pgw_env_options_init(&o);
	o.durability = s.durability;
	o.flags = s.flags;
	if (s.checkpoint_ms)
		o.checkpoint_ms = s.checkpoint_ms;
	o.map_size = s.map_size ? s.map_size : 16u << 20;
	o.max_dbs = 4;
	return pgw_env_open(dir, &o, env);
}

MDB_env *open_env(const char *dir, struct spec s)
{
	MDB_env *env = NULL;

	OK(try_open(dir, s, &env));
	return env;
}

int try_put_bytes(MDB_env *env, uint32_t key, MDB_val v, uint64_t *ticket)
{
	MDB_val k = { sizeof(key), &key };
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = mdb_put(txn, dbi, &k, &v, 0);
	if (!rc)
		return ticket ? pgw_txn_commit_async(txn, ticket) : mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

int try_put(MDB_env *env, uint32_t key, uint64_t value, uint64_t *ticket)
{
	return try_put_bytes(env, key, (MDB_val){ sizeof(value), &value }, ticket);
}

void put(MDB_env *env, uint32_t key, uint64_t value)
{
	OK(try_put(env, key, value, NULL));
}

uint64_t get(MDB_env *env, uint32_t key)
{
	MDB_val k = { sizeof(key), &key }, v;
	uint64_t value = 0;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	OK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	OK(mdb_dbi_open(txn, NULL, 0, &dbi));
	rc = mdb_get(txn, dbi, &k, &v);
	if (!rc)
		memcpy(&value, v.mv_data, sizeof(value));
	mdb_txn_abort(txn);
	assert_true(!rc || rc == MDB_NOTFOUND);
	return value;
}

struct pgw_env_stats stats(MDB_env *env)
{
	struct pgw_env_stats s;

	assert_int_equal(pgw_env_stats(env, &s), 0);
	return s;
}

uint64_t durable(MDB_env *env)
{
	uint64_t txnid;

	OK(pgw_env_durable_txnid(env, &txnid));
	return txnid;
}

const char *data_file(const char *dir)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/data.mdb", dir);
	return path;
}

bool is_fenced(const char *dir)
{
	uint32_t version[2];
	int fd = open(data_file(dir), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &version[0], 4, 20), 4);
	assert_int_equal(pread(fd, &version[1], 4, 4096 + 20), 4);
	close(fd);
	return version[0] != 1 || version[1] != 1;
}

int run(const char *format, ...)
{
	char command[512];
	va_list ap;
	int n, status;

	va_start(ap, format);
	n = vsnprintf(command, sizeof(command) - 20, format, ap);
	va_end(ap);
	strcpy(command + n, " >/dev/null 2>&1");
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int in_child(int (*body)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(body(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
