/* SPDX-License-Identifier: BSD-2-Clause
 *
 * sync.c - change a few records of a mapped file, and make just these durable.
 *
 * usage: sync FILE
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pagewise/pagewise.h>

#define RECORD	512
#define RECORDS 65536

static int change_some(struct pgw_sync_file *file, char *map)
{
	struct pgw_ranges dirty;
	struct pgw_sync_report report = { 0 };
	int err = 0;

	pgw_ranges_init(&dirty);
	for (uint64_t i = 0; i < RECORDS && !err; i += 1500) {
		snprintf(map + i * RECORD, RECORD, "record %" PRIu64, i);
		err = pgw_ranges_add(&dirty, i * RECORD, RECORD);
	}
	if (!err)
		err = pgw_sync(file, &dirty, &report);
	if (!err)
		printf("%" PRIu64 " ranges, %" PRIu64 " bytes durable, barriers: %" PRIu64
		       "; %s on %s: %s\n",
		    report.ranges, report.range_bytes, report.barriers,
		    pgw_sync_strategy_name(file->strategy), file->fs, file->reason);
	pgw_ranges_finish(&dirty);
	return err;
}

int main(int argc, char **argv)
{
	struct pgw_sync_file file;
	uint64_t size = RECORD * RECORDS;
	char *map;
	int fd, err;

	if (argc != 2) {
		fprintf(stderr, "usage: sync FILE\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR | O_CREAT, 0600); /* to write, or msync does nothing */
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	if (ftruncate(fd, (off_t)size)) {
		perror(argv[1]);
		close(fd);
		return 1;
	}
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		perror("mmap");
		close(fd);
		return 1;
	}
	err = pgw_sync_init(&file, fd, map, size, PGW_SYNC_AUTO);
	if (!err)
		err = change_some(&file, map);
	if (err) /* nothing is known about these records now: a retry would prove nothing */
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-err));
	munmap(map, size);
	close(fd);
	return err != 0;
}
