/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - PAGEWISE_ALLOC=key:value,...
 */
#include "options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define NUMBER		 { NULL, NULL }, NULL
#define WORDS(zero, one) { zero, one }, "takes " zero " or " one
#define ON_OFF		 WORDS("off", "on")

static const struct {
	const char *key;
	uint64_t min, max;
	const char *words[2]; /* for 0 and 1; none: a number */
	const char *words_only;
} options[PGW_ALLOC_OPTION_COUNT] = {
	[PGW_ALLOC_PENDING] = { "pending", 0, TIB, NUMBER },
	[PGW_ALLOC_SHARE] = { "share", 0, 100, NUMBER },
	[PGW_ALLOC_RANGES] = { "ranges", 1, UINT32_MAX, NUMBER },
	[PGW_ALLOC_AGE] = { "age", 1, 3600 * 1000, NUMBER },
	[PGW_ALLOC_CLEAN] = { "clean", 0, 1024 * TIB, NUMBER },
	[PGW_ALLOC_CHUNK] = { "chunk", 64 * KIB, 64 * GIB, NUMBER },
	[PGW_ALLOC_HIDE] = { "hide", 0, 1024 * TIB, NUMBER },
	[PGW_ALLOC_THREAD] = { "thread", 0, 1, ON_OFF },
	[PGW_ALLOC_HOOKS] = { "hooks", 0, 1, ON_OFF },
	[PGW_ALLOC_ADVICE] = { "advice", 0, 1, WORDS("dontneed", "free") },
	[PGW_ALLOC_LAZY] = { "lazy", 0, 3600 * 1000, NUMBER },
	[PGW_ALLOC_PRESSURE] = { "pressure", 0, 100, NUMBER },
	[PGW_ALLOC_DEEPBIND] = { "deepbind", 0, 1, WORDS("drop", "keep") },
	[PGW_ALLOC_PREFAULT] = { "prefault", 0, TIB, NUMBER },
};

_Atomic uint64_t pgw__option_values[PGW_ALLOC_OPTION_COUNT] = {
	[PGW_ALLOC_PENDING] = 9 * MIB / 4,
	[PGW_ALLOC_SHARE] = 1,
	[PGW_ALLOC_RANGES] = 8192,
	[PGW_ALLOC_AGE] = 100,
	[PGW_ALLOC_CLEAN] = GIB,
	[PGW_ALLOC_CHUNK] = 2 * MIB,
	[PGW_ALLOC_HIDE] = 16 * MIB,
	[PGW_ALLOC_THREAD] = 1,
	[PGW_ALLOC_HOOKS] = 1,
	[PGW_ALLOC_ADVICE] = 0,
	[PGW_ALLOC_LAZY] = 1000,
	[PGW_ALLOC_PRESSURE] = 10,
	[PGW_ALLOC_DEEPBIND] = 0,
	[PGW_ALLOC_PREFAULT] = 0,
};

/* A number with an optional k, m, g or t (powers of 1024). */
static bool parse_number(const char *s, size_t len, uint64_t *out)
{
	uint64_t v = 0;
	unsigned shift = 0;
	size_t i = 0;

	for (; i < len && s[i] >= '0' && s[i] <= '9'; i++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	if (i == 0)
		return false;
	if (i + 1 == len) {
		switch (s[i++] | 0x20) {
		case 'k':
			shift = 10;
			break;
		case 'm':
			shift = 20;
			break;
		case 'g':
			shift = 30;
			break;
		case 't':
			shift = 40;
			break;
		default:
			return false;
		}
	}
	if (i != len || v > UINT64_MAX >> shift)
		return false;
	*out = v << shift;
	return true;
}

static bool is(const char *s, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(s, word, len) == 0;
}

static const char *set_item(const char *item, size_t len)
{
	const char *colon = memchr(item, ':', len);
	size_t klen = colon ? (size_t)(colon - item) : len;
	const char *value = colon ? colon + 1 : item + len;
	size_t vlen = colon ? len - klen - 1 : 0;
	uint64_t v;

	for (int o = 0; o < PGW_ALLOC_OPTION_COUNT; o++) {
		if (!is(item, klen, options[o].key))
			continue;
		if (!colon)
			return "has no value (write key:value)";
		if (options[o].words_only) {
			v = is(value, vlen, options[o].words[1]);
			if (!v && !is(value, vlen, options[o].words[0]))
				return options[o].words_only;
		} else if (!parse_number(value, vlen, &v)) {
			return "takes a number, with k, m, g or t behind it if wanted";
		}
		if (v < options[o].min || v > options[o].max)
			return "is out of range";
		atomic_store_explicit(&pgw__option_values[o], v, memory_order_relaxed);
		return NULL;
	}
	return "is not a known key (pending, share, ranges, age, clean, chunk, hide, thread, "
	       "hooks, "
	       "advice, lazy, pressure, deepbind, prefault)";
}

const char *pgw__options_parse(const char **text, const char **bad, size_t *bad_len)
{
	while (**text) {
		const char *item = *text;
		size_t len = strcspn(item, ",");
		const char *why = len ? set_item(item, len) : NULL;

		*text = item + len + (item[len] == ',');
		if (why) {
			*bad = item;
			*bad_len = len;
			return why;
		}
	}
	return NULL;
}

static char *append(char *to, const char *end, const char *s, size_t len)
{
	if (len > (size_t)(end - to))
		len = (size_t)(end - to);
	memcpy(to, s, len);
	return to + len;
}

/* "key:value" and why it is not taken. */
static void complain(const char *bad, size_t len, const char *why)
{
	static const char head[] = "pagewise: PAGEWISE_ALLOC: \"";
	static const char tail[] = "; ignored (see libpagewise-alloc(7))\n";
	char line[320], *p = line, *end = line + sizeof(line) - sizeof(tail);

	p = append(p, end, head, sizeof(head) - 1);
	p = append(p, end, bad, len < 80 ? len : 80);
	p = append(p, end, "\" ", 2);
	p = append(p, end, why, strlen(why));
	memcpy(p, tail, sizeof(tail) - 1);
	(void)pgw__sys_write_all(STDERR_FILENO, line, (size_t)(p - line) + sizeof(tail) - 1);
}

void pgw__options_load(void)
{
	const char *text = secure_getenv("PAGEWISE_ALLOC");
	const char *bad, *why;
	size_t len;

	while (text && (why = pgw__options_parse(&text, &bad, &len)))
		complain(bad, len, why);
}

int pgw_alloc_option_get(enum pgw_alloc_option option, uint64_t *value)
{
	if ((unsigned)option >= PGW_ALLOC_OPTION_COUNT)
		return -EINVAL;
	*value = pgw__option(option);
	return 0;
}

int pgw__option_set(enum pgw_alloc_option option, uint64_t value)
{
	if ((unsigned)option >= PGW_ALLOC_OPTION_COUNT)
		return -EINVAL;
	if (value < options[option].min || value > options[option].max)
		return -ERANGE;
	atomic_store_explicit(&pgw__option_values[option], value, memory_order_relaxed);
	return 0;
}
