/* SPDX-License-Identifier: BSD-2-Clause
 *
 * update.h - pgw_update, for the rest of the store.
 */
#ifndef PGW_STORE_UPDATE_H
#define PGW_STORE_UPDATE_H

#include <stdbool.h>

/* This thread runs a closure of pgw_update. */
extern __thread bool pgw__updating;

#endif
