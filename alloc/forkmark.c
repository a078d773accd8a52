/* SPDX-License-Identifier: BSD-2-Clause
 *
 * forkmark.c - see forkmark.h.
 */
#include "forkmark.h"

#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>

#include <pagewise/probe.h>

#include "sys.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Atomic(_Atomic uint32_t *) pgw__forkmark;

static _Atomic uint32_t unwiped; /* stands in where no page can be wiped */

static void make(void)
{
	size_t page = pgw_page_size();
	_Atomic uint32_t *mine = &unwiped, *none = NULL;
	void *p = NULL;

	/* Published only once it will be wiped: a child must never see a claim of its parent's. */
	if (pgw__sys.map_anon(NULL, page, PROT_READ | PROT_WRITE, 0, &p) == 0 &&
	    pgw__sys.madvise(p, page, MADV_WIPEONFORK) == 0)
		mine = p;
	if (!atomic_compare_exchange_strong(&pgw__forkmark, &none, mine) || mine == &unwiped) {
		if (p)
			(void)pgw__sys.unmap(p, page);
	}
}

bool pgw__forkmark_claim(void)
{
	_Atomic uint32_t *m;
	uint32_t wiped = PGW__MARK_WIPED;

	if (!atomic_load_explicit(&pgw__forkmark, memory_order_acquire))
		make();
	m = atomic_load_explicit(&pgw__forkmark, memory_order_acquire);
	if (atomic_compare_exchange_strong(m, &wiped, PGW__MARK_CLAIMED))
		return true;
	while (atomic_load_explicit(m, memory_order_acquire) != PGW__MARK_SET)
		sched_yield(); /* the one that claimed it does nothing slow */
	return false;
}

void pgw__forkmark_set(void)
{
	atomic_store_explicit(atomic_load(&pgw__forkmark), PGW__MARK_SET, memory_order_release);
}

bool pgw__forkmark_by_kernel(void)
{
	_Atomic uint32_t *m = atomic_load(&pgw__forkmark);

	return m && m != &unwiped;
}

void pgw__forkmark_wipe(void)
{
	_Atomic uint32_t *m = atomic_load(&pgw__forkmark);

	if (m)
		atomic_store(m, PGW__MARK_WIPED);
}
