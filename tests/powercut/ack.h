/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ack.h - what the guest tells the world outside about its progress, and how.
 *
 * Each message is one 512-byte sector, written with O_DIRECT to a partition of the disk that is being
 * logged, so that it has its place among the other writes. **Not** with O_SYNC: that would flush the
 * disk and make good whatever was forgotten before it. disk.py reads the messages from the log.
 */
#ifndef PGW_POWERCUT_ACK_H
#define PGW_POWERCUT_ACK_H

#include <stddef.h>
#include <stdint.h>

#define ACK_MAGIC     UINT64_C(0x6b63614577617077)
#define ACK_PAGES_MAX 48

enum ack_kind {
	ACK_START, /* the file exists and is durable: judge from here on */
	ACK_PAGES, /* pages: durable with sequence number `value` */
	ACK_TRY,   /* transaction `value` is about to be committed; its content has this digest */
	ACK_DONE,  /* transaction `value` is durable */
};

struct ack {
	uint64_t magic, task, kind, value, digest[2], n;
	uint64_t pages[ACK_PAGES_MAX];
	uint64_t unused[64 - 7 - ACK_PAGES_MAX];
};

_Static_assert(sizeof(struct ack) == 512, "one sector");

/* Open the partition. Exits with a message if that fails, as all functions of the workload do. */
void ack_open(const char *device, uint64_t task);

void ack_send(
    enum ack_kind kind, uint64_t value, const uint64_t digest[2], const uint64_t *pages, size_t n);

/* "what: strerror(err)", exit 1. */
_Noreturn void fail(const char *what, int err);

#endif
