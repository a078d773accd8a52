/* SPDX-License-Identifier: BSD-2-Clause
 *
 * probe_json.c - `pagewise probe --json`.
 */
#include "command.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <wchar.h>

#include <json-c/json.h>

#include <pagewise/version.h>

/* json-c copies bytes as they are, but JSON is UTF-8 and a path can be any bytes: what is no
 * character becomes U+FFFD. The locale is the process's: set once, by probe_print_json. */
static struct json_object *text(const char *s)
{
	static const char replacement[] = "\xef\xbf\xbd";
	size_t left = strlen(s), used = 0;
	char *out = malloc(left * (sizeof(replacement) - 1) + 1);
	struct json_object *j;

	if (!out)
		return NULL;
	while (left) {
		mbstate_t state = { 0 };
		size_t n = mbrlen(s, left, &state);

		if (n == (size_t)-1 || n == (size_t)-2) {
			memcpy(out + used, replacement, sizeof(replacement) - 1);
			used += sizeof(replacement) - 1;
			n = 1;
		} else {
			memcpy(out + used, s, n);
			used += n;
		}
		s += n;
		left -= n;
	}
	j = json_object_new_string_len(out, (int)used);
	free(out);
	return j;
}

static void add_text(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, value ? text(value) : NULL);
}

static void add_bool(struct json_object *o, const char *key, bool value)
{
	json_object_object_add(o, key, json_object_new_boolean(value));
}

static void add_number(struct json_object *o, const char *key, int64_t value)
{
	json_object_object_add(o, key, json_object_new_int64(value));
}

static struct json_object *kernel_object(void)
{
	struct json_object *o = json_object_new_object();
	struct utsname u;

	if (uname(&u) == 0) {
		add_text(o, "name", u.sysname);
		add_text(o, "release", u.release);
		add_text(o, "machine", u.machine);
	}
	return o;
}

static struct json_object *advice_object(enum pgw_advice advice, const struct pgw_probe *p)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "name", pgw_advice_name(advice));
	add_text(o, "route", pgw_route_name(p->route));
	add_text(o, "self", pgw_self_name(p->self));
	add_bool(o, "proven", p->proven);
	add_number(o, "errno", p->error);
	add_text(o, "reason", p->reason);
	return o;
}

static struct json_object *path_object(const struct path_report *p)
{
	struct json_object *o = json_object_new_object();

	add_text(o, "path", p->path);
	if (p->error) {
		add_number(o, "errno", p->error);
		add_text(o, "error", p->step);
		return o;
	}
	add_text(o, "fs", p->file.fs);
	add_text(o, "strategy", pgw_sync_strategy_name(p->file.strategy));
	add_bool(o, "forced", p->file.forced);
	add_bool(o, "barrier", !p->file.no_barrier);
	add_text(o, "reason", p->file.reason);
	return o;
}

void probe_print_json(const struct probe_report *r)
{
	struct json_object *top = json_object_new_object();
	struct json_object *advice = json_object_new_array();
	struct json_object *sync = json_object_new_array();

	setlocale(LC_CTYPE, "C.UTF-8");
	add_text(top, "pagewise", PGW_VERSION);
	json_object_object_add(top, "kernel", kernel_object());
	add_number(top, "page_size", (int64_t)pgw_page_size());
	add_text(top, "mode", pgw_kernel_mode_name(pgw_kernel_mode()));
	add_bool(top, "dontneed_zeroes", pgw_dontneed_zeroes());
	for (int a = 0; a < PGW_ADVICE_COUNT; a++)
		json_object_array_add(advice, advice_object(a, &r->advice[a]));
	json_object_object_add(top, "advice", advice);
	for (size_t i = 0; i < r->npaths; i++)
		json_object_array_add(sync, path_object(&r->paths[i]));
	json_object_object_add(top, "sync", sync);
	puts(json_object_to_json_string_ext(
	    top, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(top);
}
