/* SPDX-License-Identifier: BSD-2-Clause
 *
 * space_sim.c - see space_sim.h.
 */
#include "space_sim.h"

#include <errno.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "sys.h"

struct sim sim;

static int sim_madvise(void *addr, size_t len, int advice)
{
	uint64_t start = (uint64_t)addr;

	if (advice == MADV_DONTNEED && sim.madvise_err &&
	    (!sim.bad_start || (start <= sim.bad_start && sim.bad_start - start < len)))
		return sim.madvise_err;
	return pgw__sys_real.madvise(addr, len, advice);
}

static int64_t sim_process_madvise(
    int pidfd, const struct iovec *v, size_t n, int advice, unsigned flags)
{
	(void)pidfd, (void)v, (void)n, (void)advice, (void)flags;
	return -ENOSYS;
}

static int sim_map(void *addr, size_t len, int prot, int flags, void **out)
{
	int err;

	if ((sim.map_limit && len > sim.map_limit) ||
	    (sim.space_limit && sim.mapped + len > sim.space_limit))
		return -ENOMEM;
	err = pgw__sys_real.map_anon(addr, len, prot, flags, out);
	sim.mapped += err ? 0 : len;
	sim.maps += !err;
	return err;
}

static int sim_unmap(void *addr, size_t len)
{
	if (sim.unmap_err)
		return sim.unmap_err;
	sim.mapped -= len;
	sim.unmaps++;
	return pgw__sys_real.unmap(addr, len);
}

int set_up(void **state)
{
	(void)state;
	pgw_dontneed_zeroes(); /* probed on the real kernel, before anything fails */
	pgw__space_reset();
	memset(&sim, 0, sizeof(sim));
	pgw__sys.madvise = sim_madvise;
	pgw__sys.process_madvise = sim_process_madvise;
	pgw__sys.map_anon = sim_map;
	pgw__sys.unmap = sim_unmap;
	pgw__option_set(PGW_ALLOC_PENDING, 4 * MIB);
	pgw__option_set(PGW_ALLOC_SHARE, 3);
	pgw__option_set(PGW_ALLOC_CLEAN, 1024 * MIB);
	pgw__option_set(PGW_ALLOC_CHUNK, 2 * MIB);
	return 0;
}

struct pgw_alloc_stats stats(void)
{
	struct pgw_alloc_stats s;

	pgw_alloc_stats_get(&s);
	return s;
}

bool reads_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

unsigned char *get(size_t size, size_t align, bool want_zero, bool *zero)
{
	unsigned char *p;

	*zero = want_zero;
	p = pgw__space_alloc(NULL, size, align, zero);
	if (p) {
		assert_int_equal((uintptr_t)p % align, 0);
		if (*zero)
			assert_true(reads_zero(p, size));
		else
			assert_false(want_zero);
	}
	return p;
}

unsigned char *dirty(size_t size)
{
	bool zero;
	unsigned char *p = get(size, PAGE, false, &zero);

	assert_non_null(p);
	memset(p, 0xa5, size);
	return p;
}

struct pgw__space_view give(void *p, size_t size)
{
	struct pgw__space_view v;

	assert_int_equal(pgw__space_give(p, size, &v), 0);
	return v;
}

void purge(void)
{
	pgw__purge_all(0, UINT64_MAX);
}
