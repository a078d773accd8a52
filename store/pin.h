/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pin.h - a reader that keeps a snapshot from being recycled.
 *
 * A pin is a read transaction of LMDB. Without MDB_NOTLS a thread has one reader slot, kept by LMDB
 * in a thread-specific value; a pin belongs to no thread and must not take the slot of the one that
 * happens to move it. So while LMDB works for a pin, the seam keeps that value in the pin: LMDB
 * finds no slot the first time, takes a free one, and finds it again later.
 *
 * As the value is never set for a real thread, no exit of a thread gives the slot away, and as our
 * process lives, mdb_reader_check of others leaves it alone. mdb_env_close clears it.
 *
 * One thread at a time per pin.
 */
#ifndef PGW_STORE_PIN_H
#define PGW_STORE_PIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lmdb.h>

struct pgw__pin {
	MDB_txn *txn;
	void *slot; /* LMDB's reader slot, unless MDB_NOTLS: then the transaction has it */
	bool active;
};

/* Slots that group and relaxed need: of d, of the checkpoint that is running, of the cut behind it. */
#define PGW__PINS 3u

/* Make LMDB's table of readers larger by these, for an environment that is not open yet. 0 or LMDB's
 * code. */
int pgw__pin_make_room(MDB_env *env);

/* Take the pin, or move it, to the newest snapshot; its number is *txnid. 0, or LMDB's code (the
 * table of readers can be full the first time; afterwards only a broken environment fails). */
int pgw__pin_take(struct pgw__pin *pin, MDB_env *env, uint64_t *txnid);

/* Let go of the snapshot; the slot is kept. */
void pgw__pin_drop(struct pgw__pin *pin);

/* Give everything back, before the environment is closed. */
void pgw__pin_finish(struct pgw__pin *pin);

/* LMDB's own function that gives a reader slot back, once an environment was opened; for the seam. */
extern _Atomic(void (*)(void *slot)) pgw__pin_give_back;

/* The pin that LMDB works for in this thread, or NULL; for the seam. */
extern __thread struct pgw__pin *pgw__pin_at_work;

#endif
