/* SPDX-License-Identifier: BSD-2-Clause
 *
 * model.c - what the calls of pagewise would cost on OpenBSD and FreeBSD, modelled.
 *
 * usage: bench-model [--json] [--dirty=PAGES] [--resident=MIB]
 *
 * The calls are made by the shim, the kernels are counters (costmodel.h). Modelled times stand
 * beside the published figures they were fitted to, and are not measurements.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel.h"

enum { DIRTY_MAX = 4096, PURGED = 8192 };

static struct {
	bool json;
	uint64_t dirty, resident; /* pages */
} model = { .dirty = 8, .resident = UINT64_C(256) << 20 >> 12 };

static bool first = true;

/* --- OpenBSD: a commit through a map --- */

static const struct way {
	const char *name;
	enum pgw_sync_strategy strategy;
	bool whole; /* the caller does not know what is dirty */
} ways[] = {
	{ "one msync of the map (LMDB)", PGW_SYNC_SPAN, true },
	{ "pgw_sync span", PGW_SYNC_SPAN, false },
	{ "pgw_sync per-range", PGW_SYNC_PER_RANGE, false },
};

/* Single pages, spread evenly, the first and last of the map among them. */
static void spread(struct pgw_ranges *set, uint64_t extent)
{
	uint64_t step = model.dirty > 1 ? (extent - 1) / (model.dirty - 1) : 1;

	pgw_ranges_clear(set);
	for (uint64_t i = 0; i < model.dirty; i++)
		(void)pgw_ranges_add(set, i * step * COSTMODEL_PAGE, COSTMODEL_PAGE);
}

static void print_sync(unsigned gib, const struct way *w, const struct costmodel_sync *c)
{
	bool published = w->whole && gib == 32;
	double stock = costmodel_stock_ms(c), walk = costmodel_walk_ms(c);

	if (model.json) {
		printf("%s\n    {\"map_gib\": %u, \"way\": \"%s\", \"msync_calls\": %" PRIu64
		       ", \"pages\": %" PRIu64 ", \"lookups\": %" PRIu64 ", \"visited\": %" PRIu64
		       ", \"stock_ms\": %.1f, \"walk_ms\": %.1f",
		    first ? "" : ",", gib, w->name, c->calls, c->pages, c->lookups, c->visited,
		    stock, walk);
		if (published)
			printf(", \"published_stock_ms\": %.1f, \"published_walk_ms\": %.1f",
			    COSTMODEL_PUBLISHED_STOCK, COSTMODEL_PUBLISHED_WALK);
		printf("}");
		first = false;
		return;
	}
	printf("%3u GiB  %-27s %6" PRIu64 " %9" PRIu64 " %10" PRIu64 " %9" PRIu64 "  %8.1f %8.1f",
	    gib, w->name, c->calls, c->pages, c->lookups, c->visited, stock, walk);
	if (published)
		printf("   %.0f, %.1f", COSTMODEL_PUBLISHED_STOCK, COSTMODEL_PUBLISHED_WALK);
	printf("\n");
}

static int sync_rows(void)
{
	static const unsigned sizes[] = { 1, 8, 32 };
	struct pgw_range storage[DIRTY_MAX];
	struct costmodel_sync c;
	struct pgw_ranges set;

	pgw_ranges_init_fixed(&set, storage, DIRTY_MAX);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		uint64_t extent = (uint64_t)sizes[s] << 30 >> 12;

		for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
			int err;

			spread(&set, extent);
			if (ways[w].whole)
				(void)pgw_ranges_add(&set, 0, extent * COSTMODEL_PAGE);
			err = costmodel_sync(extent, model.resident, &set, ways[w].strategy, &c);
			if (err || c.others) {
				fprintf(stderr, "bench-model: pgw_sync: %s\n",
				    err ? strerror(-err) : "it made a call that is not modelled");
				return 1;
			}
			print_sync(sizes[s], &ways[w], &c);
		}
	}
	return 0;
}

/* Fitted on one published pair, the model is tried on the other: same extent, same constant. */
static void second_pair(void)
{
	struct costmodel_sync c = { .lookups = 2 * COSTMODEL_PUBLISHED_PAGES };
	double predicted =
	    costmodel_stock_ms(&c) - COSTMODEL_PUBLISHED_WALK + COSTMODEL_PUBLISHED2_WALK;

	if (model.json)
		printf(
		    "\n  ],\n  \"second_pair\": {\"walk_ms\": %.1f, \"predicted_stock_ms\": %.1f, "
		    "\"published_stock_ms\": %.1f},\n  \"freebsd_advise\": [",
		    COSTMODEL_PUBLISHED2_WALK, predicted, COSTMODEL_PUBLISHED2_STOCK);
	else
		printf("\nA look-up is %.1f ns, from the pair 749 -> 43.6 ms. Tried on the second "
		       "pair: from "
		       "%.1f ms\nthe model has %.0f ms without the walk, published are %.0f.\n",
		    costmodel_lookup_ns(), COSTMODEL_PUBLISHED2_WALK, predicted,
		    COSTMODEL_PUBLISHED2_STOCK);
	first = true;
}

/* --- FreeBSD: pages given back --- */

static void print_advise(const char *what, const char *how, const struct costmodel_advise *c)
{
	if (model.json)
		printf("%s\n    {\"ranges\": \"%s\", \"way\": \"%s\", \"calls\": %" PRIu64
		       ", \"page_locks\": %" PRIu64 ", \"range_locks\": %" PRIu64 "}",
		    first ? "" : ",", what, how, c->calls, c->page_locks, c->range_locks);
	else
		printf("%-22s %-22s %7" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", what, how,
		    c->calls, c->page_locks, c->range_locks);
	first = false;
}

/* pages of one page each, `step` pages apart: together, or one at a time as a caller does that does
 * not know its neighbours. */
static int advise_rows(const char *what, uint64_t step)
{
	static struct pgw_range v[PURGED];
	struct costmodel_advise all, one, sum = { 0 };
	const uint64_t base = UINT64_C(0x500000000000);
	int err = 0;

	for (uint64_t i = 0; i < PURGED; i++)
		v[i] = (struct pgw_range){ base + i * step * COSTMODEL_PAGE, COSTMODEL_PAGE };
	for (size_t i = 0; i < PURGED && !err; i++) {
		err = costmodel_advise(v + i, 1, &one);
		sum.calls += one.calls;
		sum.page_locks += one.page_locks;
		sum.range_locks += one.range_locks;
	}
	if (!err)
		err = costmodel_advise(v, PURGED, &all);
	if (err) {
		fprintf(stderr, "bench-model: pgw_advise: %s\n", strerror(-err));
		return 1;
	}
	print_advise(what, "one at a time", &sum);
	print_advise(what, "one pgw_advise", &all);
	return 0;
}

/* --- the program --- */

static int number(const char *name, const char *text, uint64_t max, uint64_t *out)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (*end || !n || n > max) {
		fprintf(stderr, "bench-model: --%s=%s: a number from 1 to %" PRIu64 "\n", name,
		    text, max);
		return 2;
	}
	*out = n;
	return 0;
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
		{ "dirty", required_argument, NULL, 'd' },
		{ "resident", required_argument, NULL, 'r' }, { 0 } };
	uint64_t mib;
	int c, err = 0;

	while (!err && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			model.json = true;
			break;
		case 'd':
			err = number("dirty", optarg, DIRTY_MAX, &model.dirty);
			break;
		case 'r':
			err = number("resident", optarg, 1024, &mib);
			if (!err)
				model.resident = mib << 20 >> 12;
			break;
		default:
			err = 2;
		}
	}
	if (!err && optind < argc) {
		fprintf(stderr, "bench-model: %s: no operands are taken\n", argv[optind]);
		err = 2;
	}
	return err;
}

int main(int argc, char **argv)
{
	int err = parse(argc, argv);

	if (err)
		return err;
	if (model.json)
		printf("{\n  \"dirty\": %" PRIu64 ", \"resident\": %" PRIu64
		       ",\n  \"openbsd_msync\": [",
		    model.dirty, model.resident);
	else
		printf("OpenBSD, a commit of %" PRIu64 " separate pages, %" PRIu64
		       " pages resident. Modelled times, ms; published: msync\nof a 32 GiB map, as "
		       "it was "
		       "and with the walk over resident pages.\n\n"
		       "map      way                          msyncs     pages   look-ups   "
		       "visited     "
		       "as was     walk   published\n",
		    model.dirty, model.resident);
	err = sync_rows();
	if (err)
		return err;
	second_pair();
	if (!model.json)
		printf("\nFreeBSD, DONTNEED of %d resident pages. Locks of the pmap, each with a "
		       "walk of its "
		       "tables: as it was,\none a page; since pmap_advise, one a call. Published: "
		       "1.5 to 2.0 %% "
		       "of the system time of a parallel\nbuildworld; no time is modelled from "
		       "that.\n\n"
		       "pages                  way                      calls   locks then    "
		       "locks now\n",
		    PURGED);
	err = advise_rows("separate", 2);
	if (!err)
		err = advise_rows("neighbours", 1);
	if (model.json)
		printf("\n  ]\n}\n");
	return err;
}
