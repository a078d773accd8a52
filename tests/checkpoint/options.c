/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - PAGEWISE_STORE, and options that make no sense.
 */
#include "util.h"

#include <errno.h>

#include "../../store/options.h"

static struct pgw_env_options parsed(const char *text, bool good, const char *what)
{
	struct pgw_env_options o;
	char bad[64] = "";

	pgw_env_options_init(&o);
	assert_int_equal(pgw__options_parse(text, &o, bad, sizeof(bad)), good);
	assert_string_equal(bad, what);
	return o;
}

static void understands(void **state)
{
	struct pgw_env_options o;

	o = parsed(
	    "durability:group,nosync:relaxed,checkpoint_ms:50,checkpoint_bytes:2M", true, "");
	assert_int_equal(o.durability, PGW_DURABILITY_GROUP);
	assert_true(o.nosync_relaxed);
	assert_int_equal(o.checkpoint_ms, 50);
	assert_int_equal(o.checkpoint_bytes, 2 << 20);
	assert_int_equal(parsed("map:2T", true, "").map_size, (size_t)2 << 40);
	assert_int_equal(parsed("map:2T,map:lmdb", true, "").map_size, 0);
	assert_int_equal(parsed("checkpoint_bytes:16m", true, "").checkpoint_bytes, 16 << 20);
	assert_int_equal(parsed("map:2t", true, "").map_size, (size_t)2 << 40);
	assert_int_equal(parsed("map:3G", true, "").map_size, (size_t)3 << 30);
	assert_int_equal(pgw_env_checkpoint(NULL), EINVAL);
	o = parsed("", true, "");
	assert_int_equal(o.durability, PGW_DURABILITY_STRICT);
	o = parsed(",,durability:relaxed,", true, "");
	assert_int_equal(o.durability, PGW_DURABILITY_RELAXED);
}

static void names_the_first_item_it_does_not_understand(void **state)
{
	struct pgw_env_options o;

	o = parsed("durability:gruop,checkpoint_ms:5", false, "durability:gruop");
	assert_int_equal(o.durability, PGW_DURABILITY_STRICT);
	assert_int_equal(o.checkpoint_ms, 5); /* the rest counts */
	parsed("checkpoint_ms:0", false, "checkpoint_ms:0");
	parsed("checkpoint_ms:-1", false, "checkpoint_ms:-1");
	parsed("checkpoint_ms:5x,speed:11", false, "checkpoint_ms:5x");
	parsed("checkpoint_bytes:99999999T", false, "checkpoint_bytes:99999999T");
	parsed("checkpoint_bytes:18446744073709551616", false,
	    "checkpoint_bytes:18446744073709551616");
	parsed("map:1K", false, "map:1K");
	parsed("map:512T", false, "map:512T");
	parsed("durability", false, "durability");
	parsed("speed:11", false, "speed:11");
}

static void refuses_options_that_make_no_sense(void **state)
{
	struct pgw_env_options o;
	MDB_env *env = (MDB_env *)1;

	pgw_env_options_init(&o);
	assert_int_equal(pgw__options_check(&o), 0);
	o.size--;
	assert_int_equal(pgw_env_open(*state, &o, &env), EINVAL);
	pgw_env_options_init(&o);
	o.checkpoint_ms = 0;
	assert_int_equal(pgw_env_open(*state, &o, &env), EINVAL);
	pgw_env_options_init(&o);
	o.durability = (enum pgw_durability)3;
	assert_int_equal(pgw_env_open(*state, &o, &env), EINVAL);
	assert_int_equal(pgw_env_open(NULL, NULL, &env), EINVAL);
	assert_ptr_equal(env, (MDB_env *)1);
}

static void has_a_name_for_everything(void **state)
{
	assert_string_equal(pgw_durability_name(PGW_DURABILITY_RELAXED), "relaxed");
	assert_null(pgw_durability_name((enum pgw_durability)3));
	assert_string_equal(pgw_record_state_name(PGW_RECORD_PROVEN), "proven");
	assert_null(pgw_record_state_name((enum pgw_record_state)99));
	assert_string_equal(pgw_recover_action_name(PGW_RECOVER_NOTHING), "nothing");
	assert_string_equal(pgw_recover_action_name(PGW_RECOVER_REFUSED), "refused");
	assert_null(pgw_recover_action_name((enum pgw_recover_action)(PGW_RECOVER_REFUSED + 1)));
	for (int code = PGW_NOT_POSSIBLE; code <= PGW_BUSY; code++)
		assert_non_null(strstr(mdb_strerror(code), "PGW_"));
	assert_string_equal(pgw_strerror(-ENOSPC), strerror(ENOSPC));
	assert_string_equal(pgw_strerror(ENOSPC), strerror(ENOSPC));
	assert_non_null(strstr(pgw_strerror(MDB_MAP_FULL), "MDB_MAP_FULL"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(understands),
		cmocka_unit_test(names_the_first_item_it_does_not_understand),
		cmocka_unit_test_setup_teardown(
		    refuses_options_that_make_no_sense, make_dir, remove_dir),
		cmocka_unit_test(has_a_name_for_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
