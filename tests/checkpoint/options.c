/* SPDX-License-Identifier: BSD-2-Clause
 *
 * options.c - PAGEWISE_STORE, and options that make no sense.
 */
#include "util.h"

#include <errno.h>

#include "../../store/options.h"

/* wrong: the items that are not understood, with a space behind each. */
static struct pgw_env_options parsed(const char *text, const char *wrong)
{
	struct pgw__options_error error;
	struct pgw_env_options o;
	char found[256] = "";

	pgw_env_options_init(&o);
	while (!pgw__options_parse(&text, &o, &error)) {
		assert_non_null(error.why);
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%.*s ",
		    (int)error.len, error.item);
	}
	assert_string_equal(found, wrong);
	return o;
}

static void understands(void **state)
{
	struct pgw_env_options o;

	o = parsed("durability:group,nosync:relaxed,checkpoint_ms:50,checkpoint_bytes:2M", "");
	assert_int_equal(o.durability, PGW_DURABILITY_GROUP);
	assert_true(o.nosync_relaxed);
	assert_int_equal(o.checkpoint_ms, 50);
	assert_int_equal(o.checkpoint_bytes, 2 << 20);
	assert_int_equal(parsed("map:2T", "").map_size, (size_t)2 << 40);
	assert_int_equal(parsed("map:2T,map:lmdb", "").map_size, 0);
	assert_int_equal(parsed("checkpoint_bytes:16m", "").checkpoint_bytes, 16 << 20);
	assert_int_equal(parsed("map:2t", "").map_size, (size_t)2 << 40);
	assert_int_equal(parsed("map:3G", "").map_size, (size_t)3 << 30);
	assert_int_equal(parsed("warm:1G", "").warm_bytes, 1 << 30);
	assert_false(parsed("nosync:relaxed,nosync:plain", "").nosync_relaxed);
	assert_int_equal(pgw_env_checkpoint(NULL), EINVAL);
	o = parsed("", "");
	assert_int_equal(o.durability, PGW_DURABILITY_STRICT);
	o = parsed(",,durability:relaxed,", "");
	assert_int_equal(o.durability, PGW_DURABILITY_RELAXED);
}

static void names_each_item_it_does_not_understand(void **state)
{
	struct pgw_env_options o;

	o = parsed("durability:gruop,checkpoint_ms:5,speed:11,nosync:relaxed,nosync:no,,warm",
	    "durability:gruop speed:11 nosync:no warm ");
	assert_int_equal(o.durability, PGW_DURABILITY_STRICT);
	assert_int_equal(o.checkpoint_ms, 5); /* the rest counts */
	assert_true(o.nosync_relaxed);
	parsed("checkpoint_ms:0", "checkpoint_ms:0 ");
	parsed("checkpoint_ms:-1", "checkpoint_ms:-1 ");
	parsed("checkpoint_ms:5x,speed:11", "checkpoint_ms:5x speed:11 ");
	parsed("checkpoint_bytes:99999999T", "checkpoint_bytes:99999999T ");
	parsed("checkpoint_bytes:18446744073709551616", "checkpoint_bytes:18446744073709551616 ");
	parsed("checkpoint_bytes:0000000000000000000000000000004096",
	    "checkpoint_bytes:0000000000000000000000000000004096 ");
	parsed("map:1K", "map:1K ");
	parsed("map:512T", "map:512T ");
	parsed("durability", "durability ");
	parsed("durability:,dura:group", "durability: dura:group ");
	parsed(":", ": ");
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
		cmocka_unit_test(names_each_item_it_does_not_understand),
		cmocka_unit_test_setup_teardown(
		    refuses_options_that_make_no_sense, make_dir, remove_dir),
		cmocka_unit_test(has_a_name_for_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
