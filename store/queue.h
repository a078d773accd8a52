/* SPDX-License-Identifier: BSD-2-Clause
 *
 * queue.h - liburcu's wait-free queue, and nothing else.
 *
 * The functions are those of the shared library: neither the compiler nor the thread sanitizer sees into
 * them. What is queued is handed over by an atomic of the user's.
 */
#ifndef PGW_STORE_QUEUE_H
#define PGW_STORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct pgw__queue;

/* Storage of one entry; it belongs to the queue from push to take. */
struct pgw__queue_node {
	void *next;
};

/* NULL: out of memory. */
struct pgw__queue *pgw__queue_create(void);

/* The queue is empty and nobody uses it. NULL is fine. */
void pgw__queue_destroy(struct pgw__queue *q);

/* Append. Was the queue empty? Wait-free, any thread. */
bool pgw__queue_push(struct pgw__queue *q, struct pgw__queue_node *node);

/* Take everything out: the first entry. One thread at a time, which has to wait for a push that has begun
 * and not ended. */
struct pgw__queue_node *pgw__queue_take(struct pgw__queue *q);

/* The entry behind one that was taken, or NULL; before the node is used again or its storage is gone. */
struct pgw__queue_node *pgw__queue_next(struct pgw__queue_node *node);

#endif
