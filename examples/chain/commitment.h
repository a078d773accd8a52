/* SPDX-License-Identifier: BSD-2-Clause
 *
 * commitment.h - the commitment to an amount everybody knows.
 */
#ifndef CHAIN_COMMITMENT_H
#define CHAIN_COMMITMENT_H

#include <stdint.h>

/* amount * H + G on ed25519: what Monero stores for a miner's version 2 output, whose amount is in
 * clear and whose blinding factor is 1. Any thread. 0, or -1 if libsodium cannot be used. */
int amount_commitment(uint64_t amount, uint8_t out[32]);

#endif
