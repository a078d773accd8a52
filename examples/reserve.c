/* SPDX-License-Identifier: BSD-2-Clause
 *
 * reserve.c - an array with a place for every 32-bit key, of which few are used: no hashing, no
 * resizing, and a core dump that holds what is used.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <pagewise/pagewise.h>

#define KEYS (sizeof(void *) == 8 ? UINT64_C(1) << 32 : UINT64_C(1) << 24)

struct account {
	uint64_t balance;
	uint64_t payments;
};

int main(void)
{
	static const uint32_t keys[] = { 17, 4711, 0x00c0ffee };
	struct account *accounts;
	uint64_t bytes = KEYS * sizeof(*accounts), sum = 0;
	void *p;
	int err = pgw_reserve(bytes, &p);

	if (err) {
		fprintf(stderr, "%" PRIu64 " MiB: %s\n", bytes >> 20, strerror(-err));
		return err == -ENOMEM ? 77 : 1; /* ulimit -v, vm.overcommit_memory=2 */
	}
	accounts = p;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		accounts[keys[i]].balance += 100;
		accounts[keys[i]].payments++;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		sum += accounts[keys[i]].balance + accounts[keys[i] + 1].balance;
	printf("%" PRIu64 " MiB reserved, sum %" PRIu64 "\n", bytes >> 20, sum);
	return pgw_release(p, bytes) || sum != 300;
}
