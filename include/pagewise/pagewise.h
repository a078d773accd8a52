/* SPDX-License-Identifier: BSD-2-Clause
 *
 * pagewise/pagewise.h - all of libpagewise. (pagewise/alloc.h and pagewise/store.h belong to
 * libpagewise-alloc and libpagewise-store.)
 */
#ifndef PAGEWISE_PAGEWISE_H
#define PAGEWISE_PAGEWISE_H

#include <pagewise/advise.h>
#include <pagewise/probe.h>
#include <pagewise/range.h>
#include <pagewise/reserve.h>
#include <pagewise/stats.h>
#include <pagewise/sync.h>
#include <pagewise/version.h>

#endif
