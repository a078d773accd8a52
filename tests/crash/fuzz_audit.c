/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The auditor on any bytes whatsoever. With -Dfuzz=true a libFuzzer binary, else a program that
 * replays the files it is given; the corpus is made by shape_file, in the shapes that fit.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte it is told of, so that a sanitizer sees a wrong length. */
static void visit(
    void *arg, const struct audit_db *db, struct audit_bytes key, struct audit_bytes value)
{
	uint8_t *sum = arg;

	for (size_t i = 0; i < key.n; i++)
		*sum ^= key.p[i];
	for (size_t i = 0; i < value.n; i++)
		*sum ^= value.p[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t sum = 0, *copy = malloc(size ? size : 1); /* exactly as long, for the sanitizer */
	const struct audit_options opt = { .visit = visit, .arg = &sum };
	struct audit_report r;
	FILE *null = fopen("/dev/null", "w");

	assert(copy && null);
	if (size)
		memcpy(copy, data, size);
	if (!audit_memory(copy, size, &opt, &r)) {
		audit_print_text(null, &r);
		audit_print_json(null, &r);
		if (audit_sound(&r))
			assert(r.used_pages + r.free_pages == r.last_page - 1);
		audit_finish(&r);
	}
	fclose(null);
	free(copy);
	return 0;
}

#ifndef PGW_LIBFUZZER
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		static uint8_t buf[1 << 20];
		size_t n;

		if (!f) {
			perror(argv[i]);
			return 1;
		}
		n = fread(buf, 1, sizeof(buf), f);
		fclose(f);
		LLVMFuzzerTestOneInput(buf, n);
	}
	printf("%d inputs\n", argc - 1);
	return argc > 1 ? 0 : 1;
}
#endif
