/* SPDX-License-Identifier: BSD-2-Clause
 *
 * advise.c - one advice for many ranges, in as few calls as the kernel takes.
 *
 * The caller's ranges ("members") become runs: ascending, disjoint, not adjacent. Runs are what the
 * kernel is given. If the members are like that already, which an allocator sees to, they are
 * handed over where they lie, without a copy. Runs that are large go through madvise one by one,
 * the others through process_madvise, up to 1024 at a time.
 *
 *  A1  A member's status is 0 only if a call that covered it whole was reported done, whole: by a
 *      madvise that returned 0, or by the byte count of a process_madvise, which counts runs in
 *      order and stops at the first it cannot do.
 *  A2  Whatever process_madvise answers, the run where it stopped is given to madvise, whose errno
 *      is about that run alone. If that run was joined from several members, each gets its own call.
 *  A3  If madvise then takes the run, the quarrel is with the call, not with the range. Some answers
 *      settle that at once (ENOSYS, a filter's EPERM, 0 bytes of many); others may be a race with
 *      another thread that locks or maps memory, and only count after a few.
 *  A4  Every turn of the loop disposes of at least one run, or of the vectored route: it ends
 *      whatever the kernel answers.
 */
#include <pagewise/advise.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "probe.h"
#include "stats.h"
#include "sys.h"

/* Where pointers have 64 bits, an array of ranges is an array of struct iovec and is handed to the
 * kernel as it is. Elsewhere it is copied, to 8 KiB of stack. */
#if UINTPTR_MAX == UINT64_MAX
#define RANGES_ARE_IOVECS 1
_Static_assert(sizeof(struct pgw_range) == sizeof(struct iovec) &&
		   offsetof(struct pgw_range, start) == offsetof(struct iovec, iov_base) &&
		   offsetof(struct pgw_range, len) == offsetof(struct iovec, iov_len),
    "arrays of ranges are handed to the kernel as they are");
#else
#define RANGES_ARE_IOVECS 0
#endif
_Static_assert((uint64_t)PGW__VECTOR_MAX *PGW_ADVISE_SINGLE_BYTES < PGW__VECTOR_BYTES,
    "a full vector of small runs must stay below the kernel's clip");

/* A direct hand-over is cut at large runs. One in so many is accepted; with more of them, the small
 * ones are copied together. */
#define SMALL_PER_LARGE 32

/* Up to here the scratch arrays are on the stack: 1.5 KiB. */
#define STACK_RANGES 64

/* Tries before EAGAIN or EINTR is believed. */
#define AGAIN_MAX 16

/* Kernel answers below -ERRNO_MAX are not errors, nor anything else. */
#define ERRNO_MAX 4095

/* How often in one pgw_advise madvise may take what process_madvise has refused (A3). */
#define QUARRELS_MAX 3

struct job {
	const struct pgw_range *ranges; /* the caller's */
	int *status;
	enum pgw_advice advice;
	int number;
	/* Members in ascending order of start: indices into ranges, or NULL if ranges themselves
	 * are in order. Neither empty ones nor bad ones are among them. */
	const size_t *order;
	size_t members;

	bool vectored; /* still */
	bool renewed;  /* the pidfd */
	unsigned quarrels;
	struct pgw__decision decision;
	struct pgw_advise_report report;
	size_t first_bad; /* lowest index with a status that is not 0 */
	int first_err;
};

/* --- members --- */

static void fail(struct job *j, size_t i, int err)
{
	if (j->status)
		j->status[i] = err;
	j->report.failed_ranges++;
	if (j->first_err && i > j->first_bad)
		return;
	j->first_bad = i;
	j->first_err = err;
}

static size_t member(const struct job *j, size_t k)
{
	return j->order ? j->order[k] : k;
}

static uint64_t member_start(const struct job *j, size_t k)
{
	return j->ranges[member(j, k)].start;
}

/* The first member that starts at or after pos. */
static size_t find_member(const struct job *j, uint64_t pos)
{
	size_t lo = 0, hi = j->members;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (member_start(j, mid) < pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* --- madvise --- */

static int call_madvise(struct job *j, struct pgw_range r)
{
	int err, tries = 0;

	do {
		err = pgw__sys.madvise((void *)(uintptr_t)r.start, (size_t)r.len, j->number);
		j->report.single_calls++;
	} while ((err == -EAGAIN || err == -EINTR) && ++tries < AGAIN_MAX);
	return err;
}

/* A run joined from members first..last failed as a whole: ask for each. */
static void advise_members(struct job *j, size_t first, size_t last)
{
	uint64_t covered = 0;

	for (size_t k = first; k <= last; k++) {
		struct pgw_range r = j->ranges[member(j, k)];
		uint64_t from = r.start > covered ? r.start : covered;
		int err = call_madvise(j, r);

		if (err) {
			fail(j, member(j, k), err);
		} else if (pgw_range_end(r) > covered) {
			j->report.done_bytes += pgw_range_end(r) - from;
			covered = pgw_range_end(r);
		}
	}
}

/* Advise one run by madvise, and settle the status of its members. Returns what the call for the
 * whole run gave. */
static int advise_run(struct job *j, struct pgw_range run)
{
	int err = call_madvise(j, run);
	size_t first, last;

	if (!err) {
		j->report.done_bytes += run.len;
		return 0;
	}
	first = last = find_member(j, run.start);
	while (last + 1 < j->members && member_start(j, last + 1) < pgw_range_end(run))
		last++;
	if (first == last)
		fail(j, member(j, first), err);
	else
		advise_members(j, first, last);
	return err;
}

/* Returns how many of them failed. */
static size_t advise_runs(struct job *j, const struct pgw_range *v, size_t n)
{
	size_t failed = 0;

	for (size_t i = 0; i < n; i++)
		failed += advise_run(j, v[i]) != 0;
	return failed;
}

/* --- process_madvise --- */

/* For good. */
static void give_up_vectored(struct job *j, int err, enum pgw__reason reason)
{
	j->vectored = false;
	pgw__downgrade(j->advice, err, reason);
}

/* For the rest of this job. */
static void pause_vectored(struct job *j, enum pgw__reason reason)
{
	j->vectored = false;
	pgw__note_fallback(pgw__advice_call(j->advice), pgw__reason_text(reason));
}

/* A forced process_madvise was not probed: this kernel may lack PIDFD_SELF. */
static bool may_switch_to_pidfd(const struct job *j, int64_t answer)
{
	return answer == -EBADF && j->decision.self == PGW_SELF_PIDFD_SELF &&
	       j->decision.reason == PGW__R_FORCED_VECTORED && pgw__pidfd_is_safe(j->advice);
}

static int64_t call_vector(struct job *j, const struct pgw_range *v, size_t n, int self)
{
#if RANGES_ARE_IOVECS
	const struct iovec *iov = (const struct iovec *)(const void *)v;
#else
	struct iovec iov[PGW__VECTOR_MAX];
#endif
	int64_t r;
	int tries = 0;

#if !RANGES_ARE_IOVECS
	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){ (void *)(uintptr_t)v[i].start, (size_t)v[i].len };
#endif
	do {
		r = pgw__sys.process_madvise(self, iov, n, j->number, 0);
		j->report.vectored_calls++;
		j->report.vectored_ranges += n;
	} while ((r == -EAGAIN || r == -EINTR) && ++tries < AGAIN_MAX);
	return r;
}

/* process_madvise through whatever names this process, with a new pidfd if the old one is refused
 * as such. */
static int64_t call_vector_as_self(struct job *j, const struct pgw_range *v, size_t n)
{
	int self, err = pgw__self_get(j->decision.self, &self);
	int64_t r;

	if (err) {
		pause_vectored(j, PGW__R_NO_DESCRIPTOR);
		return err;
	}
	r = call_vector(j, v, n, self);
	if (may_switch_to_pidfd(j, r)) {
		j->decision.self = PGW_SELF_PIDFD;
		pgw__use_pidfd(j->advice);
		if (!pgw__self_get(PGW_SELF_PIDFD, &self))
			r = call_vector(j, v, n, self);
	} else if ((r == -EBADF || r == -ESRCH) && !j->renewed) {
		j->renewed = true;
		if (!pgw__self_renew(j->decision.self, self, &self))
			r = call_vector(j, v, n, self);
	}
	return r;
}

/* A3: madvise has taken what process_madvise answered err (or stopped short) at. */
static void quarrel(struct job *j, int err)
{
	bool unprobed = j->decision.reason == PGW__R_FORCED_VECTORED;
	enum pgw__reason reason = err ? pgw__reason_vector(err) : PGW__R_VECTOR_SHORT;
	int self;

	/* EINVAL is also what a pidfd of another process gives: its number was reused. */
	if (err == -EINVAL && !j->renewed && !pgw__self_get(j->decision.self, &self)) {
		j->renewed = true;
		if (!pgw__self_renew(j->decision.self, self, &self))
			return;
	}
	j->quarrels++;
	if (err == -EPERM || err == -EACCES || (err && unprobed))
		give_up_vectored(j, err, reason);
	else if (j->quarrels >= QUARRELS_MAX && err)
		give_up_vectored(j, err, reason);
	else if (j->quarrels >= QUARRELS_MAX)
		pause_vectored(j, reason);
}

/* done bytes of v were reported, and not all: settle up to where it stopped. Returns the number of
 * runs settled. */
static size_t settle_short(struct job *j, const struct pgw_range *v, uint64_t done)
{
	size_t k = 0;

	j->report.short_returns++;
	for (; done >= v[k].len; k++) {
		j->report.done_bytes += v[k].len;
		done -= v[k].len;
	}
	if (!advise_run(j, v[k]))
		quarrel(j, 0);
	return k + 1;
}

/* The call refused all of v with err. Returns the number of runs settled. */
static size_t settle_refused(struct job *j, const struct pgw_range *v, size_t n, int err)
{
	switch (-err) {
	case ENOSYS:
	case EBADF:
	case ESRCH:
		/* About the call. Of a pidfd that could not be had, no more is known than that. */
		if (j->vectored)
			give_up_vectored(j, err, pgw__reason_vector(err));
		break;
	case EAGAIN:
	case EINTR:
		if (j->vectored)
			pause_vectored(j, PGW__R_VECTOR_EAGAIN);
		break;
	case EFAULT:
		/* About the first run, or about an address anywhere in the vector. */
		if (advise_run(j, v[0]))
			return 1;
		if (!advise_runs(j, v + 1, n - 1))
			give_up_vectored(j, err, PGW__R_VECTOR_EFAULT);
		return n;
	default:
		if (!advise_run(j, v[0]))
			quarrel(j, err);
		return 1;
	}
	advise_runs(j, v, n);
	return n;
}

/* Advise up to n small runs. Returns the number of runs settled, at least 1 (A4). */
static size_t advise_vector(struct job *j, const struct pgw_range *v, size_t n)
{
	uint64_t asked = 0;
	int64_t done;

	if (n == 1) {
		advise_run(j, v[0]);
		return 1;
	}
	for (size_t i = 0; i < n; i++)
		asked += v[i].len;
	done = call_vector_as_self(j, v, n);
	if (done < 0)
		return settle_refused(j, v, n, done < -ERRNO_MAX ? -EIO : (int)done);
	if (done > 0 && (uint64_t)done < asked)
		return settle_short(j, v, (uint64_t)done);
	if ((uint64_t)done == asked) {
		j->report.done_bytes += asked;
		return n;
	}
	give_up_vectored(j, 0, done ? PGW__R_VECTOR_TOO_MUCH : PGW__R_VECTOR_ZERO);
	advise_runs(j, v, n);
	return n;
}

static bool is_large(struct pgw_range r)
{
	return r.len >= PGW_ADVISE_SINGLE_BYTES;
}

static void advise_all_runs(struct job *j, const struct pgw_range *v, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t batch = 1;

		if (!j->vectored || is_large(v[i])) {
			advise_run(j, v[i++]);
			continue;
		}
		while (i + batch < n && batch < PGW__VECTOR_MAX && !is_large(v[i + batch]))
			batch++;
		i += advise_vector(j, v + i, batch);
	}
}

/* --- from members to runs --- */

/* What the caller's ranges are like. */
struct shape {
	size_t good, large;
	bool in_order; /* all good, in ascending order */
	bool are_runs; /* and disjoint, not adjacent */
};

static int check(struct pgw_range r)
{
	uint64_t mask = pgw_page_size() - 1;

	if (((r.start | r.len) & mask) || r.len > UINT64_MAX - r.start)
		return -EINVAL;
	/* As a pointer it would name other memory. */
	return r.len && pgw_range_end(r) - 1 > UINTPTR_MAX ? -ENOMEM : 0;
}

static struct shape look_at(struct job *j, size_t n)
{
	struct shape s = { .in_order = true, .are_runs = true };
	uint64_t start = 0, end = 0;

	for (size_t i = 0; i < n; i++) {
		struct pgw_range r = j->ranges[i];
		int err = r.len ? check(r) : 0;

		if (err)
			fail(j, i, err);
		if (err || !r.len) {
			s.in_order = false;
			continue;
		}
		if (s.good && r.start < start)
			s.in_order = false;
		if (s.good && r.start <= end)
			s.are_runs = false;
		start = r.start;
		end = pgw_range_end(r);
		s.large += is_large(r);
		s.good++;
	}
	s.are_runs &= s.in_order;
	return s;
}

static void sift(const struct job *j, size_t *order, size_t hole, size_t n)
{
	size_t x = order[hole];

	for (size_t child; (child = 2 * hole + 1) < n; hole = child) {
		if (child + 1 < n &&
		    j->ranges[order[child + 1]].start > j->ranges[order[child]].start)
			child++;
		if (j->ranges[order[child]].start <= j->ranges[x].start)
			break;
		order[hole] = order[child];
	}
	order[hole] = x;
}

/* Heap sort of indices: ranges are the caller's, and stay where they are. */
static void sort(const struct job *j, size_t *order, size_t n)
{
	size_t i = 1;

	while (i < n && j->ranges[order[i - 1]].start <= j->ranges[order[i]].start)
		i++;
	if (i >= n)
		return;
	for (i = n / 2; i-- > 0;)
		sift(j, order, i, n);
	for (i = n - 1; i > 0; i--) {
		size_t last = order[i];

		order[i] = order[0];
		order[0] = last;
		sift(j, order, 0, i);
	}
}

static void collect(struct job *j, size_t *order, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++)
		if (j->ranges[i].len && !check(j->ranges[i]))
			order[out++] = i;
	sort(j, order, out);
	j->order = order;
}

/* Join the members to runs. Small ones are gathered in v and returned (their number); large ones,
 * and all of them in the loop, are advised at once and need no v. */
static size_t gather(struct job *j, struct pgw_range *v)
{
	struct pgw_range run = { 0, 0 };
	size_t out = 0;

	for (size_t k = 0; k <= j->members; k++) {
		struct pgw_range r = { 0, 0 };

		if (k < j->members)
			r = j->ranges[member(j, k)];
		if (run.len && k < j->members && r.start <= pgw_range_end(run)) {
			if (pgw_range_end(r) > pgw_range_end(run))
				run.len = pgw_range_end(r) - run.start;
			continue;
		}
		if (run.len && (!j->vectored || is_large(run)))
			advise_run(j, run);
		else if (run.len)
			v[out++] = run;
		run = r;
	}
	return out;
}

/* There is no memory to put them in order: one by one, as they come. Bytes of overlaps count each
 * time. */
static void advise_unordered(struct job *j, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pgw_range r = j->ranges[i];
		int err;

		if (!r.len || check(r))
			continue;
		err = call_madvise(j, r);
		if (err)
			fail(j, i, err);
		else
			j->report.done_bytes += r.len;
	}
}

static void advise_in_order(struct job *j, size_t n, const struct shape *s, void *scratch)
{
	struct pgw_range *v = scratch;
	size_t *order = (size_t *)(void *)(v + s->good);

	if (!s->in_order)
		collect(j, order, n);
	advise_all_runs(j, v, gather(j, v));
	j->order = NULL; /* it goes with the scratch memory */
}

static void advise_members_in_scratch(struct job *j, size_t n, const struct shape *s)
{
	size_t bytes = s->good * (sizeof(struct pgw_range) + sizeof(size_t));
	void *map;

	if (s->good <= STACK_RANGES) {
		_Alignas(struct pgw_range) char
		    small[STACK_RANGES * (sizeof(struct pgw_range) + sizeof(size_t))];

		advise_in_order(j, n, s, small);
		return;
	}
	if (pgw__sys.map_anon(NULL, bytes, PROT_READ | PROT_WRITE, 0, &map)) {
		advise_unordered(j, n);
		return;
	}
	advise_in_order(j, n, s, map);
	pgw__sys.unmap(map, bytes);
}

static void advise(struct job *j, size_t n)
{
	struct shape s = look_at(j, n);

	j->members = s.good;
	if (s.are_runs && (!j->vectored || s.large * SMALL_PER_LARGE <= n))
		advise_all_runs(j, j->ranges, n);
	else if (s.in_order && !j->vectored)
		gather(j, NULL);
	else
		advise_members_in_scratch(j, n, &s);
}

/* --- public --- */

static void count(const struct job *j)
{
	struct pgw__advice_counters *c = &pgw__count.advice[j->advice];

#define ADD(field, n) atomic_fetch_add_explicit(&c->field, (uint64_t)(n), memory_order_relaxed)
	ADD(vectored_calls, j->report.vectored_calls);
	ADD(vectored_ranges, j->report.vectored_ranges);
	ADD(single_calls, j->report.single_calls);
	ADD(bytes, j->report.done_bytes);
	ADD(failed_ranges, j->report.failed_ranges);
#undef ADD
	if (j->report.short_returns)
		PGW__COUNT(short_returns, j->report.short_returns);
}

static void fail_all(struct job *j, size_t n, int err)
{
	j->report.failed_ranges = 0;
	for (size_t i = 0; i < n; i++)
		fail(j, i, err);
	j->first_err = err;
}

/* One range goes to madvise whatever the kernel can do: ask only if it is refused in a way that an
 * unknown advice is. */
static void advise_one(struct job *j)
{
	advise(j, 1);
	if ((j->first_err == -EINVAL || j->first_err == -ENOSYS) && !check(j->ranges[0]) &&
	    pgw__decide(j->advice).route == PGW_ROUTE_NONE)
		fail_all(j, 1, -EOPNOTSUPP);
}

int pgw_advise(const struct pgw_range *ranges, size_t n, enum pgw_advice advice, int *status,
    struct pgw_advise_report *report)
{
	struct job j = { .ranges = ranges, .status = status, .advice = advice };

	if ((unsigned)advice >= PGW_ADVICE_COUNT)
		return -EINVAL;
	j.number = pgw__advice_number(advice);
	if (status && n)
		memset(status, 0, n * sizeof(*status)); /* fail() sets the others */
	if (n == 1) {
		advise_one(&j);
	} else if (n) {
		j.decision = pgw__decide(advice);
		j.vectored = j.decision.route == PGW_ROUTE_VECTORED;
		if (j.decision.route == PGW_ROUTE_NONE)
			fail_all(&j, n, -EOPNOTSUPP);
		else
			advise(&j, n);
	}
	count(&j);
	if (report)
		*report = j.report;
	return j.first_err;
}
