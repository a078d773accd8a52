/* SPDX-License-Identifier: BSD-2-Clause
 *
 * load.c - one round: threads that commit for a while.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_SAMPLES 200000

/* How long a pin is kept: the default bound of relaxed durability. */
#define PIN_US 1e5

struct worker {
	struct subject *subject;
	pthread_t thread;
	uint64_t random, commits;
	unsigned batch;
	bool append;
	double *us; /* of each commit; NULL: not wanted */
	size_t n;
};

static _Atomic bool stop;

static void commit_one(struct worker *w)
{
	struct subject *s = w->subject;
	MDB_txn *txn;

	check(s, s->api->txn_begin(s->env, NULL, 0, &txn), "begin");
	for (unsigned i = 0; i < w->batch; i++) {
		if (w->append)
			put(s, txn, s->next_key++, MDB_APPEND, &w->random);
		else
			put(s, txn, next_random(&w->random) % bench.records, 0, &w->random);
	}
	check(s, s->api->txn_commit(txn), "commit");
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		double start = now_us();

		commit_one(w);
		w->commits++;
		if (w->us && w->n < MAX_SAMPLES)
			w->us[w->n++] = now_us() - start;
	}
	return NULL;
}

static void rest(double us)
{
	const struct timespec t = {
		.tv_sec = (time_t)(us / 1e6),
		.tv_nsec = (long)((us - (double)(time_t)(us / 1e6) * 1e6) * 1e3),
	};

	if (us > 0)
		nanosleep(&t, NULL);
}

/* Let the time of the round pass; with a pin, move it. */
static void pass_time(struct subject *s)
{
	double end = now_us() + bench.ms * 1e3;

	while (now_us() < end) {
		double left = end - now_us();
		MDB_txn *reader = NULL;

		if (s->mode == PINNED)
			check(s, s->api->txn_begin(s->env, NULL, MDB_RDONLY, &reader), "reader");
		rest(left < PIN_US ? left : PIN_US);
		if (reader)
			s->api->txn_abort(reader);
	}
}

static void start(struct worker *w)
{
	if (pthread_create(&w->thread, NULL, work, w)) {
		perror("bench-store: thread");
		exit(EXIT_FAILURE);
	}
}

struct result load_run(struct subject *s, const struct load *l)
{
	static struct worker w[MAX_THREADS + 1];
	static double samples[MAX_SAMPLES];
	unsigned n = l->threads + (l->bulk ? 1 : 0);
	uint64_t commits = 0, barriers = subject_barriers(s);
	static unsigned round;
	struct result r;
	double began = now_us();

	round++;
	atomic_store(&stop, false);
	for (unsigned i = 0; i < n; i++) {
		w[i] = (struct worker){ .subject = s,
			.random = 88172645463325252u + i * 7919u + round,
			.batch = i < l->threads ? l->batch : l->bulk,
			.append = l->append,
			.us = i ? NULL : samples };
		start(&w[i]);
	}
	pass_time(s);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < n; i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned i = 0; i < l->threads; i++)
		commits += w[i].commits;
	r.rate = (double)commits * 1e6 / (now_us() - began);
	r.barriers = (double)(subject_barriers(s) - barriers) / (double)commits;
	r.us = samples;
	r.n = w[0].n;
	subject_settle(s);
	return r;
}
