/* SPDX-License-Identifier: BSD-2-Clause
 *
 * cmd_serve.c - chain serve: answers on a Unix socket, by several processes.
 *
 * Each worker has an environment of its own, opened after the fork: LMDB allows no other. The parent
 * opens none. It replaces a worker that somebody has ended, and ends when it is told to, or when a worker
 * gives up. A question that is being answered is answered first. Workers do not outlive it.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "serve.h"

#define DEFAULT_WORKERS 4

struct server {
	const char *dir, *path;
	int listener;
	size_t n;
	pid_t parent, worker[WORKERS_MAX];
	sigset_t open; /* with SIGINT and SIGTERM let through; otherwise they are held back */
};

static int cannot(const struct server *v, const char *what)
{
	fprintf(stderr, "chain: %s: cannot %s: %s\n", v->path, what, strerror(errno));
	return -1;
}

/* A socket that nobody listens to any more is in the way. */
static int remove_stale(const struct server *v, const struct sockaddr_un *addr)
{
	struct stat st;
	int fd, rc;

	if (lstat(v->path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode)) {
		errno = EEXIST;
		return cannot(v, "listen there");
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return cannot(v, "make a socket");
	rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
	close(fd);
	if (rc == 0) {
		errno = EADDRINUSE;
		return cannot(v, "listen there");
	}
	return unlink(v->path) ? cannot(v, "remove the old socket") : 0;
}

static int listen_at(struct server *v)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(v->path) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return cannot(v, "listen there");
	}
	memcpy(addr.sun_path, v->path, strlen(v->path));
	if (remove_stale(v, &addr))
		return -1;
	v->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (v->listener < 0)
		return cannot(v, "make a socket");
	if (bind(v->listener, (const struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(v->listener, SOMAXCONN)) {
		close(v->listener);
		return cannot(v, "listen there");
	}
	return 0;
}

_Noreturn static void work(const struct server *v)
{
	struct chain_db_options opt = { 0 };
	struct chain_error err = { 0 };
	struct chain_db db;
	int rc;

	/* Not to outlive the parent, however that ends. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != v->parent)
		_exit(EXIT_FAILED);
	if (chain_db_open(&db, v->dir, &opt, &err)) {
		(void)complain(NULL, &err);
		_exit(EXIT_FAILED);
	}
	rc = serve_connections(&db, v->listener, &v->open, &chain_stop);
	chain_db_close(&db);
	if (rc)
		fprintf(stderr, "chain: %s: cannot accept: %s\n", v->path, strerror(-rc));
	_exit(rc ? EXIT_FAILED : EXIT_DONE);
}

static int start(const struct server *v, pid_t *worker)
{
	*worker = fork();
	if (*worker == 0)
		work(v);
	return *worker < 0 ? cannot(v, "start a process") : 0;
}

/* A worker has ended, and not by us. One that was killed, or told to end by somebody else, is replaced;
 * one that has given up has said why, and another one would do the same. */
static int replace(struct server *v, pid_t pid, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) != EXIT_DONE) {
		fprintf(stderr, "chain: %s: worker %d has given up; ending\n", v->path, pid);
		return -1;
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "chain: %s: worker %d was ended by signal %d; starting another\n",
		    v->path, pid, WTERMSIG(status));
	else
		fprintf(stderr, "chain: %s: worker %d was told to end; starting another\n", v->path,
		    pid);
	for (size_t i = 0; i < v->n; i++)
		if (v->worker[i] == pid)
			return start(v, &v->worker[i]);
	return 0;
}

static int supervise(struct server *v)
{
	sigset_t all;
	int status;

	sigemptyset(&all);
	sigaddset(&all, SIGCHLD);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGTERM);
	for (;;) {
		int sig = sigwaitinfo(&all, NULL);
		pid_t pid;

		if (sig == SIGINT || sig == SIGTERM)
			return 0;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (replace(v, pid, status))
				return -1;
	}
}

static void end_workers(struct server *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->worker[i] > 0)
			(void)kill(v->worker[i], SIGTERM);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

int cmd_serve(char **argv, const struct settings *s)
{
	struct server v = {
		.dir = argv[0], .path = argv[1], .n = s->workers ? s->workers : DEFAULT_WORKERS
	};
	sigset_t held;
	int rc = 0;

	v.parent = getpid();
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGCHLD);
	sigprocmask(SIG_BLOCK, &held, &v.open);
	catch_signals();
	if (listen_at(&v))
		return EXIT_FAILED;
	for (size_t i = 0; i < v.n && !rc; i++)
		rc = start(&v, &v.worker[i]);
	if (!rc)
		rc = supervise(&v);
	end_workers(&v);
	close(v.listener);
	(void)unlink(v.path);
	return rc ? EXIT_FAILED : EXIT_DONE;
}
