/* SPDX-License-Identifier: BSD-2-Clause
 *
 * serve.c - see serve.h.
 */
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "outputs.h"
#include "query.h"
#include "verify.h"

#define WORDS 4

static int number(const char *text, uint64_t *v, struct chain_error *err)
{
	char *end;

	errno = 0;
	*v = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return chain_fail(err, CHAIN_REFUSED, "%s: not a number", text);
	return 0;
}

static int outputs(
    struct chain_db *db, char **word, size_t n, struct out *o, struct chain_error *err)
{
	struct outputs_query q = { .all = n == 1 };

	if ((n > 1 && number(word[1], &q.amount, err)) ||
	    (n > 2 && number(word[2], &q.from, err)) || (n > 3 && number(word[3], &q.count, err)))
		return -1;
	return query_outputs(db, &q, o, err);
}

static int verify(struct chain_db *db, struct out *o, struct chain_error *err)
{
	struct verify_result v;

	if (chain_verify(db, &v, err))
		return -1;
	out_u64(o, "blocks", v.blocks);
	out_u64(o, "transactions", v.txs);
	out_u64(o, "outputs", v.outputs);
	out_u64(o, "key_images", v.key_images);
	return 0;
}

static int dispatch(
    struct chain_db *db, char **word, size_t n, struct out *o, struct chain_error *err)
{
	if (n == 1 && strcmp(word[0], "info") == 0)
		return query_info(db, o, err);
	if (n == 2 && strcmp(word[0], "block") == 0)
		return query_block(db, word[1], o, err);
	if (n == 2 && strcmp(word[0], "tx") == 0)
		return query_tx(db, word[1], o, err);
	if (n >= 1 && strcmp(word[0], "outputs") == 0)
		return outputs(db, word, n, o, err);
	if (n == 1 && strcmp(word[0], "verify") == 0)
		return verify(db, o, err);
	return chain_fail(err, CHAIN_REFUSED,
	    "ask info, block HEIGHT|HASH, tx HASH, outputs [AMOUNT [FROM [COUNT]]] or verify");
}

int serve_answer(struct chain_db *db, char *line, struct out *o)
{
	struct chain_error err = { 0 };
	char *word[WORDS + 1], *rest = NULL;
	size_t n = 0;
	int rc = -1;

	for (char *w = strtok_r(line, " \t\r", &rest); w && n <= WORDS;
	     w = strtok_r(NULL, " \t\r", &rest))
		word[n++] = w;
	if (out_begin(o, true))
		return -1;
	if (n <= WORDS)
		rc = dispatch(db, word, n, o, &err);
	else
		chain_error_set(&err, CHAIN_REFUSED, "more than %d words", WORDS);
	if (rc == 0)
		return out_keep(o);
	(void)out_end(o, false);
	if (out_begin(o, true))
		return -1;
	out_text(o, "error", err.text);
	return out_keep(o);
}

/* Waits for fd; false when it is time to stop, or nothing has come. */
static bool wait_for(
    int fd, short events, int ms, const sigset_t *mask, const volatile sig_atomic_t *stop)
{
	struct timespec limit = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	struct pollfd p = { .fd = fd, .events = events };
	int rc;

	do
		rc = *stop ? 0 : ppoll(&p, 1, ms < 0 ? NULL : &limit, mask);
	while (rc < 0 && errno == EINTR);
	return rc > 0;
}

static bool send_all(
    int fd, const char *p, size_t n, const sigset_t *mask, const volatile sig_atomic_t *stop)
{
	while (n > 0) {
		ssize_t sent = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN && wait_for(fd, POLLOUT, SERVE_IDLE_MS, mask, stop))
			continue;
		if (sent < 0)
			return false;
		p += sent;
		n -= (size_t)sent;
	}
	return true;
}

static bool answer_line(struct chain_db *db, int fd, char *line, const sigset_t *mask,
    const volatile sig_atomic_t *stop)
{
	struct out o;
	bool sent;

	if (serve_answer(db, line, &o))
		return false;
	sent = send_all(fd, o.text, o.size, mask, stop);
	free(o.text);
	return sent;
}

static void serve_one(
    struct chain_db *db, int fd, const sigset_t *mask, const volatile sig_atomic_t *stop)
{
	char buffer[SERVE_LINE_MAX];
	size_t have = 0;

	while (wait_for(fd, POLLIN, SERVE_IDLE_MS, mask, stop)) {
		ssize_t n = recv(fd, buffer + have, sizeof(buffer) - have, MSG_DONTWAIT);
		char *end;

		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return;
		have += (size_t)n;
		while ((end = memchr(buffer, '\n', have))) {
			size_t line = (size_t)(end - buffer) + 1;

			*end = 0;
			if (line == 1 || !answer_line(db, fd, buffer, mask, stop))
				return;
			have -= line;
			memmove(buffer, buffer + line, have);
		}
		/* A line that is longer than any question. */
		if (have == sizeof(buffer))
			return;
	}
}

int serve_connections(
    struct chain_db *db, int listener, const sigset_t *mask, const volatile sig_atomic_t *stop)
{
	while (wait_for(listener, POLLIN, -1, mask, stop)) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		/* Another process was quicker, or the client has gone. */
		if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			return -errno;
		serve_one(db, fd, mask, stop);
		close(fd);
	}
	return 0;
}
