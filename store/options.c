/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - see options.h and pagewise/store.h.
 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

/* Below a page of LMDB nothing is bounded; above this no sum overflows. */
#define BYTES_MIN 4096u
#define BYTES_MAX (UINT64_C(1) << 50)
#define MS_MAX	  (24u * 3600u * 1000u)
#define MAP_MIN	  (UINT64_C(1) << 20)
#define MAP_MAX	  (UINT64_C(1) << 47)

#define BUILT_IN                                                                             \
	{                                                                                    \
		.size = sizeof(struct pgw_env_options), .durability = PGW_DURABILITY_STRICT, \
		.checkpoint_ms = 100, .checkpoint_bytes = UINT64_C(16) << 20, .mode = 0664,  \
	}

static struct pgw_env_options of_the_process = BUILT_IN;

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

static bool set_durability(const char *value, struct pgw_env_options *o)
{
	for (unsigned i = 0; i < DURABILITIES; i++) {
		if (!strcmp(value, durability_names[i])) {
			o->durability = (enum pgw_durability)i;
			return true;
		}
	}
	return false;
}

static bool set_nosync(const char *value, struct pgw_env_options *o)
{
	bool relaxed = !strcmp(value, "relaxed");

	if (!relaxed && strcmp(value, "plain"))
		return false;
	o->nosync_relaxed = relaxed;
	return true;
}

static bool set_checkpoint_ms(const char *value, struct pgw_env_options *o)
{
	uint64_t n;

	if (!parse_number(value, 1, MS_MAX, &n))
		return false;
	o->checkpoint_ms = (unsigned)n;
	return true;
}

static bool set_checkpoint_bytes(const char *value, struct pgw_env_options *o)
{
	return parse_number(value, BYTES_MIN, BYTES_MAX, &o->checkpoint_bytes);
}

static bool set_map(const char *value, struct pgw_env_options *o)
{
	uint64_t n = 0;

	if (strcmp(value, "lmdb") && !parse_number(value, MAP_MIN, MAP_MAX, &n))
		return false;
	o->map_size = n;
	return true;
}

static bool set_warm(const char *value, struct pgw_env_options *o)
{
	return parse_number(value, 0, MAP_MAX, &o->warm_bytes);
}

static const struct {
	const char *key;
	bool (*set)(const char *value, struct pgw_env_options *o);
	const char *takes;
} keys[] = {
	{ "durability", set_durability, "durability takes strict, group or relaxed" },
	{ "nosync", set_nosync, "nosync takes plain or relaxed" },
	{ "checkpoint_ms", set_checkpoint_ms, "checkpoint_ms takes 1 to 86400000" },
	{ "checkpoint_bytes", set_checkpoint_bytes,
	    "checkpoint_bytes takes 4K to 1024T, with K, M, G or T behind the number" },
	{ "map", set_map, "map takes lmdb, or 1M to 128T with M, G or T behind the number" },
	{ "warm", set_warm, "warm takes 0 to 128T, with K, M, G or T behind the number" },
};
#define KEYS (sizeof(keys) / sizeof(*keys))

/* NULL, or what is wrong with it. */
static const char *set_item(const char *item, size_t len, struct pgw_env_options *o)
{
	const char *colon = memchr(item, ':', len);
	size_t key_len = colon ? (size_t)(colon - item) : len;
	char value[32] = "";

	for (size_t i = 0; i < KEYS; i++) {
		if (strlen(keys[i].key) != key_len || memcmp(keys[i].key, item, key_len) != 0)
			continue;
		len -= key_len + (colon != NULL);
		if (!colon || len >= sizeof(value))
			return keys[i].takes;
		memcpy(value, colon + 1, len);
		value[len] = '\0';
		return keys[i].set(value, o) ? NULL : keys[i].takes;
	}
	return "there is durability, nosync, checkpoint_ms, checkpoint_bytes, map and warm, each "
	       "followed by a colon and its value";
}

bool pgw__options_parse(
    const char **text, struct pgw_env_options *o, struct pgw__options_error *error)
{
	while (**text) {
		const char *item = *text;
		size_t len = strcspn(item, ",");

		*error = (struct pgw__options_error){ .item = item, .len = len };
		*text = item + len + (item[len] == ',');
		if (len > 0)
			error->why = set_item(item, len, o);
		if (error->why)
			return false;
	}
	return true;
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

bool pgw__options_unsynced(unsigned flags)
{
	const unsigned async = MDB_WRITEMAP | MDB_MAPASYNC;

	return (flags & MDB_NOSYNC) || (flags & async) == async;
}

bool pgw__options_checkpointed(const struct pgw_env_options *o, unsigned flags)
{
	if (o->durability != PGW_DURABILITY_STRICT)
		return true;
	return o->nosync_relaxed && pgw__options_unsynced(flags);
}

struct pgw_env_options *pgw__options_default(void)
{
	return &of_the_process;
}

PUBLIC void pgw_env_options_init(struct pgw_env_options *o)
{
	*o = (struct pgw_env_options)BUILT_IN;
}
