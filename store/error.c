/* SPDX-License-Identifier: BSD-2-Clause
 *
 * error.c - texts for results.
 */
#include <pagewise/store.h>

#include "seam.h"

#define PUBLIC __attribute__((visibility("default")))

static const char *own_text(int code)
{
	switch (code) {
	case PGW_BUSY:
		return "PGW_BUSY: another process, or another handle of this one, writes this "
		       "environment in group or relaxed "
		       "durability, or has it open while that is to begin";
	case PGW_FENCED:
		return "PGW_FENCED: the environment is in use by pagewise or was not closed, and "
		       "cannot be opened with MDB_NOLOCK; close it, or run pagewise recover";
	case PGW_COPIED:
		return "PGW_COPIED: the file is a raw copy of an environment that was in use or "
		       "not "
		       "closed; take the original, or a copy made by mdb_env_copy, or see pagewise "
		       "recover --copy";
	case PGW_UNPROVEN:
		return "PGW_UNPROVEN: the environment was not closed, and no record in its file "
		       "proves a snapshot; run pagewise recover --check for details";
	case PGW_NOT_POSSIBLE:
		return "PGW_NOT_POSSIBLE: group and relaxed durability need a writable "
		       "environment with locks, not opened before a fork, and pages of 4 to 64 "
		       "KiB; and pgw_update allows no "
		       "mdb_drop";
	default:
		return NULL;
	}
}

PUBLIC char *mdb_strerror(int err)
{
	const char *text = own_text(err);

	return text ? (char *)text : pgw__lmdb_strerror(err);
}

PUBLIC const char *pgw_strerror(int code)
{
	/* LMDB's codes are negative, but far below any errno. */
	if (code < 0 && code > -4096)
		code = -code;
	return mdb_strerror(code);
}
