/* SPDX-License-Identifier: BSD-2-Clause
 *
 * progress.h - the line that an import draws over and over on a terminal.
 */
#ifndef CHAIN_PROGRESS_H
#define CHAIN_PROGRESS_H

#include "import.h"

struct progress {
	bool shown;
	uint64_t next_ns; /* not drawn again before */
};

void progress_draw(struct progress *p, const struct import_result *r);
/* Leaves the line as it is, and goes to the next. */
void progress_end(struct progress *p);

#endif
