/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The auditor finds every class of damage: one sound file, one cut into it at a time, and the class
 * must be reported, on the right page where there is one.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit.h"
#include "damage.h"
#include "image.h"
#include "shapes.h"

static bool reported(const struct audit_report *r, enum audit_class what, uint64_t at)
{
	for (size_t i = 0; i < r->n_problems; i++) {
		if (r->problems[i].what == what && (at == ANY || r->problems[i].page == at))
			return true;
	}
	return false;
}

static void every_class_is_found(void **state)
{
	const struct audit_options opt = { .max_problems = 100000 };

	for (size_t i = 0; i < damage_n_cuts; i++) {
		struct image m = load();
		const size_t len = m.len;
		struct audit_report r;
		uint64_t at;

		at = damage_cuts[i].cut(&m);
		assert_int_equal(audit_memory(m.p, m.len, &opt, &r), 0);
		if (!reported(&r, damage_cuts[i].what, at)) {
			audit_print_text(stderr, &r);
			fail_msg("cut %zu: %s not reported on page %llu", i,
			    audit_class_name(damage_cuts[i].what), (unsigned long long)at);
		}
		assert_true(audit_is_note(damage_cuts[i].what) ? r.notes : r.errors);
		audit_finish(&r);
		munmap(m.p, len);
	}
}

/* The table of cuts leaves none out, and every class has its texts. */
static void every_class_has_a_cut(void **state)
{
	for (int c = 0; c < AUDIT_CLASS_COUNT; c++) {
		bool seen = false;

		for (size_t i = 0; i < damage_n_cuts; i++)
			seen |= (int)damage_cuts[i].what == c;
		assert_true(seen);
		assert_non_null(audit_class_name(c));
		assert_non_null(audit_class_text(c));
	}
}

/* Order is not checked where the caller says it is the application's. */
static void custom_order(void **state)
{
	const char *const text[] = { "text", NULL }, *const all[] = { "*", NULL };
	const struct audit_options keys = { .custom_key_order = text },
				   values = { .custom_dup_order = all };
	struct image m = load();
	struct audit_report r;

	cut_key_order(&m);
	assert_int_equal(audit_memory(m.p, m.len, &keys, &r), 0);
	assert_true(audit_sound(&r));
	for (size_t i = 0; i < r.n_dbs; i++)
		assert_int_equal(r.dbs[i].keys_unordered,
		    r.dbs[i].name.n == 4 && !memcmp(r.dbs[i].name.p, "text", 4));
	audit_finish(&r);
	assert_int_equal(audit_memory(m.p, m.len, &values, &r), 0);
	assert_true(r.count[AUDIT_KEY_ORDER]);
	audit_finish(&r);
	munmap(m.p, m.len);
}

/* A file cut short anywhere is reported, and a changed value changes the digest. */
static void short_files_and_values(void **state)
{
	struct image m = load();
	struct audit_report whole, r;
	uint64_t at;

	assert_int_equal(audit_memory(m.p, m.len, NULL, &whole), 0);
	assert_true(audit_sound(&whole));
	for (size_t len = 0; len < m.len - m.psize * 64; len += m.len / 150) {
		assert_int_equal(audit_memory(m.p, len, NULL, &r), 0);
		assert_false(audit_sound(&r));
		audit_finish(&r);
	}
	page(&m, fmt_u64(value(find_node(&m, "big", FMT_BIG, &at))))[1000] ^= 1;
	assert_int_equal(audit_memory(m.p, m.len, NULL, &r), 0);
	assert_true(audit_sound(&r));
	assert_false(audit_digest_equal(whole.digest, r.digest));
	audit_finish(&r);
	audit_finish(&whole);
	munmap(m.p, m.len);
}

/* Random bytes in random pages, some of it in the headers: a report, never a crash. */
static void random_damage(void **state)
{
	const struct audit_options opt = { .max_problems = 8 };
	uint64_t seed = 42;

	for (int round = 0; round < 200; round++) {
		struct image m = load();
		struct audit_report r;

		for (int i = 0; i < 1 + round % 16; i++) {
			uint64_t at;

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			at = (seed >> 20) % (m.len / m.psize) * m.psize;
			if (i % 2)
				at += (seed >> 50) % 64;
			else
				at += (seed >> 50) % m.psize;
			m.p[at] ^= (uint8_t)(seed >> 8 | 1);
		}
		assert_int_equal(audit_memory(m.p, m.len, &opt, &r), 0);
		audit_finish(&r);
		munmap(m.p, m.len);
	}
}

static int setup(void **state)
{
	return image_setup(state) || shape_create(shape_find("everything"), image_path, 0) ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_class_has_a_cut),
		cmocka_unit_test(every_class_is_found),
		cmocka_unit_test(custom_order),
		cmocka_unit_test(short_files_and_values),
		cmocka_unit_test(random_damage),
	};

	return cmocka_run_group_tests(tests, setup, image_teardown);
}
