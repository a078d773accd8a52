/* SPDX-License-Identifier: BSD-2-Clause
 *
 * json.c - a JSON text built in fixed storage, without the heap or stdio (report.h).
 */
#include "report.h"

#include <string.h>

void pgw__json_init(struct pgw__json *j, char *buf, size_t cap)
{
	*j = (struct pgw__json){ .buf = buf, .cap = cap };
}

static void put(struct pgw__json *j, const char *s, size_t len)
{
	if (j->full || len > j->cap - j->len) {
		j->full = true;
		return;
	}
	memcpy(j->buf + j->len, s, len);
	j->len += len;
}

static void put_char(struct pgw__json *j, char c)
{
	put(j, &c, 1);
}

static void put_string(struct pgw__json *j, const char *s)
{
	static const char hex[] = "0123456789abcdef";

	put_char(j, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		char escape[] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

		if (c >= 0x80)
			put(j, "\\ufffd", 6);
		else if (c < 0x20 || c == 0x7f)
			put(j, escape, sizeof(escape));
		else {
			if (c == '"' || c == '\\')
				put_char(j, '\\');
			put_char(j, (char)c);
		}
	}
	put_char(j, '"');
}

static void put_u64(struct pgw__json *j, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	put(j, digits + at, sizeof(digits) - at);
}

static void begin(struct pgw__json *j, const char *key)
{
	if (j->comma)
		put_char(j, ',');
	j->comma = true;
	if (key) {
		put_string(j, key);
		put_char(j, ':');
	}
}

void pgw__json_open(struct pgw__json *j, const char *key, char bracket)
{
	begin(j, key);
	put_char(j, bracket);
	j->comma = false;
}

void pgw__json_close(struct pgw__json *j, char bracket)
{
	put_char(j, bracket);
	j->comma = true;
}

void pgw__json_u64(struct pgw__json *j, const char *key, uint64_t v)
{
	begin(j, key);
	put_u64(j, v);
}

void pgw__json_ratio(struct pgw__json *j, const char *key, uint64_t num, uint64_t den)
{
	uint64_t rest;

	begin(j, key);
	if (!den) {
		put(j, "null", 4);
		return;
	}
	put_u64(j, num / den);
	rest = (uint64_t)((double)(num % den) * 100 / (double)den);
	if (rest > 99) /* the division rounded up to the next whole */
		rest = 99;
	put_char(j, '.');
	put_char(j, (char)('0' + rest / 10));
	put_char(j, (char)('0' + rest % 10));
}

void pgw__json_bool(struct pgw__json *j, const char *key, bool v)
{
	begin(j, key);
	if (v)
		put(j, "true", 4);
	else
		put(j, "false", 5);
}

void pgw__json_str(struct pgw__json *j, const char *key, const char *v)
{
	begin(j, key);
	if (v)
		put_string(j, v);
	else
		put(j, "null", 4);
}
