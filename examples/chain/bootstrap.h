/* SPDX-License-Identifier: BSD-2-Clause
 *
 * bootstrap.h - reader of Monero's bootstrap files (blockchain.raw): a header, then chunks of one
 * block package each until the file ends.
 *
 * The file is read through a window rather than mapped: an I/O error or a file cut short while it
 * is read must be an error with an offset, and not a SIGBUS. A pipe is read the same way, forward
 * only. One thread a reader.
 */
#ifndef CHAIN_BOOTSTRAP_H
#define CHAIN_BOOTSTRAP_H

#include "error.h"

/* Monero's importer takes no larger chunk. */
#define BOOTSTRAP_CHUNK_MAX (2U << 20)

struct bootstrap {
	int fd; /* -1: the window is all there is */
	uint8_t *window;
	size_t window_cap, window_len;
	uint64_t window_off; /* the file offset of window[0] */
	uint64_t size;	     /* of the file, when it was opened or had grown; of a pipe 0 */
	uint64_t offset;     /* of the next chunk */

	bool stream;  /* a pipe: what the window has left behind is gone */
	bool growing; /* set by the caller: a chunk that is cut short is no chunk yet */

	uint8_t major, minor; /* of the format */
	/* What the first export wrote into the header. Later exports append chunks and leave it as
	 * it is, so these are no more than a hint. */
	uint64_t hint_first, hint_last;
};

struct chunk {
	uint64_t offset;   /* in the file, of the length word */
	struct span body;  /* without the length word */
	struct span after; /* the start of the next chunk's body, as much as a block header needs */
	uint64_t body_offset;
};

/* Opens and checks the header. On failure nothing is left open. path "-" is standard input. */
int bootstrap_open(struct bootstrap *b, const char *path, struct chain_error *err);
/* The same from memory, which must outlive b. */
int bootstrap_open_memory(
    struct bootstrap *b, const void *data, size_t len, struct chain_error *err);
/* b may be all zero. */
void bootstrap_close(struct bootstrap *b);

/* Reads the chunk at b->offset and steps behind it. 1: done; 0: the file ends here; -1: error, the
 * offset has not moved. What *out points to is good until the next call. */
int bootstrap_next(struct bootstrap *b, struct chunk *out, struct chain_error *err);
/* Steps over a chunk, having looked at no more than its length. Results as above. */
int bootstrap_skip(struct bootstrap *b, struct chain_error *err);

/* How many chunks there are from b->offset on, whole or not. 0 for a pipe, which has to be read. */
uint64_t bootstrap_count(struct bootstrap *b);
/* The file is longer than it was when this was last asked, or when it was opened. */
bool bootstrap_grown(struct bootstrap *b);

#endif
