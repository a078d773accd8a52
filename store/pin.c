/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pin.c - see pin.h.
 */
#include "pin.h"

#include "seam.h"

__thread struct pgw__pin *pgw__pin_at_work;
_Atomic(void (*)(void *slot)) pgw__pin_give_back;

int pgw__pin_make_room(MDB_env *env)
{
	unsigned n;
	int rc = mdb_env_get_maxreaders(env, &n);

	return rc ? rc : mdb_env_set_maxreaders(env, n + PGW__PINS);
}

int pgw__pin_take(struct pgw__pin *pin, MDB_env *env, uint64_t *txnid)
{
	MDB_txn *txn = pin->txn;
	int rc;

	pgw__pin_drop(pin);
	pgw__pin_at_work = pin;
	if (txn)
		rc = mdb_txn_renew(txn);
	else
		rc = pgw__lmdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	pgw__pin_at_work = NULL;
	if (rc)
		return rc;
	pin->txn = txn;
	pin->active = true;
	*txnid = mdb_txn_id(txn);
	return 0;
}

void pgw__pin_drop(struct pgw__pin *pin)
{
	if (pin->active)
		mdb_txn_reset(pin->txn);
	pin->active = false;
}

void pgw__pin_finish(struct pgw__pin *pin)
{
	void (*give_back)(void *) = atomic_load_explicit(&pgw__pin_give_back, memory_order_relaxed);

	if (pin->txn)
		pgw__lmdb_txn_abort(pin->txn);
	if (pin->slot && give_back)
		give_back(pin->slot);
	*pin = (struct pgw__pin){ 0 };
}
