/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - see options.h and pagewise/store.h.
 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define PUBLIC __attribute__((visibility("default")))

/* Below a page of LMDB nothing is bounded; above this no sum overflows. */
#define BYTES_MIN 4096u
#define BYTES_MAX (UINT64_C(1) << 50)
#define MS_MAX	  (24u * 3600u * 1000u)
#define MAP_MIN	  (UINT64_C(1) << 20)
#define MAP_MAX	  (UINT64_C(1) << 47)

static const struct pgw_env_options built_in = {
	.size = sizeof(struct pgw_env_options),
	.durability = PGW_DURABILITY_STRICT,
	.checkpoint_ms = 100,
	.checkpoint_bytes = UINT64_C(16) << 20,
	.mode = 0664,
};

static struct pgw_env_options from_environment;

static const char *const durability_names[] = {
	[PGW_DURABILITY_STRICT] = "strict",
	[PGW_DURABILITY_GROUP] = "group",
	[PGW_DURABILITY_RELAXED] = "relaxed",
};
#define DURABILITIES (sizeof(durability_names) / sizeof(*durability_names))

PUBLIC const char *pgw_durability_name(enum pgw_durability d)
{
	return (unsigned)d < DURABILITIES ? durability_names[d] : NULL;
}

static bool parse_durability(const char *value, enum pgw_durability *out)
{
	for (unsigned i = 0; i < DURABILITIES; i++) {
		if (!strcmp(value, durability_names[i])) {
			*out = (enum pgw_durability)i;
			return true;
		}
	}
	return false;
}

/* A decimal number with an optional K, M, G or T, in either case. */
static bool parse_number(const char *value, uint64_t min, uint64_t max, uint64_t *out)
{
	static const char units[] = "KkMmGgTt";
	const char *unit;
	unsigned long long n;
	char *end;

	if (*value < '0' || *value > '9')
		return false;
	errno = 0;
	n = strtoull(value, &end, 10);
	if (errno)
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		unsigned shift = 10 * (unsigned)((unit - units) / 2 + 1);

		if (n > UINT64_MAX >> shift)
			return false;
		n <<= shift;
		end++;
	}
	if (*end || n < min || n > max)
		return false;
	*out = n;
	return true;
}

static bool parse_item(const char *key, const char *value, struct pgw_env_options *o)
{
	uint64_t n;

	if (!strcmp(key, "durability"))
		return parse_durability(value, &o->durability);
	if (!strcmp(key, "nosync")) {
		o->nosync_relaxed = !strcmp(value, "relaxed");
		return o->nosync_relaxed || !strcmp(value, "plain");
	}
	if (!strcmp(key, "map")) {
		n = 0;
		if (strcmp(value, "lmdb") && !parse_number(value, MAP_MIN, MAP_MAX, &n))
			return false;
		o->map_size = n;
		return true;
	}
	if (!strcmp(key, "warm"))
		return parse_number(value, 0, MAP_MAX, &o->warm_bytes);
	if (!strcmp(key, "checkpoint_ms")) {
		if (!parse_number(value, 1, MS_MAX, &n))
			return false;
		o->checkpoint_ms = (unsigned)n;
		return true;
	}
	if (!strcmp(key, "checkpoint_bytes")) {
		if (!parse_number(value, BYTES_MIN, BYTES_MAX, &n))
			return false;
		o->checkpoint_bytes = n;
		return true;
	}
	return false;
}

bool pgw__options_parse(const char *text, struct pgw_env_options *o, char *bad, size_t cap)
{
	bool good = true;

	while (*text) {
		size_t len = strcspn(text, ",");
		char item[64], *value;
		bool ok = false;

		if (len < sizeof(item)) {
			memcpy(item, text, len);
			item[len] = '\0';
			value = strchr(item, ':');
			if (value)
				*value++ = '\0';
			ok = !len || (value && parse_item(item, value, o));
		}
		if (!ok && good && cap) {
			size_t n = len < cap - 1 ? len : cap - 1;

			memcpy(bad, text, n);
			bad[n] = '\0';
		}
		good = good && ok;
		text += len;
		text += *text == ',';
	}
	return good;
}

int pgw__options_check(const struct pgw_env_options *o)
{
	if (!o || o->size != sizeof(*o) || (unsigned)o->durability >= DURABILITIES)
		return -EINVAL;
	if (o->checkpoint_ms < 1 || o->checkpoint_ms > MS_MAX)
		return -EINVAL;
	if (o->checkpoint_bytes < BYTES_MIN || o->checkpoint_bytes > BYTES_MAX)
		return -EINVAL;
	return 0;
}

bool pgw__options_checkpointed(const struct pgw_env_options *o, unsigned flags)
{
	if (o->durability != PGW_DURABILITY_STRICT)
		return true;
	return o->nosync_relaxed && (flags & (MDB_NOSYNC | MDB_MAPASYNC));
}

const struct pgw_env_options *pgw__options_default(void)
{
	return &from_environment;
}

PUBLIC void pgw_env_options_init(struct pgw_env_options *o)
{
	*o = built_in;
}

__attribute__((constructor)) static void read_environment(void)
{
	const char *text = secure_getenv("PAGEWISE_STORE");
	char bad[64];

	from_environment = built_in;
	if (text && !pgw__options_parse(text, &from_environment, bad, sizeof(bad)))
		pgw__warn(bad, ": not understood in PAGEWISE_STORE and ignored; known are "
			       "durability:strict|group|relaxed, nosync:plain|relaxed, "
			       "checkpoint_ms:N, checkpoint_bytes:N[K|M|G|T], map:lmdb|N[K|M|G|T], "
			       "warm:N[K|M|G|T]");
}
