/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bootstrap.c - see bootstrap.h.
 */
#include "bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block.h"

#define MAGIC	    0x28721586U
#define MAGIC_SIZE  4
#define LENGTH_SIZE 4
/* A record of the header starts within its first bytes; this much of it is looked at. */
#define HEADER_LOOK 256
#define WINDOW	    (2 * (size_t)BOOTSTRAP_CHUNK_MAX)

static int cannot_read(uint64_t off, struct chain_error *err)
{
	return chain_fail(
	    err, CHAIN_SYSTEM, "offset %" PRIu64 ": cannot read: %s", off, strerror(errno));
}

/* Moves the window to off and fills it. Short only where the file ends. What it leaves behind is hardly
 * ever read again; in the page cache it would push out pages of the store, which are. */
static int fill(struct bootstrap *b, uint64_t off, struct chain_error *err)
{
	if (off > b->window_off)
		(void)posix_fadvise(
		    b->fd, (off_t)b->window_off, (off_t)(off - b->window_off), POSIX_FADV_DONTNEED);
	b->window_off = off;
	b->window_len = 0;
	while (b->window_len < b->window_cap) {
		ssize_t n = pread(b->fd, b->window + b->window_len, b->window_cap - b->window_len,
		    (off_t)(off + b->window_len));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cannot_read(off + b->window_len, err);
		if (n == 0)
			break;
		b->window_len += (size_t)n;
	}
	return 0;
}

/* Drops what the window has before off. */
static void slide(struct bootstrap *b, uint64_t off)
{
	uint64_t gone = off - b->window_off;

	if (gone > b->window_len)
		gone = b->window_len;
	b->window_len -= gone;
	memmove(b->window, b->window + gone, b->window_len);
	b->window_off += gone;
}

/* The same for a pipe, which need not give more than n bytes: whoever writes it may be slow. */
static int fill_stream(struct bootstrap *b, uint64_t off, size_t n, struct chain_error *err)
{
	if (off < b->window_off)
		return chain_fail(err, CHAIN_REFUSED,
		    "offset %" PRIu64 ": a pipe cannot be read a second time", off);
	for (;;) {
		ssize_t got;

		slide(b, off);
		if (b->window_off == off && b->window_len >= n)
			return 0;
		got = read(b->fd, b->window + b->window_len, b->window_cap - b->window_len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cannot_read(b->window_off + b->window_len, err);
		if (got == 0)
			return 0;
		b->window_len += (size_t)got;
	}
}

/* At least n bytes from off on, fewer where the file ends. n must fit the window. */
static int look(
    struct bootstrap *b, uint64_t off, size_t n, struct span *out, struct chain_error *err)
{
	uint64_t at = off - b->window_off;

	if (off < b->window_off || at > b->window_len || b->window_len - at < n) {
		if (b->fd >= 0 && (b->stream ? fill_stream(b, off, n, err) : fill(b, off, err)))
			return -1;
		at = off - b->window_off;
	}
	if (at > b->window_len)
		at = b->window_len;
	*out = (struct span){ b->window + at, b->window_len - at };
	return 0;
}

/* A record: its length as a fixed u32, then so many bytes. */
static struct cursor record(struct cursor *c, const char *what)
{
	struct cursor r;
	uint64_t origin;
	struct span s;

	s = cursor_take(c, cursor_u32(c, what), 1, what);
	origin = c->origin + c->pos - s.n;
	cursor_init(&r, s.p, s.n, origin);
	return r;
}

static int read_header(struct bootstrap *b, struct chain_error *err)
{
	struct cursor c, info;
	struct span head;
	uint64_t header_size;
	size_t at;

	if (look(b, 0, HEADER_LOOK, &head, err))
		return -1;
	/* The same from a descriptor and from memory, which shows all of the file. */
	cursor_init(&c, head.p, head.n < HEADER_LOOK ? head.n : HEADER_LOOK, 0);
	if (cursor_u32(&c, "magic number") != MAGIC)
		cursor_fail_at(&c, 0, "magic number", "is not that of a Monero bootstrap file");
	info = record(&c, "file-info record");
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_INPUT, &c);
	b->major = cursor_u8(&info, "format major version");
	b->minor = cursor_u8(&info, "format minor version");
	if (cursor_ok(&info) && b->major > 1)
		cursor_fail_at(&info, 0, "format major version", "is neither 0 nor 1");
	at = info.pos;
	header_size = cursor_varint(&info, "header size");
	if (cursor_ok(&info) && !b->stream && header_size + MAGIC_SIZE > b->size)
		cursor_fail_at(&info, at, "header size", "is more than the file holds");
	if (!cursor_ok(&info))
		return chain_fail_cursor(err, CHAIN_INPUT, &info);

	info = record(&c, "blocks-info record");
	b->hint_first = cursor_varint(&info, "first height");
	b->hint_last = cursor_varint(&info, "last height");
	if (!cursor_ok(&c))
		return chain_fail_cursor(err, CHAIN_INPUT, &c);
	if (!cursor_ok(&info))
		return chain_fail_cursor(err, CHAIN_INPUT, &info);
	b->offset = MAGIC_SIZE + header_size;
	return 0;
}

int bootstrap_open(struct bootstrap *b, const char *path, struct chain_error *err)
{
	bool in = strcmp(path, "-") == 0;
	struct stat st;

	*b = (struct bootstrap){ .window_cap = WINDOW };
	b->fd = in ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
	if (b->fd < 0)
		return chain_fail(err, CHAIN_SYSTEM, "%s: cannot open: %s", path, strerror(errno));
	if (fstat(b->fd, &st)) {
		chain_error_set(err, CHAIN_SYSTEM, "%s: cannot stat: %s", path, strerror(errno));
		goto fail;
	}
	b->stream = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode);
	b->size = b->stream ? 0 : (uint64_t)st.st_size;
	b->window = malloc(b->window_cap);
	if (!b->window) {
		chain_error_set(err, CHAIN_SYSTEM, "no memory for a read window");
		goto fail;
	}
	(void)posix_fadvise(b->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	if (read_header(b, err))
		goto fail;
	return 0;
fail:
	bootstrap_close(b);
	return -1;
}

int bootstrap_open_memory(
    struct bootstrap *b, const void *data, size_t len, struct chain_error *err)
{
	/* The window is never written when there is no file to fill it from. */
	*b = (struct bootstrap){ .fd = -1,
		.window = (uint8_t *)data,
		.window_cap = len,
		.window_len = len,
		.size = len };
	return read_header(b, err);
}

void bootstrap_close(struct bootstrap *b)
{
	if (b->window_cap > 0 && b->fd >= 0) {
		free(b->window);
		close(b->fd);
	}
	memset(b, 0, sizeof(*b));
	b->fd = -1;
}

/* 1: *len is the length of the chunk at b->offset. 0: the file ends there. */
static int chunk_length(struct bootstrap *b, uint32_t *len, struct chain_error *err)
{
	struct span s;
	struct cursor c;

	if (look(b, b->offset, LENGTH_SIZE, &s, err))
		return -1;
	if (s.n == 0 || (s.n < LENGTH_SIZE && b->growing))
		return 0;
	cursor_init(&c, s.p, s.n, b->offset);
	if (s.n < LENGTH_SIZE) {
		cursor_fail(&c, "chunk length", "is cut short");
		return chain_fail_cursor(err, CHAIN_INPUT, &c);
	}
	*len = cursor_u32(&c, "chunk length");
	if (*len == 0)
		cursor_fail_at(&c, 0, "chunk length", "is 0");
	else if (*len > BOOTSTRAP_CHUNK_MAX)
		cursor_fail_at(&c, 0, "chunk length", "is over 2 MiB");
	return cursor_ok(&c) ? 1 : chain_fail_cursor(err, CHAIN_INPUT, &c);
}

static int cut_short(
    const struct bootstrap *b, uint32_t want, uint64_t have, struct chain_error *err)
{
	if (b->growing)
		return 0;
	return chain_fail(err, CHAIN_INPUT,
	    "offset %" PRIu64 " (0x%" PRIx64 "): chunk of %" PRIu32
	    " bytes is cut short: the file has %" PRIu64 " of them",
	    b->offset, b->offset, want, have);
}

int bootstrap_next(struct bootstrap *b, struct chunk *out, struct chain_error *err)
{
	uint32_t len = 0;
	struct span s;
	size_t more = 0;
	int rc = chunk_length(b, &len, err);

	if (rc <= 0)
		return rc;
	if (look(b, b->offset, 2 * LENGTH_SIZE + len + BLOCK_HEADER_MAX, &s, err))
		return -1;
	/* The file may have shrunk since its length word was read. */
	if (s.n < LENGTH_SIZE || s.n - LENGTH_SIZE < len)
		return cut_short(b, len, s.n < LENGTH_SIZE ? 0 : s.n - LENGTH_SIZE, err);
	if (s.n - LENGTH_SIZE - len > LENGTH_SIZE)
		more = s.n - 2 * LENGTH_SIZE - len;
	if (more > BLOCK_HEADER_MAX)
		more = BLOCK_HEADER_MAX;
	*out = (struct chunk){
		.offset = b->offset,
		.body_offset = b->offset + LENGTH_SIZE,
		.body = { s.p + LENGTH_SIZE, len },
		.after = { more ? s.p + 2 * LENGTH_SIZE + len : s.p, more },
	};
	b->offset += LENGTH_SIZE + len;
	return 1;
}

int bootstrap_skip(struct bootstrap *b, struct chain_error *err)
{
	uint32_t len = 0;
	uint64_t end;
	int rc = chunk_length(b, &len, err);

	if (rc <= 0)
		return rc;
	end = b->offset + LENGTH_SIZE + len;
	/* It may have grown since it was opened, though nobody follows it. */
	if (!b->stream && b->size < end && (!bootstrap_grown(b) || b->size < end))
		return cut_short(b, len,
		    b->size > b->offset + LENGTH_SIZE ? b->size - b->offset - LENGTH_SIZE : 0, err);
	b->offset += LENGTH_SIZE + len;
	return 1;
}

/* The length word at off, if the file has one: past the window, so that a count reads four bytes a
 * chunk. */
static bool length_at(struct bootstrap *b, uint64_t off, uint32_t *len)
{
	uint8_t word[LENGTH_SIZE];
	struct cursor c;

	if (off + LENGTH_SIZE > b->size)
		return false;
	if (b->fd < 0)
		memcpy(word, b->window + off, LENGTH_SIZE);
	else if (pread(b->fd, word, LENGTH_SIZE, (off_t)off) != LENGTH_SIZE)
		return false;
	cursor_init(&c, word, LENGTH_SIZE, off);
	*len = cursor_u32(&c, "chunk length");
	return *len > 0 && *len <= BOOTSTRAP_CHUNK_MAX;
}

uint64_t bootstrap_count(struct bootstrap *b)
{
	uint64_t off = b->offset, count = 0;
	uint32_t len;

	while (length_at(b, off, &len)) {
		off += LENGTH_SIZE + len;
		count++;
	}
	return count;
}

bool bootstrap_grown(struct bootstrap *b)
{
	uint64_t before = b->size;
	struct stat st;

	if (b->fd < 0 || b->stream || fstat(b->fd, &st))
		return false;
	b->size = (uint64_t)st.st_size;
	return b->size > before;
}
