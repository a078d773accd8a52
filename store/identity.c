/* SPDX-License-Identifier: BSD-2-Clause
 *
 * identity.c - see identity.h.
 */
#include "identity.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U /* Linux 6.8; the result is in stx_mnt_id */
#endif

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* "6d0b1bd4-..." to 16 bytes; zero if it is anything else. */
static void parse_boot(const char *text, size_t len, unsigned char out[16])
{
	unsigned char id[16] = { 0 };
	unsigned n = 0;

	for (size_t i = 0; i < len && n < 32; i++) {
		int digit = hex_digit(text[i]);

		if (digit < 0)
			continue;
		id[n / 2] = (unsigned char)(id[n / 2] << 4 | digit);
		n++;
	}
	if (n == 32)
		memcpy(out, id, 16);
	else
		memset(out, 0, 16);
}

static void read_boot(unsigned char out[16])
{
	char text[64];
	ssize_t len = -1;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		len = read(fd, text, sizeof(text));
		close(fd);
	}
	parse_boot(text, len > 0 ? (size_t)len : 0, out);
}

static int examine(int fd, struct pgw__identity *out)
{
	struct pgw__identity id = { 0 };
	struct statx s;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME | STATX_MNT_ID_UNIQUE, &s))
		return -errno;
	id.inode = s.stx_ino;
	id.device = makedev(s.stx_dev_major, s.stx_dev_minor);
	if (s.stx_mask & STATX_BTIME)
		id.birth = (uint64_t)s.stx_btime.tv_sec * 1000000000u + s.stx_btime.tv_nsec;
	if (s.stx_mask & STATX_MNT_ID_UNIQUE)
		id.mount = s.stx_mnt_id;
	read_boot(id.boot);
	*out = id;
	return 0;
}

int (*pgw__identity_of)(int fd, struct pgw__identity *out) = examine;

bool pgw__identity_same_file(const struct pgw__identity *a, const struct pgw__identity *b)
{
	if (a->inode != b->inode || a->birth != b->birth)
		return false;
	return a->birth || a->device == b->device;
}

bool pgw__identity_same_cache(const struct pgw__identity *a, const struct pgw__identity *b)
{
	static const unsigned char unknown[16];

	return pgw__identity_same_file(a, b) && a->device == b->device && a->mount &&
	       a->mount == b->mount && memcmp(a->boot, unknown, 16) &&
	       !memcmp(a->boot, b->boot, 16);
}
