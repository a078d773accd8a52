/* SPDX-License-Identifier: BSD-2-Clause
 *
 * queue.c - see queue.h.
 */
#include "queue.h"

#include <stdlib.h>

#include <urcu/wfcqueue.h>

_Static_assert(sizeof(struct pgw__queue_node) == sizeof(struct cds_wfcq_node), "one pointer each");

struct pgw__queue {
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;
};

struct pgw__queue *pgw__queue_create(void)
{
	struct pgw__queue *q = calloc(1, sizeof(*q));

	if (q)
		__cds_wfcq_init(&q->head, &q->tail);
	return q;
}

void pgw__queue_destroy(struct pgw__queue *q)
{
	free(q);
}

bool pgw__queue_push(struct pgw__queue *q, struct pgw__queue_node *node)
{
	struct cds_wfcq_node *n = (struct cds_wfcq_node *)node;

	cds_wfcq_node_init(n);
	return !cds_wfcq_enqueue(&q->head, &q->tail, n);
}

struct pgw__queue_node *pgw__queue_take(struct pgw__queue *q)
{
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;
	struct cds_wfcq_node *first, *n;

	__cds_wfcq_init(&head, &tail);
	__cds_wfcq_splice_blocking(&head, &tail, &q->head, &q->tail);
	first = __cds_wfcq_first_blocking(&head, &tail);
	/* When each has been seen, all links are there. */
	for (n = first; n; n = __cds_wfcq_next_blocking(&head, &tail, n))
		;
	return (struct pgw__queue_node *)first;
}

struct pgw__queue_node *pgw__queue_next(struct pgw__queue_node *node)
{
	return node->next;
}
