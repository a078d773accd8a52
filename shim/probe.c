/* SPDX-License-Identifier: BSD-2-Clause
 *
 * probe.c - what this kernel takes, found by doing it to scratch pages.
 *
 * Each advice has one atomic word, its decision:
 *
 *     unknown --probe--> vectored by PIDFD_SELF --> vectored by a pidfd --> loop
 *             \------------------------------------------------------> loop, none
 *
 *  I1  A decision, once published, moves to the right only: a probe publishes over "unknown" and
 *      nothing else, pgw__downgrade and pgw__use_pidfd check what they replace.
 *  I2  Two threads may probe at once; each works on pages of its own, the first publishes.
 *  I3  What could not be probed for want of memory or descriptors is not published, but asked again.
 *  I4  A success is believed only if
 *      - the return value is the sum of what was asked,
 *      - the effect is there, where it can be seen, and the pages beside are as they were, and
 *      - a request that no kernel grants (a misaligned range) is refused: so that a filter which
 *        answers everything with success is found out where the effect cannot be seen.
 *  I5  Modes loop and vectored and off do not call process_madvise here; off calls nothing.
 */
#include "probe.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "report.h"
#include "stats.h"
#include "sys.h"

#define PROBE_CALL(call, ...) (PGW__COUNT(probe_calls, 1), pgw__sys.call(__VA_ARGS__))

/* Scratch pages: those with even numbers must stay as they are. */
#define SINGLE_PAGE   1
#define VECTOR_PAGE_A 3
#define VECTOR_PAGE_B 5
#define SCRATCH_PAGES 7

#define FILL 0xa5

/* A huge page of the usual architectures; what is larger is not probed. */
#define COLLAPSE_MAX (2u << 20)

enum effect { UNSEEN, ZEROES, MAPS };

static enum effect effect_of(enum pgw_advice advice)
{
	switch (advice) {
	case PGW_DONTNEED:
	case PGW_DONTNEED_LOCKED:
		return ZEROES;
	case PGW_POPULATE_READ:
	case PGW_POPULATE_WRITE:
		return MAPS;
	default:
		return UNSEEN;
	}
}

/* --- decisions --- */

static _Atomic uint64_t decisions[PGW_ADVICE_COUNT]; /* 0: unknown */

/* madvise(MADV_DONTNEED) was seen to do nothing. */
static atomic_bool dontneed_keeps;

#define KNOWN (UINT64_C(1) << 63)

static uint64_t pack(struct pgw__decision d)
{
	return KNOWN | (uint64_t)d.route | (uint64_t)d.self << 8 | (uint64_t)d.proven << 16 |
	       (uint64_t)(unsigned)d.error << 24 | (uint64_t)d.reason << 48;
}

static struct pgw__decision unpack(uint64_t word)
{
	return (struct pgw__decision){
		.route = (enum pgw_route)(word & 0xff),
		.self = (enum pgw_self)(word >> 8 & 0xff),
		.proven = word >> 16 & 1,
		.error = (int)(word >> 24 & 0xffff),
		.reason = (enum pgw__reason)(word >> 48 & 0xff),
	};
}

static struct pgw__decision decision(
    enum pgw_route route, enum pgw_self self, bool proven, int err, enum pgw__reason reason)
{
	return (struct pgw__decision){ route, self, proven, err < 0 ? -err : err, reason };
}

static struct pgw__decision loop(int err, enum pgw__reason reason)
{
	return decision(PGW_ROUTE_LOOP, PGW_SELF_NONE, false, err, reason);
}

static struct pgw__decision none(int err, enum pgw__reason reason)
{
	return decision(PGW_ROUTE_NONE, PGW_SELF_NONE, false, err, reason);
}

/* I3 */
static bool lasting(enum pgw__reason reason)
{
	return reason != PGW__R_NO_SCRATCH && reason != PGW__R_BUSY &&
	       reason != PGW__R_NO_DESCRIPTOR;
}

void pgw__downgrade(enum pgw_advice advice, int error, enum pgw__reason reason)
{
	uint64_t was = atomic_load(&decisions[advice]);

	while (!was || unpack(was).route == PGW_ROUTE_VECTORED) {
		if (!atomic_compare_exchange_weak(
			&decisions[advice], &was, pack(loop(error, reason))))
			continue;
		pgw__note_fallback(pgw__advice_call(advice), pgw__reason_text(reason));
		return;
	}
}

void pgw__use_pidfd(enum pgw_advice advice)
{
	uint64_t was = atomic_load(&decisions[advice]);
	struct pgw__decision d = unpack(was);

	while (was && d.route == PGW_ROUTE_VECTORED && d.self == PGW_SELF_PIDFD_SELF) {
		d.self = PGW_SELF_PIDFD;
		if (atomic_compare_exchange_weak(&decisions[advice], &was, pack(d)))
			return;
		d = unpack(was);
	}
}

bool pgw__pidfd_is_safe(enum pgw_advice advice)
{
	return advice == PGW_DONTNEED || advice == PGW_DONTNEED_LOCKED || advice == PGW_FREE ||
	       advice == PGW_POPULATE_READ || advice == PGW_POPULATE_WRITE;
}

/* --- scratch pages --- */

static unsigned char *page(unsigned char *scratch, size_t n)
{
	return scratch + n * pgw_page_size();
}

static bool is_filled_with(const unsigned char *p, unsigned char value)
{
	const volatile unsigned char *v = p; /* the kernel changes it behind the compiler's back */

	for (size_t i = 0; i < pgw_page_size(); i++)
		if (v[i] != value)
			return false;
	return true;
}

static bool is_mapped(unsigned char *p)
{
	/* One byte would do on a kernel. An emulator that makes its pages larger than its host's
	 * (qemu-user -p) hands the call on, and gets one for each of the host's. */
	unsigned char vec[64] = { 0 };

	return PROBE_CALL(mincore, p, pgw_page_size(), vec) == 0 && (vec[0] & 1);
}

/* Has the advice had its effect on this page, and not on those beside it? */
static bool took_effect(enum pgw_advice advice, unsigned char *scratch, size_t n)
{
	switch (effect_of(advice)) {
	case ZEROES:
		return is_filled_with(page(scratch, n), 0) &&
		       is_filled_with(page(scratch, n - 1), FILL) &&
		       is_filled_with(page(scratch, n + 1), FILL);
	case MAPS:
		return is_mapped(page(scratch, n));
	case UNSEEN:
		break;
	}
	return true;
}

/* --- plain madvise --- */

static int try_madvise(enum pgw_advice advice, unsigned char *p, size_t len)
{
	int err = PROBE_CALL(madvise, p, len, pgw__advice_number(advice));

	/* After mlockall(MCL_FUTURE) new pages are locked, which DONTNEED and FREE refuse. */
	if (err == -EINVAL && !PROBE_CALL(unlock, p, len))
		err = PROBE_CALL(madvise, p, len, pgw__advice_number(advice));
	return err;
}

static struct pgw__decision judge_madvise(enum pgw_advice advice, int err)
{
	switch (-err) {
	case 0:
		return loop(0, PGW__R_UNKNOWN);
	case ENOSYS:
		return none(err, PGW__R_MADVISE_ENOSYS);
	case EINVAL:
		return none(err, PGW__R_MADVISE_EINVAL);
	case EPERM:
	case EACCES:
		return none(err, PGW__R_MADVISE_EPERM);
	case EBADF:
		return loop(
		    err, advice == PGW_WILLNEED ? PGW__R_MADVISE_NO_SWAP : PGW__R_MADVISE_OTHER);
	case ENOMEM:
	case EAGAIN:
	case EINTR:
	case EBUSY:
		return loop(err, PGW__R_BUSY);
	default:
		return loop(err, PGW__R_MADVISE_OTHER);
	}
}

static struct pgw__decision probe_madvise(enum pgw_advice advice, unsigned char *scratch)
{
	int err = try_madvise(advice, page(scratch, SINGLE_PAGE), pgw_page_size());
	struct pgw__decision d = judge_madvise(advice, err);

	if (err)
		return d;
	d.proven = effect_of(advice) != UNSEEN;
	if (!took_effect(advice, scratch, SINGLE_PAGE)) {
		d = loop(0, PGW__R_MADVISE_NO_EFFECT);
		if (advice == PGW_DONTNEED)
			atomic_store(&dontneed_keeps, true);
	}
	return d;
}

/* The kernel collapses only whole huge pages that have at least one page in them. Nothing is made
 * of a refusal that may be passing. */
static struct pgw__decision probe_collapse(void)
{
	/* Entries of page tables have 64 bits wherever there are huge pages. */
	size_t huge = pgw_page_size() * (pgw_page_size() / sizeof(uint64_t));
	struct pgw__decision d;
	unsigned char *p;
	void *map;

	if (huge > COLLAPSE_MAX)
		return loop(0, PGW__R_TOO_LARGE_TO_GAIN);
	if (PROBE_CALL(map_anon, NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_NORESERVE, &map))
		return loop(ENOMEM, PGW__R_NO_SCRATCH);
	p = (unsigned char *)(((uintptr_t)map + huge - 1) & ~(uintptr_t)(huge - 1));
	*(volatile unsigned char *)p = FILL;
	d = judge_madvise(PGW_COLLAPSE, try_madvise(PGW_COLLAPSE, p, huge));
	PROBE_CALL(unmap, map, 2 * huge);
	if (d.reason == PGW__R_UNKNOWN)
		d.reason = PGW__R_TOO_LARGE_TO_GAIN;
	return d;
}

/* --- process_madvise --- */

/* -errno, or 0 with the verdict in *reason: UNKNOWN if all is well. */
static int try_vector(
    enum pgw_advice advice, unsigned char *scratch, int pidfd, enum pgw__reason *reason)
{
	size_t size = pgw_page_size();
	struct iovec good[] = { { page(scratch, VECTOR_PAGE_A), size },
		{ page(scratch, VECTOR_PAGE_B), size } };
	struct iovec bad = { page(scratch, VECTOR_PAGE_A) + 1, size };
	int number = pgw__advice_number(advice);
	int64_t r = PROBE_CALL(process_madvise, pidfd, good, 2, number, 0);

	if (r < 0)
		return (int)r;
	*reason = PGW__R_UNKNOWN;
	if (r == 0)
		*reason = PGW__R_VECTOR_ZERO;
	else if ((uint64_t)r > 2 * size)
		*reason = PGW__R_VECTOR_TOO_MUCH;
	else if ((uint64_t)r < 2 * size)
		*reason = PGW__R_VECTOR_SHORT;
	else if (!took_effect(advice, scratch, VECTOR_PAGE_A) ||
		 !took_effect(advice, scratch, VECTOR_PAGE_B))
		*reason = PGW__R_VECTOR_NO_EFFECT;
	else if (PROBE_CALL(process_madvise, pidfd, &bad, 1, number, 0) >= 0)
		*reason = PGW__R_VECTOR_TAKES_ALL;
	return 0;
}

static struct pgw__decision judge_vector(
    enum pgw_advice advice, enum pgw_self self, int err, enum pgw__reason reason)
{
	bool seen = effect_of(advice) != UNSEEN;

	if (err)
		return loop(err, pgw__reason_vector(err));
	if (reason != PGW__R_UNKNOWN)
		return loop(0, reason);
	if (self == PGW_SELF_PIDFD_SELF)
		reason = seen ? PGW__R_SELF_SEEN : PGW__R_SELF_TAKEN;
	else
		reason = seen ? PGW__R_PIDFD_SEEN : PGW__R_PIDFD_TAKEN;
	return decision(PGW_ROUTE_VECTORED, self, seen, 0, reason);
}

static struct pgw__decision probe_pidfd(enum pgw_advice advice, unsigned char *scratch)
{
	enum pgw__reason reason = PGW__R_UNKNOWN;
	struct pgw__decision d;
	int fd, err;

	PGW__COUNT(probe_calls, 1);
	err = pgw__self_open(&fd);
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		return loop(err, PGW__R_NO_DESCRIPTOR);
	if (err)
		return loop(err, PGW__R_PIDFD_OPEN);
	err = try_vector(advice, scratch, fd, &reason);
	d = judge_vector(advice, PGW_SELF_PIDFD, err, reason);
	if (d.route == PGW_ROUTE_VECTORED)
		pgw__self_keep(fd);
	else
		PROBE_CALL(close, fd);
	return d;
}

static struct pgw__decision probe_vector(enum pgw_advice advice, unsigned char *scratch)
{
	enum pgw__reason reason = PGW__R_UNKNOWN;
	int err = try_vector(advice, scratch, PGW__PIDFD_SELF, &reason);

	/* What a kernel says that does not have PIDFD_SELF. */
	if ((err == -EBADF || err == -EINVAL || err == -ESRCH) && pgw__pidfd_is_safe(advice))
		return probe_pidfd(advice, scratch);
	if (err == -EAGAIN || err == -EINTR || err == -ENOMEM)
		return loop(err, PGW__R_BUSY);
	return judge_vector(advice, PGW_SELF_PIDFD_SELF, err, reason);
}

/* --- the probe of one advice --- */

static struct pgw__decision probe_on(enum pgw_advice advice, unsigned char *scratch)
{
	struct pgw__decision d, v;

	if (effect_of(advice) == ZEROES)
		memset(scratch, FILL, SCRATCH_PAGES * pgw_page_size());
	d = probe_madvise(advice, scratch);
	if (d.reason != PGW__R_UNKNOWN)
		return d;
	if (advice == PGW_DONTDUMP || advice == PGW_DODUMP) {
		d.reason = PGW__R_NEVER_BATCHED;
		return d;
	}
	if (pgw_kernel_mode() == PGW_KERNEL_LOOP) {
		d.reason = PGW__R_FORCED_LOOP;
		return d;
	}
	v = probe_vector(advice, scratch);
	if (v.route == PGW_ROUTE_LOOP)
		v.proven = d.proven; /* of madvise, that is */
	return v;
}

static struct pgw__decision probe(enum pgw_advice advice)
{
	size_t len = SCRATCH_PAGES * pgw_page_size();
	struct pgw__decision d;
	void *scratch;

	if (advice == PGW_COLLAPSE)
		return probe_collapse();
	/* NORESERVE keeps these pages from being merged with a neighbouring mapping, where a first
	 * touch could bring in a whole huge page. */
	if (PROBE_CALL(map_anon, NULL, len, PROT_READ | PROT_WRITE, MAP_NORESERVE, &scratch))
		return loop(ENOMEM, PGW__R_NO_SCRATCH);
	d = probe_on(advice, scratch);
	PROBE_CALL(unmap, scratch, len);
	return d;
}

static struct pgw__decision decide_unprobed(enum pgw_advice advice, enum pgw_kernel_mode mode)
{
	if (mode == PGW_KERNEL_OFF)
		return loop(0, PGW__R_OFF);
	if (advice == PGW_DONTDUMP || advice == PGW_DODUMP)
		return loop(0, PGW__R_NEVER_BATCHED);
	if (advice == PGW_COLLAPSE)
		return loop(0, PGW__R_TOO_LARGE_TO_GAIN);
	return decision(PGW_ROUTE_VECTORED, PGW_SELF_PIDFD_SELF, false, 0, PGW__R_FORCED_VECTORED);
}

static bool is_setback(enum pgw__reason reason)
{
	return reason >= PGW__R_NO_SCRATCH;
}

struct pgw__decision pgw__decide(enum pgw_advice advice)
{
	uint64_t word = atomic_load_explicit(&decisions[advice], memory_order_acquire);
	enum pgw_kernel_mode mode;
	struct pgw__decision d;

	if (word)
		return unpack(word);
	mode = pgw_kernel_mode();
	if (mode == PGW_KERNEL_OFF || mode == PGW_KERNEL_VECTORED)
		d = decide_unprobed(advice, mode);
	else
		d = probe(advice);
	if (is_setback(d.reason))
		pgw__note_fallback(pgw__advice_call(advice), pgw__reason_text(d.reason));
	if (lasting(d.reason) &&
	    !atomic_compare_exchange_strong(&decisions[advice], &word, pack(d)))
		return unpack(word);
	return d;
}

/* --- public --- */

int pgw_probe(enum pgw_advice advice, struct pgw_probe *out)
{
	struct pgw__decision d;

	if ((unsigned)advice >= PGW_ADVICE_COUNT)
		return -EINVAL;
	d = pgw__decide(advice);
	*out = (struct pgw_probe){ d.route, d.self, d.proven, d.error, pgw__reason_text(d.reason) };
	return 0;
}

bool pgw_dontneed_zeroes(void)
{
	pgw__decide(PGW_DONTNEED);
	return !atomic_load(&dontneed_keeps);
}

size_t pgw_page_size(void)
{
	static _Atomic size_t size;
	size_t s = atomic_load_explicit(&size, memory_order_relaxed);

	if (!s) {
		s = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&size, s, memory_order_relaxed);
	}
	return s;
}

static _Atomic int mode_read; /* enum pgw_kernel_mode + 1 */

/* Whether the value is one that is known. */
static bool read_mode(const char **value)
{
	const char *v = secure_getenv("PAGEWISE_KERNEL");
	enum pgw_kernel_mode mode = PGW_KERNEL_AUTO;
	bool known = !v || !v[0];

	for (int m = 0; !known && pgw_kernel_mode_name((enum pgw_kernel_mode)m); m++) {
		if (!strcmp(v, pgw_kernel_mode_name((enum pgw_kernel_mode)m))) {
			mode = (enum pgw_kernel_mode)m;
			known = true;
		}
	}
	atomic_store(&mode_read, mode + 1);
	*value = v;
	return known;
}

enum pgw_kernel_mode pgw_kernel_mode(void)
{
	const char *ignored;

	if (!atomic_load_explicit(&mode_read, memory_order_relaxed))
		read_mode(&ignored);
	return (enum pgw_kernel_mode)(atomic_load(&mode_read) - 1);
}

/* While standard error is still what the process was started with. */
__attribute__((constructor)) static void check_mode(void)
{
	const char *value;

	if (!read_mode(&value))
		pgw__warn_setting(
		    value, ": PAGEWISE_KERNEL is auto, vectored, loop, or off; auto is used");
}

void pgw__probe_reset(void)
{
	const char *ignored;

	for (size_t a = 0; a < PGW_ADVICE_COUNT; a++)
		atomic_store(&decisions[a], 0);
	atomic_store(&dontneed_keeps, false);
	pgw__self_reset();
	read_mode(&ignored);
}
