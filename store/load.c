/* SPDX-License-Identifier: BSD-2-Clause
 *
 * load.c - a process loads the library: what PAGEWISE_STORE sets, and complaints about it.
 *
 * Not in the command pagewise, which passes the variable on to what it runs: each mistake would be reported
 * twice, and the command's own look at an environment would depend on it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "report.h"

static void complain(const struct pgw__options_error *error)
{
	char item[64], text[256];

	snprintf(item, sizeof(item), "%.*s", error->len < sizeof(item) ? (int)error->len : 60,
	    error->item);
	snprintf(text, sizeof(text), "%s: not understood in PAGEWISE_STORE and ignored: %s",
	    error->len < sizeof(item) ? "" : "...", error->why);
	pgw__warn(item, text);
}

__attribute__((constructor)) static void read_environment(void)
{
	const char *text = secure_getenv("PAGEWISE_STORE");
	struct pgw__options_error error;

	if (!text)
		return;
	pgw__warn_prepare();
	while (!pgw__options_parse(&text, pgw__options_default(), &error))
		complain(&error);
}
