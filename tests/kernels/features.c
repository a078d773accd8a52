/* SPDX-License-Identifier: BSD-2-Clause
 *
 * features.c - what this kernel answers to each call that pagewise may make, as one JSON object.
 *
 * The independent judge of the probe: it asks the kernel directly and shares no code with the shim.
 * Every answer is "ok" (all bytes, and the effect was seen where there is one to see), "no-effect",
 * "short", or the name of the errno.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Numbers of Linux that older headers lack; the same on every architecture. */
enum {
	NR_PIDFD_OPEN = 434,
	NR_PROCESS_MADVISE = 440,
	NR_CACHESTAT = 451,
	NR_MSEAL = 462,
};

enum { MAX_RANGES = 1024 };

static const struct {
	const char *name;
	int advice;
	int zeroes; /* private anonymous pages read as zero afterwards */
} advices[] = {
	{ "dontneed", 4, 1 },
	{ "free", 8, 0 },
	{ "dontneed_locked", 24, 1 },
	{ "cold", 20, 0 },
	{ "pageout", 21, 0 },
	{ "willneed", 3, 0 },
	{ "populate_read", 22, 0 },
	{ "populate_write", 23, 0 },
	{ "guard_install", 102, 0 },
	{ "dontdump", 16, 0 },
};

static size_t page;
static int first = 1;

static void put(const char *prefix, const char *name, const char *answer)
{
	printf("%s\n\t\t\"%s%s\": \"%s\"", first ? "" : ",", prefix, name, answer);
	first = 0;
}

/* pages written pages, each mapped on its own: no huge page may join them. */
static unsigned char *scratch(size_t pages)
{
	unsigned char *p =
	    mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("features: mmap");
		exit(1);
	}
	(void)madvise(p, pages * page, MADV_NOHUGEPAGE);
	memset(p, 0x5a, pages * page);
	return p;
}

static const char *answer_of(long r, size_t want)
{
	if (r < 0)
		return strerrorname_np(errno);
	return (size_t)r == want ? "ok" : "short";
}

/* Two pages with an untouched one between them, through one process_madvise. */
static const char *vectored(int self, int advice, int zeroes)
{
	unsigned char *p = scratch(4);
	struct iovec v[2] = { { p, page }, { p + 2 * page, page } };
	const char *answer =
	    answer_of(syscall(NR_PROCESS_MADVISE, self, v, 2, advice, 0), 2 * page);

	if (zeroes && !strcmp(answer, "ok") && (p[0] || p[2 * page] || p[page] != 0x5a))
		answer = "no-effect";
	(void)munmap(p, 4 * page);
	return answer;
}

static const char *plain(int advice, int zeroes)
{
	unsigned char *p = scratch(4);
	const char *answer = answer_of(madvise(p, page, advice), 0);

	if (zeroes && !strcmp(answer, "ok") && (p[0] || p[page] != 0x5a))
		answer = "no-effect";
	(void)munmap(p, 4 * page);
	return answer;
}

/* 2 MiB where pages are of 4 KiB, 32 MiB where of 16. */
static size_t huge_bytes(void)
{
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
	size_t bytes;

	if (!f || fscanf(f, "%zu", &bytes) != 1)
		bytes = 2 << 20;
	if (f)
		(void)fclose(f);
	return bytes;
}

/* Huge pages are made of whole aligned ones only. Two ranges, each a huge page. */
static const char *collapse(int plain_call, int self)
{
	enum { COLLAPSE = 25 };
	const size_t huge = huge_bytes(), len = 4 * huge;
	unsigned char *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *at = p + (-(uintptr_t)p & (huge - 1));
	struct iovec v[2] = { { at, huge }, { at + huge, huge } };
	const char *answer;

	if (p == MAP_FAILED)
		return "no-memory";
	memset(at, 0x5a, 2 * huge);
	answer = plain_call
		     ? answer_of(madvise(at, huge, COLLAPSE), 0)
		     : answer_of(syscall(NR_PROCESS_MADVISE, self, v, 2, COLLAPSE, 0), 2 * huge);
	(void)munmap(p, len);
	return answer;
}

static void each_advice(const char *prefix, int self)
{
	for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
		put(prefix, advices[i].name, vectored(self, advices[i].advice, advices[i].zeroes));
	put(prefix, "collapse", collapse(0, self));
}

/* How many ranges fit into one call is asked with COLD: older kernels take it too. */
static const char *ranges(int self, size_t n, int advice)
{
	static struct iovec v[MAX_RANGES + 1];
	unsigned char *p = scratch(2);
	const char *answer;

	for (size_t i = 0; i < n; i++)
		v[i] = (struct iovec){ p, page };
	answer = answer_of(syscall(NR_PROCESS_MADVISE, self, v, n, advice, 0), n * page);
	(void)munmap(p, 2 * page);
	return answer;
}

static const char *cachestat(void)
{
	uint64_t range[2] = { 0, page }, out[5];
	FILE *f = tmpfile();
	const char *answer;

	if (!f)
		return "no-file";
	answer = answer_of(syscall(NR_CACHESTAT, fileno(f), range, out, 0), 0);
	(void)fclose(f);
	return answer;
}

/* PAGEMAP_SCAN of linux/fs.h (Linux 6.7), which older headers lack. */
static const char *pagemap_scan(void)
{
	struct {
		uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
		uint64_t inverted, mask, anyof, returned;
	} arg = { .size = sizeof arg, .mask = 1u << 3, .returned = 1u << 3 }; /* PAGE_IS_PRESENT */
	uint64_t region[3] = { 0, 0, 0 };
	unsigned char *p = scratch(2);
	FILE *f = fopen("/proc/self/pagemap", "r");
	const char *answer;
	long r;

	if (!f)
		return "no-file";
	arg.start = (uintptr_t)p;
	arg.end = arg.start + 2 * page;
	arg.vec = (uintptr_t)region;
	arg.vec_len = 1;
	r = ioctl(fileno(f), _IOWR('f', 16, arg), &arg);
	answer = r < 0 ? strerrorname_np(errno) : r == 1 ? "ok" : "short";
	(void)fclose(f);
	(void)munmap(p, 2 * page);
	return answer;
}

static const char *mseal_answer(void) /* glibc 2.40 declares mseal */
{
	unsigned char *p = scratch(1);

	/* What is sealed stays: the process ends soon. */
	return answer_of(syscall(NR_MSEAL, p, page, 0), 0);
}

int main(void)
{
	struct utsname u;
	int pidfd;

	page = (size_t)sysconf(_SC_PAGESIZE);
	pidfd = (int)syscall(NR_PIDFD_OPEN, getpid(), 0);
	if (uname(&u) < 0 || pidfd < 0) {
		perror("features: uname, pidfd_open");
		return 1;
	}
	printf("{\n\t\"release\": \"%s\",\n\t\"machine\": \"%s\",\n\t\"page\": %zu,\n"
	       "\t\"uid\": %u,\n\t\"answers\": {",
	    u.release, u.machine, page, (unsigned)getuid());
	for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
		put("madvise_", advices[i].name, plain(advices[i].advice, advices[i].zeroes));
	put("madvise_", "collapse", collapse(1, -1));
	each_advice("pidfd_", pidfd);
	each_advice("self_", -10000); /* PIDFD_SELF, the thread group */
	put("", "self_10001_dontneed",
	    vectored(-10001, 4, 1)); /* another of its values over time */
	put("", "self_20000_dontneed", vectored(-20000, 4, 1));
	put("", "ranges_1024_cold", ranges(pidfd, MAX_RANGES, 20));
	put("", "ranges_1025_cold", ranges(pidfd, MAX_RANGES + 1, 20));
	put("", "ranges_1025_dontneed", ranges(pidfd, MAX_RANGES + 1, 4));
	put("", "ranges_0_dontneed", ranges(pidfd, 0, 4));
	put("", "cachestat", cachestat());
	put("", "pagemap_scan", pagemap_scan());
	put("", "mseal", mseal_answer());
	printf("\n\t}\n}\n");
	return 0;
}
