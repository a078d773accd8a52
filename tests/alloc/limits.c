/* SPDX-License-Identifier: BSD-2-Clause
 *
 * limits.c CASE: what a process may not have more of: memory, mappings. Linked to the library; run
 * with MALLOC_CONF=dirty_decay_ms:0, so that what is free is ours.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <pagewise/alloc.h>

#include "cases.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
/* Number in a small file; 0 if there is none. No malloc. */
static size_t number_in(const char *path)
{
	char buf[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? strtoul(buf, NULL, 10) : 0;
}

/* ---- memory ---- */

enum { BLOCKS = 4000 };

static unsigned char *v[BLOCKS];

/* Fill memory that is limited, free every other block, go on with other sizes, free all, take one large
 * block. All but the first works only if what is free is made use of. */
static int fill(size_t limit)
{
	size_t n = 0, again = 0, got = limit / 2;

	while (n < BLOCKS && (v[n] = malloc(200 * KIB)))
		memset(v[n++], 1, 200 * KIB);
	fprintf(stderr, "%zu blocks of 200 KiB\n", n);
	if (n == BLOCKS || n * 200 * KIB < limit / 2)
		return wrong("the limit is not where it should be");
	for (size_t i = 0; i < n; i += 2)
		free(v[i]);
	for (size_t i = 0; i < n; i += 2) {
		v[i] = calloc(1, 190 * KIB);
		if (!v[i])
			continue;
		again++;
		for (size_t k = 0; k < 190 * KIB; k++)
			if (v[i][k])
				return wrong("calloc is not zero");
		memset(v[i], 2, 190 * KIB);
	}
	if (again < n / 2 * 9 / 10)
		return wrong("freed memory cannot be had again");
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	v[0] = malloc(got);
	if (!v[0])
		return wrong("no large block after everything was freed");
	memset(v[0], 1, got);
	free(v[0]);
	return 0;
}

/* Private writable memory is counted, whether touched or not, as overcommit_memory=2 counts it for the
 * whole system. */
static int data_limit(void)
{
	struct rlimit r = { 512 * MIB, 512 * MIB };

	return setrlimit(RLIMIT_DATA, &r) ? skip("no limit can be set") : fill(512 * MIB);
}

static int address_limit(void)
{
	struct rlimit r = { 512 * MIB, 512 * MIB };

	return setrlimit(RLIMIT_AS, &r) ? skip("no limit can be set") : fill(512 * MIB);
}

/* The real thing, where it is switched on: guests of tests/kernels/run with the kernel argument
 * sysctl.vm.overcommit_memory=2. */
static int overcommit(void)
{
	size_t left = 0;
	char line[128];
	FILE *f;

	if (number_in("/proc/sys/vm/overcommit_memory") != 2)
		return skip("vm.overcommit_memory is not 2");
	f = fopen("/proc/meminfo", "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "CommitLimit: %zu", &left) == 1)
			continue;
		if (strncmp(line, "Committed_AS:", 13) == 0)
			left -= strtoul(line + 13, NULL, 10);
	}
	if (f)
		fclose(f);
	fprintf(stderr, "%zu MiB can be committed\n", left / 1024);
	return left / 1024 < 128 || left / 1024 > 700 ? skip("a machine of another size is needed")
						      : fill(left * KIB);
}

/* ---- mappings ---- */

/* At the limit of mappings nothing can be split, so neither unmapped nor mapped in places; what is there
 * goes on working, and nothing is lost. */
static int map_count(void)
{
	size_t max = number_in("/proc/sys/vm/max_map_count"), page = (size_t)sysconf(_SC_PAGESIZE);
	size_t used, n = 0, failed = 0;
	char *area;
	uint64_t x = 1;

	if (!max || max > 200000)
		return skip("the limit of mappings is too high to get there");
	for (size_t i = 0; i < 400; i++) {
		v[i] = malloc(100 * KIB);
		memset(v[i], 1, 100 * KIB);
	}
	area = mmap(
	    NULL, (max + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return skip("no address space");
	while (n < max && !mprotect(area + n * page, page, PROT_READ))
		n += 2;
	used = mappings();
	fprintf(stderr, "%zu mappings of %zu\n", used, max);
	if (n >= max || used + 16 < max)
		return wrong("the limit is not where it should be");
	for (int i = 0; i < 20000; i++) {
		size_t k, size;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		k = x % 400;
		size = 1 + (x >> 16) % (100 * KIB);
		free(v[k]);
		v[k] = malloc(size);
		if (v[k])
			memset(v[k], (int)k, size);
		else
			failed++;
	}
	fprintf(stderr, "%zu requests failed\n", failed);
	if (failed > 20000 / 100)
		return wrong("memory of its own does not serve a process at the limit");
	for (size_t i = 0; i < 400; i++)
		free(v[i]);
	(void)pgw_alloc_purge();
	munmap(area, (max + 2) * page);
	v[0] = malloc(200 * MIB);
	if (!v[0])
		return wrong("no large block afterwards");
	memset(v[0], 1, 200 * MIB);
	free(v[0]);
	if (pgw_alloc_purge())
		return wrong("purge");
	return stats().held_bytes < 64 * MIB ? 0 : wrong("memory was lost");
}

static void *churn(void *arg)
{
	uint64_t x = (uintptr_t)arg * 2654435761u + 1;
	void *p[200] = { NULL };

	for (int i = 0; i < 6000; i++) {
		size_t k;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		k = x % 200;
		free(p[k]);
		p[k] = malloc(4096 + (x >> 16) % (i % 50 ? 96 * KIB : 6 * MIB));
		if (p[k])
			memset(p[k], 1, 4096);
	}
	for (size_t k = 0; k < 200; k += 2)
		free(p[k]);
	return NULL; /* the rest stays, in between */
}

/* Prints how many mappings a program like many has at its end. */
static int count(void)
{
	pthread_t t[3];

	for (uintptr_t i = 0; i < 3; i++)
		if (pthread_create(&t[i], NULL, churn, (void *)i))
			return wrong("pthread_create");
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("%zu\n", mappings());
	return 0;
}

static size_t count_with(const char *options)
{
	FILE *f;
	size_t n = 0;

	setenv("PAGEWISE_ALLOC", options, 1);
	f = popen("/proc/$PPID/exe count", "r"); /* the shell's parent is this program */
	if (!f || fscanf(f, "%zu", &n) != 1)
		n = 0;
	if (f)
		pclose(f);
	return n;
}

static int compare(void)
{
	size_t ours = count_with(""), plain = count_with("hooks:off");

	fprintf(stderr, "%zu mappings, with jemalloc alone %zu\n", ours, plain);
	if (!ours || !plain)
		return wrong("they cannot be counted");
	return ours <= plain + plain / 2 + 64 ? 0 : wrong("too many mappings");
}

static const struct test_case cases[] = {
	{ "data-limit", data_limit },
	{ "address-limit", address_limit },
	{ "overcommit", overcommit },
	{ "map-count", map_count },
	{ "mappings", compare },
	{ "count", count },
};

int main(int argc, char **argv)
{
	return run_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
