/* SPDX-License-Identifier: BSD-2-Clause
 *
 * ack.c - messages from the guest (ack.h).
 */
#include "ack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 1024 /* the log keeps what is overwritten here */

static int device_fd = -1;
static uint64_t task_number, sent;
static struct ack *sector; /* aligned for O_DIRECT */

void fail(const char *what, int err)
{
	fprintf(stderr, "workload: %s: %s\n", what, strerror(err));
	exit(1);
}

void ack_open(const char *device, uint64_t task)
{
	device_fd = open(device, O_WRONLY | O_DIRECT | O_CLOEXEC);
	if (device_fd < 0)
		fail(device, errno);
	if (posix_memalign((void **)&sector, 4096, sizeof(*sector)))
		fail("memory", ENOMEM);
	task_number = task;
}

void ack_send(
    enum ack_kind kind, uint64_t value, const uint64_t digest[2], const uint64_t *pages, size_t n)
{
	memset(sector, 0, sizeof(*sector));
	sector->magic = ACK_MAGIC;
	sector->task = task_number;
	sector->kind = kind;
	sector->value = value;
	if (digest)
		memcpy(sector->digest, digest, sizeof(sector->digest));
	sector->n = n;
	if (n)
		memcpy(sector->pages, pages, n * sizeof(*pages));
	if (pwrite(device_fd, sector, sizeof(*sector), (off_t)(sent++ % SLOTS * sizeof(*sector))) !=
	    sizeof(*sector))
		fail("acknowledgement", errno);
}
