/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "image.h"

char image_path[96];
static char dir[64];

int image_setup(void **state)
{
	const char *base = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";

	snprintf(dir, sizeof(dir), "%s/audit-XXXXXX", base);
	if (!mkdtemp(dir))
		return -1;
	snprintf(image_path, sizeof(image_path), "%s/data", dir);
	return 0;
}

int image_teardown(void **state)
{
	char lock[128];

	snprintf(lock, sizeof(lock), "%s-lock", image_path);
	unlink(image_path);
	unlink(lock);
	return rmdir(dir);
}

uint8_t *image_map(size_t *len)
{
	int fd = open(image_path, O_RDONLY);
	struct stat st;
	uint8_t *p;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*len = (size_t)st.st_size;
	p = mmap(NULL, *len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	return p;
}
